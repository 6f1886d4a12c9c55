"""One object, as read from the API server or a file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from plimsoll.api.v1alpha1.spec import InferenceDeploymentSpec
from plimsoll.domain.kubernetes_names import queue_labels


class ObjectMeta(BaseModel):
    """The metadata that the operator reads. Of the labels these are Kueue's alone."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)
    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 1
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, Any] | None = None
    labels: Annotated[dict[str, str], BeforeValidator(queue_labels)] = Field(default_factory=dict)


class InferenceDeployment(BaseModel):
    """One object of the API. ``status`` stays a plain mapping: the operator reads its own writing field by field."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)
    metadata: ObjectMeta
    spec: InferenceDeploymentSpec
