"""Reading an object from the API server or a file: pydantic's errors become sentences that name the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

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
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(path, first.get("input"), f"{first['msg']}.") from error
