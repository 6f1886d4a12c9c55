"""Reading an object from the API server or a file: pydantic's errors become sentences that name the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from plimsoll.api.schema import crd
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.names import API_VERSION, KIND


def parse_inference_deployment(body: Mapping[str, Any]) -> InferenceDeployment:
    """Parse one object.

    Raises:
        InvalidInput: the first field that cannot be used, as the user wrote it.
    """
    if body.get("kind") != KIND or body.get("apiVersion") != API_VERSION:
        kind = f"{body.get('apiVersion')}/{body.get('kind')}"
        raise InvalidInput("kind", kind, f"Write apiVersion: {API_VERSION} and kind: {KIND}.")
    try:
        return InferenceDeployment.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        # Of what is missing, pydantic shows all that is there.
        value = None if first["type"] == "missing" else first.get("input")
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(path, value, _fix(first)) from error


def _fix(error: ErrorDetails) -> str:
    """What is wrong in pydantic's words, and in those of the field's description what to write."""
    if error["type"] == "extra_forbidden":
        return "There is no such field: check its spelling, or remove it."
    told = "Write a mapping" if error["type"] == "model_type" else error["msg"]
    return f"{told}. {_description(tuple(error['loc']))}".rstrip()


@lru_cache(maxsize=256)
def _description(path: Sequence[str | int]) -> str:
    """The description of a field in the CRD; empty where it has none."""
    node = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path:
        children = {"items": node.get("items", {})} if isinstance(part, int) else node.get("properties", {})
        node = children.get("items" if isinstance(part, int) else part, {})
    return str(node.get("description", ""))
