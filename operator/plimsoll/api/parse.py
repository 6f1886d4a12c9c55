"""Parse an object from the API server or a file. Turn pydantic's errors into sentences that name the field."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from plimsoll.api.crd.not_carried import is_refused
from plimsoll.api.crd.schema import Schema, root_schema
from plimsoll.api.gpu_names import unknown_gpu_names
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.api.v1alpha1.base import NO_BUCKETS
from plimsoll.domain.errors import InvalidInput, shortened
from plimsoll.domain.kubernetes_names import API_VERSION, KIND
from plimsoll.facts.models.hub_address import read_hub_address

_LONGEST_PART = 80
_MOST_PARTS = 5
_MOST_NAMED = 8
"""The most fields that are listed for one that does not exist."""
_MODEL_NAMES = (("model", "name"), ("draftModel", "name"))
_MODEL_FIELDS = (*_MODEL_NAMES, ("model", "path"), ("draftModel", "path"))
"""The ends of the paths of fields that name a model, and of those that say where it is."""


def parse_inference_deployment(
    body: Mapping[str, Any], gpu_names: Collection[str] | None = None
) -> InferenceDeployment:
    """Parse one object.

    Args:
        body: the object.
        gpu_names: the GPU types that exist, so that an error about other fields names unknown types, too.

    Raises:
        InvalidInput: the fields that cannot be used, as the user wrote them. The first one is its own.
    """
    if body.get("kind") != KIND or body.get("apiVersion") != API_VERSION:
        kind = f"{_shown(body.get('apiVersion'))}/{_shown(body.get('kind'))}"
        raise InvalidInput("kind", kind, f"Write apiVersion: {API_VERSION} and kind: {KIND}.")
    _check_top(body)
    try:
        return InferenceDeployment.model_validate(_without_nulls(body, root_schema()))
    except ValidationError as error:
        first, *others = (_invalid(each) for each in error.errors(include_url=False))
        others += [] if gpu_names is None else unknown_gpu_names(body.get("spec"), gpu_names)
        raise InvalidInput(first.field, first.value, first.fix, others) from error
    except RecursionError as error:  # only from a file: the API server stores no objects this deep
        raise InvalidInput(_path(_deepest(body)), "...", "It is nested too deep: write fewer levels.") from error


def _invalid(error: ErrorDetails) -> InvalidInput:
    # For a missing field, pydantic's input is the whole object around it.
    value = None if error["type"] == "missing" else error.get("input")
    return InvalidInput(
        _path(error["loc"]), _present(value) if error["type"] == "extra_forbidden" else value, _fix(error)
    )


def _present(value: object) -> object:
    """Return the value of a field that should not be there: null is not missing there."""
    return "null" if value is None else value


def _check_top(body: Mapping[str, Any]) -> None:
    """Refuse fields next to ``spec``. The operator's own notes on an object have a slash in their names."""
    known = root_schema()["properties"]
    for name, value in body.items():
        if "/" in str(name) or (name in known and (value is None or not is_refused(known[name]))):
            continue
        raise InvalidInput(_path([str(name)]), _present(value), _unknown([str(name)]))


def _without_nulls(value: Any, schema: Schema) -> Any:
    """Leave out fields that are refused and null, as the API server does before it looks at rules."""
    children = schema.get("properties")
    if not isinstance(value, Mapping) or not children:
        return value
    return {
        name: _without_nulls(each, children.get(name, {}))
        for name, each in value.items()
        if each is not None or not is_refused(children.get(name, {}))
    }


def _deepest(body: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return the beginning of the path to the deepest part, found level by level."""
    level: list[tuple[tuple[str | int, ...], Any]] = [((), body)]
    path: tuple[str | int, ...] = ()
    while level:
        path = level[0][0]
        level = [((*path, key)[:_MOST_PARTS], child) for path, node in level for key, child in _members(node)]
    return path


def _members(node: Any) -> Iterable[tuple[str | int, Any]]:
    """Return the mappings and lists inside a mapping or list, with their keys or indices."""
    members: Iterable[tuple[Any, Any]] = ()
    if isinstance(node, dict):
        members = node.items()
    elif isinstance(node, list):
        members = enumerate(node)
    return [
        (key if isinstance(key, int) else str(key), child) for key, child in members if isinstance(child, dict | list)
    ]


def _shown(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _LONGEST_PART else shortened(value)


def _path(location: Sequence[str | int]) -> str:
    """Return the field as users write it, e.g. ``spec.podTemplate.env[0].name``. Shorten long or unprintable keys."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":  # pydantic adds "[key]" for an error in a mapping's key; the part before it is the key
            plain = len(part) <= _LONGEST_PART and part.isprintable()
            path += f".{part}" if plain else f".{shortened(part[:_LONGEST_PART])}..."
    return path.removeprefix(".")


def _fix(error: ErrorDetails) -> str:
    """Return pydantic's message and the field's description, which says what to write."""
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"])
    given = error.get("input")
    is_name = error["loc"][-2:] in _MODEL_NAMES and isinstance(given, str)
    found = read_hub_address(given) if is_name else None
    if found is not None:
        revision = f", and its revision {found.revision} in the field revision" if found.revision else ""
        return f"Write the name alone, {found.name}{revision}: the address of its page is no name."
    if error["type"] == "string_pattern_mismatch" and error["loc"][-2:] in _MODEL_FIELDS and "://" in str(given):
        field = _path([part for part in error["loc"] if part not in ("spec", "engine")])  # as the CRD's rule says it
        return f"{field}: {NO_BUCKETS}."
    if error["type"] == "missing":
        return f"Write it: {_description(error['loc']) or 'the field is required.'}"
    message = "Write a mapping" if error["type"] == "model_type" else error["msg"].removeprefix("Value error, ")
    return f"{message}. {_description(error['loc'])}".rstrip()


def _unknown(path: Sequence[str | int]) -> str:
    """Return what to do with a field that does not exist: the rule that refuses it, or the field of a similar name."""
    *_, around, node = _nodes(path)
    if is_refused(node):
        return f"{node['x-kubernetes-validations'][0]['message']}."
    name, known = str(path[-1]), [each for each, child in around.get("properties", {}).items() if not is_refused(child)]
    similar = get_close_matches(name.lower()[:_LONGEST_PART], [each.lower() for each in known], n=1)
    meant = next((each for each in known if each.lower() in similar), None)
    if meant is not None:
        return f"There is no such field: write {meant}."
    return "There is no such field: " + (
        f"write one of {', '.join(known)}, or remove it."
        if 0 < len(known) <= _MOST_NAMED
        else "check its spelling, or remove it."
    )


def _description(path: Sequence[str | int]) -> str:
    """Return the description of a field in the CRD, or of the nearest field around it that has one."""
    found = [str(node["description"]) for node in _nodes(path)[1:] if node.get("description")]
    return found[-1] if found else ""


def _nodes(path: Sequence[str | int]) -> list[Schema]:
    """Return the schemas on the way to a field, from that of the whole object on; empty ones if there is none."""
    nodes = [root_schema()]
    for part in path:
        node = nodes[-1]
        below = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
        nodes.append(below or node.get("additionalProperties") or {})
    return nodes
