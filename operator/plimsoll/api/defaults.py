"""The defaults that the API server fills in when it stores an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.api.schema import Schema, root_schema


def with_defaults(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an InferenceDeployment with all defaults of its CRD and without null fields."""
    return dict(_filled(body, root_schema()))


def _filled(value: Any, schema: Schema) -> Any:
    """Fill in defaults from the outside in, as the API server does it."""
    if isinstance(value, Mapping):
        return _filled_mapping(value, schema)
    if isinstance(value, list) and "items" in schema:
        return [_filled(each, schema["items"]) for each in value]
    return value


def _filled_mapping(value: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    children = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    given = {name: each for name, each in value.items() if each is not None or name not in children}
    absent = {name: child["default"] for name, child in children.items() if "default" in child and name not in given}
    return {name: _filled(each, children.get(name, others)) for name, each in (given | absent).items()}
