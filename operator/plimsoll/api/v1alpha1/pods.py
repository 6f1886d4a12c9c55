"""The fields of the engine pods that the user may set."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import ApiModel, keyed, optional, rule, several
from plimsoll.api.v1alpha1.containers import (
    EngineProbe,
    InitContainer,
    PodSecurity,
    ResourcesSpec,
    Sidecar,
)
from plimsoll.api.v1alpha1.environment import EnvFromSource, EnvVar
from plimsoll.api.v1alpha1.scheduling import Affinity, DnsConfig, HostAlias, Spread, Toleration
from plimsoll.api.v1alpha1.values import (
    LONGEST_QUANTITY,
    Annotations,
    DnsSubdomain,
    Labels,
    NodeLabels,
    OptionalSubdomain,
)
from plimsoll.api.v1alpha1.volumes import MOUNTABLE_OWN_VOLUMES, Volume, VolumeMount


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
    affinity: Affinity | None = optional(
        "As in a pod. Required nodeAffinity holds together with the planner's own choice of nodes."
    )
    topology_spread_constraints: list[Spread] | None = several(
        8, "As in a pod. Without a labelSelector the replicas of this object are spread."
    )
    init_containers: list[InitContainer] | None = keyed(
        "name", 8, "Containers before the engine's, within the restricted Pod Security Standard and without GPUs."
    )
    containers: list[Sidecar] | None = keyed(
        "name", 8, "Containers next to the engine's, within the restricted Pod Security Standard and without GPUs."
    )
    startup_probe: EngineProbe | None = optional("Other times of the engine's startup probe.")
    readiness_probe: EngineProbe | None = optional("Other times of the engine's readiness probe.")
    liveness_probe: EngineProbe | None = optional("Other times of the engine's liveness probe.")
    security_context: PodSecurity | None = optional("As in a pod, within the restricted Pod Security Standard.")
    termination_grace_period_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = optional(
        "The least time in which a pod ends. Running requests of the engine get more where they need it."
    )
    scheduler_name: DnsSubdomain | None = optional("As in a pod, where the cluster admin permits it.")
    dns_policy: Annotated[str, Field(pattern=r"^(ClusterFirst|Default|None)$")] | None = optional("As in a pod.")
    dns_config: DnsConfig | None = optional("As in a pod.")
    host_aliases: list[HostAlias] | None = several(16, "As in a pod.")
