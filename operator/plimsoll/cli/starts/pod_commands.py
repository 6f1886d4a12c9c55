"""The containers of a manifest: their words, variables, GPUs and nodes, as Kubernetes resolves them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.starts import unresolved
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
    """Return the value at a path of keys; None where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def listed(value: Any, *path: str) -> list[Any]:
    """Return the list at a path of keys; empty where there is none."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def texts(value: Any, place: str) -> tuple[str, ...]:
    """Return a list of words; empty where there is none. Numbers count as written.

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
    """Return a quantity of GPUs; None where it is none."""
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
