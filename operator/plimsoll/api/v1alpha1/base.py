"""The common part of all models of the API: naming, bounds, and rules that the API server checks."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from plimsoll.api.bounds import MOST_TOKENS

LARGEST_BOUND = 2**53
"""Bounds of a CRD are doubles: beyond this the API server would keep another figure than the one written here."""

MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$"
"""A Hugging Face id, or a name of the user's."""

NAME_OR_ADDRESS: JsonDict = {"pattern": rf"{MODEL_NAME}|^[A-Za-z][A-Za-z0-9+.-]*://"}
PATH_OR_ADDRESS: JsonDict = {"pattern": r"^/|^[A-Za-z][A-Za-z0-9+.-]*://"}
"""The CRD lets all paths and addresses through to its rules: for a text that does not match a pattern, the API server
cannot say what to write instead."""

NO_BUCKETS = (
    "s3://, gs:// and oci:// addresses go into source, and the model of the hub that is there into name, or any name "
    "with config. Mount what has another address with a CSI volume (podTemplate.volumes and volumeMounts), and write "
    "its directory in path"
)

SOURCE = r"^(s3|gs)://[a-z0-9][a-z0-9._-]{1,62}(/[A-Za-z0-9._=@+-]+)*/?$|^oci://[A-Za-z0-9][A-Za-z0-9./_:@-]*$"
"""An address of weights: a bucket and a prefix, or an image."""

Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
Milliseconds = Annotated[int, Field(ge=1, le=3_600_000)]
Bytes64 = Annotated[int, Field(ge=0, le=LARGEST_BOUND)]
GpuTypeName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


def rule(expression: str, message: str, *, field: str = "") -> JsonDict:
    """A CEL rule of the CRD: ``message`` says what to write instead, ``field`` which part of the object it is about."""
    where: JsonDict = {"fieldPath": field} if field else {}
    return {"rule": expression, "message": message, **where}


def no_addresses(model: str) -> tuple[JsonDict, JsonDict]:
    """Return the rules against addresses in the name and the path of a model, in this field of the spec."""
    return (
        rule("!self.name.contains('://')", f"{model}.name: {NO_BUCKETS}", field=".name"),
        rule("!has(self.path) || self.path.startsWith('/')", f"{model}.path: {NO_BUCKETS}", field=".path"),
    )


def _carry_rules(schema: JsonDict, model: type[Any]) -> None:
    """Put a model's CEL rules into its JSON schema, so that the CRD is made from that schema alone."""
    if model.cel_rules:
        schema["x-kubernetes-validations"] = [dict(each) for each in model.cel_rules]


class ApiModel(BaseModel):
    """Camel case outside, snake case inside; unknown fields are errors, as `kubectl apply` warns of them."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        json_schema_extra=_carry_rules,
    )
    cel_rules: ClassVar[tuple[JsonDict, ...]] = ()


OPEN: JsonDict = {
    "type": "object",
    "maxProperties": 64,
    "x-kubernetes-preserve-unknown-fields": True,
    "x-kubernetes-map-type": "atomic",
}
"""A part of an object that Python alone looks into, which one manager owns as a whole."""


def _open(schema: JsonDict, model: type[Any]) -> None:
    """Leave only ``crd_fields`` of the members: below an open object a CRD spells nothing else out."""
    members, named = schema.pop("properties", {}), model.crd_fields
    description = schema["description"]
    schema.clear()
    schema.update(OPEN | {"description": description})
    if named and isinstance(members, dict):
        schema |= {"properties": {name: members[name] for name in named}, "required": [*named]}


class OpenModel(ApiModel):
    """A part of a pod whose fields only Python knows, except for ``crd_fields``: in the CRD it may hold anything."""

    model_config = ConfigDict(json_schema_extra=_open)
    crd_fields: ClassVar[tuple[str, ...]] = ()


def optional(description: str, **more: Any) -> Any:
    """A field that is left out if there is nothing to say."""
    return Field(default=None, description=description, **more)


def several(most: int, description: str) -> Any:
    """A list that is left out if it is empty, and that is replaced as a whole."""
    return optional(description, max_length=most, json_schema_extra={"x-kubernetes-list-type": "atomic"})


def keyed(key: str, most: int, description: str) -> Any:
    """A list that is left out if it is empty, with one entry for each value of this field."""
    kind: JsonDict = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return optional(description, max_length=most, json_schema_extra=kind)
