"""The command of a server in manifests of Kubernetes or in a file of Docker Compose: containers, as both resolve them.

Source: the Compose specification, https://github.com/compose-spec/compose-spec (services, interpolation, deploy).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll.cli.reading.files import read_text, title
from plimsoll.cli.reading.yaml_documents import Broken, read_documents
from plimsoll.cli.starts.written_commands import Server, Written, example, readers, server_in
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import KIND
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import as_written, unresolved
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
"""A variable in a container's words, and the escape. Source: Kubernetes, "Define Dependent Environment Variables"."""

_PODS = (
    ("spec",),
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
    ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec"),
    ("spec", "leaderWorkerTemplate", "workerTemplate", "spec"),
)
"""Where the kinds have their pods: Pod, those with a template, CronJob, and LeaderWorkerSet."""

_SPREAD = "LeaderWorkerSet"
_MOST_LEVELS = 8
"""Lists within lists."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container. ``place`` names it in messages; the other fields are those of a written command."""

    place: str
    image: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    gpus: int | None = None
    resource: str = ""
    labels: tuple[Mapping[str, str], ...] = ()
    spread: bool = False


def pod_containers(document: Mapping[str, Any], level: int = 0) -> Iterator[Container]:
    """Yield the containers of an object, or of the objects of a list, in order.

    Raises:
        InvalidInput: the words of a container are no list of texts.
    """
    items = document.get("items")
    if isinstance(items, list) and level < _MOST_LEVELS:
        for each in items:
            if isinstance(each, dict):
                yield from pod_containers(each, level + 1)
        return
    for path in _PODS:
        pod = at(document, *path)
        for index, body in enumerate(listed(pod, "containers")):
            if isinstance(body, dict):
                yield _container(document, pod, index, body)


def at(value: Any, *path: str) -> Any:
    """Return the value at a path of keys; None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def listed(value: Any, *path: str) -> list[Any]:
    """Return the list at a path of keys; empty if there is none."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def texts(value: Any, place: str) -> tuple[str, ...]:
    """Return a list of words; empty if there is none. Numbers count as written.

    Raises:
        InvalidInput: it is no list, or one of its entries is no word.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidInput(place, value, "Write a list with an entry for each word.")
    for index, each in enumerate(value):
        if isinstance(each, bool) or not isinstance(each, str | int | float):
            raise InvalidInput(f"{place}[{index}]", each, "Write a text in quotes.")
    return tuple(str(each) for each in value)


def whole(value: Any) -> int | None:
    """Return a quantity of GPUs; None if it is none."""
    text = str(value)
    return int(text) if re.fullmatch(r"\d{1,4}", text, re.ASCII) else None


def _container(document: Mapping[str, Any], pod: Any, index: int, body: Mapping[str, Any]) -> Container:
    place = f"{_title(document)}, containers[{index}]"
    name = body.get("name")
    place = f"{place} ({name})" if isinstance(name, str) else place
    environment = _environment(body)
    command, arguments = (
        tuple(_expanded(word, environment) for word in texts(body.get(part), f"{place}.{part}"))
        for part in ("command", "args")
    )
    gpus, resource = _gpus(body)
    image = body.get("image")
    return Container(
        place,
        image if isinstance(image, str) else "",
        command,
        arguments,
        environment,
        gpus,
        f"{place}.{resource}",
        tuple(_label_sets(pod)),
        spread=document.get("kind") == _SPREAD,
    )


def _title(document: Mapping[str, Any]) -> str:
    kind, name = document.get("kind"), at(document, "metadata", "name")
    return "/".join(each for each in (kind, name) if isinstance(each, str)) or "the object"


def _environment(body: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the variables in order. A value from elsewhere is not known."""
    found: dict[str, str] = {}
    for each in listed(body, "env"):
        name = at(each, "name")
        if not isinstance(name, str):
            continue
        value = at(each, "value")
        is_known = at(each, "valueFrom") is None and not isinstance(value, dict | list)
        found[name] = _expanded("" if value is None else str(value), found) if is_known else unresolved(f"$({name})")
    return found


def _expanded(word: str, environment: Mapping[str, str]) -> str:
    """Return a word with its variables. One that is not declared stays as it is."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return _REFERENCE.sub(value, word)


def _gpus(body: Mapping[str, Any]) -> tuple[int | None, str]:
    for part in ("limits", "requests"):
        asked = at(body, "resources", part)
        for name, value in asked.items() if isinstance(asked, dict) else ():
            count = whole(value)
            if isinstance(name, str) and is_gpu_resource(name) and count is not None:
                return count, f"resources.{part}.{name}"
    return None, "resources.limits"


def _label_sets(pod: Any) -> Iterator[Mapping[str, str]]:
    """Yield the labels of each choice of nodes: those of the selector, with one value of a required affinity."""
    selector = at(pod, "nodeSelector")
    base = {key: str(value) for key, value in selector.items()} if isinstance(selector, dict) else {}
    required = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    sets = [
        {**base, key: value}
        for term in listed(pod, *required)
        for key, values in _expressions(term)
        for value in values
    ]
    yield from sets or ([base] if base else [])


def _expressions(term: Any) -> Iterator[tuple[str, Sequence[str]]]:
    for each in listed(term, "matchExpressions"):
        key, values = at(each, "key"), listed(each, "values")
        if at(each, "operator") == "In" and isinstance(key, str):
            yield key, [value for value in values if isinstance(value, str)]


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
            yield _service(f"services.{name}", body)


def _service(place: str, body: Mapping[str, Any]) -> Container:
    image = body.get("image")
    gpus, resource = _service_gpus(body)
    return Container(
        place,
        _interpolated(image) if isinstance(image, str) else "",
        _words(body.get("entrypoint"), f"{place}.entrypoint"),
        _words(body.get("command"), f"{place}.command"),
        dict(_service_variables(body.get("environment"))),
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


def _service_variables(value: Any) -> Iterator[tuple[str, str]]:
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


def _service_gpus(body: Mapping[str, Any]) -> tuple[int | None, str]:
    """Return the GPUs that a service reserves, and the field; None for all, or if nothing says it."""
    reserved = ("deploy", "resources", "reservations", "devices")
    for devices, field in ((listed(body, *reserved), ".".join(reserved)), (listed(body, "gpus"), "gpus")):
        for each in devices:
            if field == "gpus" or "gpu" in listed(each, "capabilities"):
                ids = listed(each, "device_ids")
                return (len(ids) if ids else whole(at(each, "count"))), field
    return None, "deploy.resources"


def command_of_file(name: str) -> Written | dict[str, Any]:
    """Return the first server of a file, or its InferenceDeployment if no container starts one.

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
    """Return the server of one container; None if it is none.

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
