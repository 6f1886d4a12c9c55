"""The command of a server in manifests of Kubernetes or in a file of Docker Compose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.cli.reading.files import read_text, title
from plimsoll.cli.reading.yaml_documents import Broken, read_documents
from plimsoll.cli.starts.compose_commands import compose_containers, is_compose
from plimsoll.cli.starts.pod_commands import Container, pod_containers
from plimsoll.cli.starts.written_commands import Written, reader, server_in
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.names import KIND
from plimsoll.engines.registry import engine_of
from plimsoll.engines.start_commands import as_written


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
    if found is None and not container.command and reader().is_image(container.image):
        found = container.arguments, container.environment
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
    engine = engine_of().title
    if not containers:
        return (
            "It holds no container: write a Pod, an object with a pod template (Deployment, StatefulSet, Job, "
            f"LeaderWorkerSet, ...), a List of these, a file of Docker Compose, or an {KIND}."
        )
    names = ", ".join(each.place for each in containers[:_MOST_NAMES])
    return f"None of its containers starts a server of {engine} ({names}): `{reader().example}` would be one."


_MOST_NAMES = 4
