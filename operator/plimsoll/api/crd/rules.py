"""The checks of the API server that pydantic's models do not make: the CRD's rules, and entries given twice.

The defaults that the API server fills in when it stores an object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plimsoll.api.cel.expressions import expression
from plimsoll.api.cel.values import CelError
from plimsoll.api.crd.schema import Schema, root_schema
from plimsoll.domain.errors import InvalidInput


def with_defaults(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an InferenceDeployment with all defaults of its CRD and without null fields."""
    return dict(_filled(body, root_schema()))


def _filled(value: Any, schema: Schema) -> Any:
    """Fill in defaults from the outside in, as the API server does it."""
    if isinstance(value, list) and "items" in schema:
        return [_filled(each, schema["items"]) for each in value]
    if not isinstance(value, Mapping):
        return value
    children, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    given = {name: each for name, each in value.items() if each is not None or name not in children}
    absent = {name: child["default"] for name, child in children.items() if "default" in child and name not in given}
    return {name: _filled(each, children.get(name, others)) for name, each in (given | absent).items()}


def check_rules(body: Mapping[str, Any]) -> None:
    """Check one InferenceDeployment that the models accept.

    Raises:
        InvalidInput: the first field against a rule, with the rule's message.
    """
    broken = next(_broken(with_defaults(body), body, root_schema(), ""), None)
    if broken is not None:
        raise broken


def _broken(value: Any, given: Any, schema: Schema, path: str) -> Iterator[InvalidInput]:
    """Yield what is wrong with a value and all below it. ``given`` is the same value without defaults, to be shown."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if not _holds(rule["rule"], value):
            field = f"{path}{rule.get('fieldPath', '')}".strip(".")
            yield InvalidInput(field or "metadata.name", _shown(given, rule, path), f"{rule['message']}.")
    if isinstance(value, Mapping):
        children, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for name, each in value.items():
            below = given.get(name) if isinstance(given, Mapping) else None
            yield from _broken(each, below, children.get(name, others), f"{path}.{name}")
    elif isinstance(value, list):
        yield from _twice(value, schema, path)
        for index, each in enumerate(value):
            written = given[index] if isinstance(given, list) else None
            yield from _broken(each, written, schema.get("items", {}), f"{path}[{index}]")


def _holds(rule: str, value: Any) -> bool:
    """Whether a rule holds. A rule without a value does not, as on the API server."""
    try:
        return expression(rule)({"self": value}) is True
    except CelError:
        return False


def _shown(given: Any, rule: Mapping[str, Any], path: str) -> Any:
    """The value of the field which the rule names; for a rule about the whole object, its name."""
    if not path:
        return given["metadata"].get("name")
    name = str(rule.get("fieldPath", "")).strip(".")
    return given.get(name) if name and isinstance(given, Mapping) else given


def _twice(entries: Sequence[Any], schema: Schema, path: str) -> Iterator[InvalidInput]:
    """Yield each entry that a list may hold once and holds again."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", ())
    if kind not in ("set", "map"):
        return
    seen: list[Any] = []
    for index, entry in enumerate(entries):
        identity = [entry.get(key) for key in keys] if kind == "map" and isinstance(entry, Mapping) else entry
        if identity in seen:
            yield InvalidInput(f"{path.strip('.')}[{index}]", entry, "The list holds it already: remove one of them.")
        seen.append(identity)
