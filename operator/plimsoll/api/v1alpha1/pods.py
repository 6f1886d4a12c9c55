"""The fields of the engine pods that the user may set."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import LARGEST_BOUND, ApiModel, keyed, optional, rule
from plimsoll.api.v1alpha1.environment import EnvFromSource, EnvVar
from plimsoll.api.v1alpha1.values import (
    LABEL_KEY,
    LONGEST_QUANTITY,
    Annotations,
    DnsSubdomain,
    Labels,
    NodeLabels,
    OptionalSubdomain,
    ResourceList,
)
from plimsoll.api.v1alpha1.volumes import MOUNTABLE_OWN_VOLUMES, Volume, VolumeMount


class Toleration(ApiModel):
    """A toleration, as in a pod."""

    cel_rules = (
        rule(
            "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            "tolerations: without a key the operator must be Exists",
        ),
        rule(
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            "tolerations: with operator Exists the value must be empty",
        ),
        rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerations: tolerationSeconds is for effect NoExecute alone",
        ),
    )
    key: Annotated[str, Field(max_length=317, pattern=rf"^({LABEL_KEY})?$")] | None = optional(
        "Key of the taint. Empty with Exists: matches every taint."
    )
    operator: Annotated[str, Field(pattern=r"^(Exists|Equal)?$")] | None = optional("Exists or Equal (the default).")
    value: Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")] | None = (
        optional("Value of the taint, for Equal.")
    )
    effect: Annotated[str, Field(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute)?$")] | None = optional(
        "NoSchedule, PreferNoSchedule or NoExecute. Empty: matches every effect."
    )
    toleration_seconds: Annotated[int, Field(ge=-LARGEST_BOUND, le=LARGEST_BOUND)] | None = optional(
        "Seconds for which a NoExecute taint is tolerated. Empty: no limit."
    )


class ModelCacheSpec(ApiModel):
    """Where downloaded weights and compiled kernels are kept."""

    cel_rules = (
        rule(
            "!has(self.claimName) || !has(self.sizeLimit)",
            "modelCache: claimName and sizeLimit exclude each other; a claim has a size of its own",
        ),
    )
    claim_name: DnsSubdomain | None = optional("PersistentVolumeClaim to mount. Its data outlives the pods.")
    size_limit: (
        Annotated[str, Field(max_length=LONGEST_QUANTITY, pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$")] | None
    ) = optional("Limit of the default emptyDir.")


class ResourcesSpec(ApiModel):
    """CPU, memory and other resources of the engine's container."""

    requests: ResourceList | None = optional("Resources that the node must have free for the container.")
    limits: ResourceList | None = optional("Resources that the container may use at most.")


class PullSecret(ApiModel):
    """A Secret with the password of an image registry."""

    name: DnsSubdomain = Field(description="Name of the Secret.")


class PodTemplateSpec(ApiModel):
    """Further fields of the pods."""

    cel_rules = (
        rule(
            f"!has(self.volumeMounts) || self.volumeMounts.all(m, m.name in {list(MOUNTABLE_OWN_VOLUMES)} || "
            "(has(self.volumes) && self.volumes.exists(v, v.name == m.name)))",
            "volumeMounts.name must be the name of a volume in podTemplate.volumes",
        ),
    )
    labels: Labels | None = optional("Further pod labels.")
    annotations: Annotations | None = optional("Further pod annotations.")
    node_selector: NodeLabels | None = optional("Only nodes with these labels are considered.")
    tolerations: list[Toleration] | None = optional(
        "Further tolerations. GPU taints are tolerated in any case.", max_length=32
    )
    env: list[EnvVar] | None = keyed("name", 64, "Further environment, as in a container.")
    env_from: list[EnvFromSource] | None = optional(
        "ConfigMaps and Secrets whose keys become environment.", max_length=16
    )
    service_account_name: OptionalSubdomain | None = optional("Service account of the pods.")
    image_pull_secrets: list[PullSecret] | None = keyed("name", 16, "As in a pod.")
    priority_class_name: OptionalSubdomain | None = optional("As in a pod.")
    runtime_class_name: OptionalSubdomain | None = optional("As in a pod, e.g. nvidia.")
    volumes: list[Volume] | None = keyed("name", 32, "Further volumes, as in a pod.")
    volume_mounts: list[VolumeMount] | None = keyed("mountPath", 32, "Further mounts, as in a container.")
    model_cache: ModelCacheSpec | None = optional("Default: an emptyDir.")
    resources: ResourcesSpec | None = optional(
        "CPU and memory requests and limits of the engine container. The operator sets the GPUs, and "
        "requests what the engine needs where you request nothing."
    )
