"""The command of a server in manifests of Kubernetes or in a file of Docker Compose.

The services of a file of Docker Compose as containers.

Source: the Compose specification, https://github.com/compose-spec/compose-spec (services, interpolation, deploy).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.cli.reading.files import read_text, title
from plimsoll.cli.reading.yaml_documents import Broken, read_documents
from plimsoll.cli.starts.pod_commands import Container, at, listed, pod_containers, texts, whole
from plimsoll.cli.starts.written_commands import Server, Written, example, readers, server_in
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import KIND
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import as_written, unresolved

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)(?::?([-?+=])([^{}]*))?\}|\$([A-Za-z_]\w*)")
"""A variable of the user's shell, and the escape."""


def is_compose(document: Mapping[str, Any]) -> bool:
    """Whether a document is a file of Docker Compose."""
    return isinstance(document.get("services"), dict) and "kind" not in document


def compose_containers(document: Mapping[str, Any]) -> Iterator[Container]:
    """Yield the services in order.

    Raises:
        InvalidInput: the words of a service cannot be divided.
    """
    for name, body in document["services"].items():
        if isinstance(body, dict):
            yield _container(f"services.{name}", body)


def _container(place: str, body: Mapping[str, Any]) -> Container:
    image = body.get("image")
    gpus, resource = _gpus(body)
    return Container(
        place,
        _interpolated(image) if isinstance(image, str) else "",
        _words(body.get("entrypoint"), f"{place}.entrypoint"),
        _words(body.get("command"), f"{place}.command"),
        dict(_environment(body.get("environment"))),
        gpus,
        f"{place}.{resource}",
    )


def _words(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, str):
        return tuple(_interpolated(each) for each in texts(value, place))
    try:
        return tuple(shlex.split(_interpolated(value)))
    except ValueError as error:
        raise InvalidInput(place, value, f"It cannot be divided into words ({error}): close its quotes.") from error


def _environment(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the variables of a service. One without a value is that of the user's shell."""
    pairs = (
        value.items()
        if isinstance(value, dict)
        else (_pair(each) for each in value or ())
        if isinstance(value, list)
        else ()
    )
    for name, given in pairs:
        if isinstance(name, str) and not isinstance(given, dict | list):
            yield name, unresolved(f"${name}") if given is None else _interpolated(str(given))


def _pair(entry: Any) -> tuple[str, str | None]:
    name, equals, value = str(entry).partition("=")
    return name, value if equals else None


def _interpolated(text: str) -> str:
    """Return a text with the defaults of its variables. The user's shell is not asked."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name = found[1] or found[4]
        return found[3] if found[2] in ("-", "=") else unresolved(f"${{{name}}}")

    return _VARIABLE.sub(value, text)


def _gpus(body: Mapping[str, Any]) -> tuple[int | None, str]:
    """Return the GPUs that a service reserves, and the field; None for all, or where nothing says it."""
    reserved = ("deploy", "resources", "reservations", "devices")
    for devices, field in ((listed(body, *reserved), ".".join(reserved)), (listed(body, "gpus"), "gpus")):
        for each in devices:
            if field == "gpus" or "gpu" in listed(each, "capabilities"):
                ids = listed(each, "device_ids")
                return (len(ids) if ids else whole(at(each, "count"))), field
    return None, "deploy.resources"


def command_of_file(name: str) -> Written | dict[str, Any]:
    """Return the first server of a file, or its InferenceDeployment where no container starts one.

    Raises:
        InvalidInput: the file cannot be read, or holds neither.
    """
    documents = list(_documents(name))
    containers = [each for document in documents for each in _containers(document)]
    for container in containers:
        found = written(container, name)
        if found is not None:
            return found
    own = [each for each in documents if each.get("kind") == KIND]
    if own:
        return own[0]
    raise InvalidInput("-f", title(name), _no_server(containers))


def written(container: Container, name: str) -> Written | None:
    """Return the server of one container; None where it is none.

    A container without a command runs the entry point of its image, so its arguments are those of the server.
    """
    words = (*container.command, *container.arguments)
    found = server_in(words, container.environment)
    if found is None and not container.command:
        engine = next((name for name, each in readers().items() if each.is_image(container.image)), None)
        found = None if engine is None else Server(engine, container.arguments, container.environment)
    if found is None:
        return None
    return Written(
        *found,
        where=container.place,
        image=as_written(container.image),
        taken=f"Read from {title(name)}: {container.place}.",
        gpus=container.gpus,
        resource=container.resource,
        labels=container.labels,
        spread=container.spread,
    )


def _documents(name: str) -> Iterator[dict[str, Any]]:
    for each in read_documents(read_text(name), is_json=name.endswith(".json")):
        if isinstance(each, Broken):
            raise InvalidInput("-f", title(name), f"Document {each.number} cannot be parsed{each.at}: {each.problem}.")
        if isinstance(each.value, dict):
            yield each.value


def _containers(document: Mapping[str, Any]) -> Iterator[Container]:
    yield from compose_containers(document) if is_compose(document) else pod_containers(document)


def _no_server(containers: list[Container]) -> str:
    titles = " or ".join(engine_of(name).title for name in readers())
    if not containers:
        return (
            "It holds no container: write a Pod, an object with a pod template (Deployment, StatefulSet, Job, "
            f"LeaderWorkerSet, ...), a List of these, a file of Docker Compose, or an {KIND}."
        )
    names = ", ".join(each.place for each in containers[:_MOST_NAMES])
    return f"None of its containers starts a server of {titles} ({names}): `{example()}` would be one."


_MOST_NAMES = 4
