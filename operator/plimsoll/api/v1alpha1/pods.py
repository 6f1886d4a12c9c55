"""What the user may add to the engine pods."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.config import JsonDict

from plimsoll.api.v1alpha1.base import ApiModel, FreeForm, rule


class Toleration(ApiModel):
    """A toleration, as in a pod."""

    key: str | None = Field(
        default=None, max_length=317, description="Key of the taint. Empty with Exists: every taint."
    )
    operator: Annotated[str, Field(pattern=r"^(Exists|Equal)$")] | None = Field(
        default=None, description="Exists or Equal (the default)."
    )
    value: str | None = Field(default=None, max_length=63, description="Value of the taint, for Equal.")
    effect: Annotated[str, Field(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute)$")] | None = Field(
        default=None, description="NoSchedule, PreferNoSchedule or NoExecute. Empty: every effect."
    )
    toleration_seconds: int | None = Field(
        default=None, description="How long a NoExecute taint is tolerated, in seconds. Empty: for ever."
    )


class ModelCacheSpec(ApiModel):
    """Where downloaded weights and compiled kernels are kept."""

    cel_rules: ClassVar[tuple[JsonDict, ...]] = (
        rule(
            "!has(self.claimName) || !has(self.sizeLimit)",
            "modelCache: claimName and sizeLimit exclude each other; a claim has a size of its own",
        ),
    )
    claim_name: str | None = Field(
        default=None, min_length=1, max_length=253, description="PersistentVolumeClaim to mount; survives pods."
    )
    size_limit: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$")] | None = Field(
        default=None, description="Limit of the default emptyDir."
    )


class PodTemplateSpec(ApiModel):
    """What the pods get beside what the operator decides."""

    labels: Annotated[dict[str, str], Field(max_length=32)] | None = Field(
        default=None, description="Further pod labels."
    )
    annotations: Annotated[dict[str, str], Field(max_length=32)] | None = Field(
        default=None, description="Further pod annotations."
    )
    node_selector: Annotated[dict[str, str], Field(max_length=32)] | None = Field(
        default=None, description="Only nodes with these labels are considered."
    )
    tolerations: list[Toleration] | None = Field(
        default=None, max_length=32, description="Further tolerations; the GPU taints are tolerated already."
    )
    env: list[FreeForm] | None = Field(
        default=None, max_length=64, description="Further environment, as in a container."
    )
    service_account_name: str | None = Field(default=None, max_length=253, description="Service account of the pods.")
    image_pull_secrets: list[FreeForm] | None = Field(default=None, max_length=16, description="As in a pod.")
    priority_class_name: str | None = Field(default=None, max_length=253, description="As in a pod.")
    runtime_class_name: str | None = Field(default=None, max_length=253, description="As in a pod, e.g. nvidia.")
    volumes: list[FreeForm] | None = Field(default=None, max_length=32, description="Further volumes, as in a pod.")
    volume_mounts: list[FreeForm] | None = Field(
        default=None, max_length=32, description="Further mounts, as in a container."
    )
    model_cache: ModelCacheSpec | None = Field(default=None, description="Default: an emptyDir.")
    resources: FreeForm | None = Field(
        default=None, description="CPU and memory requests and limits of the engine container; GPUs are the operator's."
    )
