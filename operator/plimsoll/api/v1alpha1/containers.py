"""Further containers of the pods, the probes of the engine's, and what a pod may have of security.

The fields here are an allow-list: one that is not among them is an error that names it. The CRD spells none of them out
(:class:`OpenModel`), so that the API server drops nothing that a person wrote. The security fields take what the
restricted Pod Security Standard permits. Source:
https://kubernetes.io/docs/concepts/security/pod-security-standards/, and ``k8s.io/api/core/v1`` for all others.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from plimsoll.api.v1alpha1.base import ApiModel, OpenModel, optional
from plimsoll.api.v1alpha1.environment import EnvFromSource, EnvVar
from plimsoll.api.v1alpha1.values import DnsLabel, ResourceList
from plimsoll.api.v1alpha1.volumes import VolumeMount
from plimsoll.domain.requests.workload import ENGINE_CONTAINER, ENGINE_PORT, ENGINE_PORT_NAME

_Text = Annotated[str, Field(min_length=1, max_length=1024)]
_Texts = Annotated[list[Annotated[str, Field(max_length=16_384)]], Field(max_length=64)]
_Port = Annotated[int, Field(ge=1, le=65_535)]
_PortName = Annotated[str, Field(max_length=15, pattern=r"^([a-z0-9]+-)*[a-z0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$")]
_Seconds = Annotated[int, Field(ge=1, le=86_400)]
_Count = Annotated[int, Field(ge=1, le=100_000)]
_User = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Group = Annotated[int, Field(ge=0, le=2**31 - 1)]


GPU_PREFIXES = ("nvidia.com/", "amd.com/")
"""Prefixes of resources whose count the operator sets itself."""


class ResourcesSpec(ApiModel):
    """CPU, memory and other resources of a container."""

    requests: ResourceList | None = optional("Resources that the node must have free for the container.")
    limits: ResourceList | None = optional("Resources that the container may use at most.")


class ExecAction(OpenModel):
    """A command in the container."""

    command: Annotated[_Texts, Field(min_length=1)]


class HttpHeader(OpenModel):
    """A header of a request."""

    name: _Text
    value: Annotated[str, Field(max_length=4096)]


class HttpGetAction(OpenModel):
    """A request to the pod itself: ``host`` would be a request of the kubelet to anybody."""

    path: _Text | None = None
    port: _Port | _PortName
    scheme: Literal["HTTP", "HTTPS"] | None = None
    http_headers: Annotated[list[HttpHeader], Field(max_length=32)] | None = None


class TcpSocketAction(OpenModel):
    """A connection to the pod itself."""

    port: _Port | _PortName


class GrpcAction(OpenModel):
    """A request of gRPC's health service to the pod itself."""

    port: _Port
    service: Annotated[str, Field(max_length=253)] | None = None


class ProbeTimes(OpenModel):
    """How often a probe asks, and how many answers count. Times are in seconds."""

    initial_delay_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    period_seconds: _Seconds | None = None
    timeout_seconds: _Seconds | None = None
    failure_threshold: _Count | None = None
    success_threshold: Literal[1] | None = None


class EnginePath(OpenModel):
    """The path that the engine answers."""

    path: Annotated[str, Field(max_length=1024, pattern=r"^/")]


class EngineProbe(ProbeTimes):
    """A probe of the engine's container: it asks by HTTP, at the engine's port."""

    http_get: EnginePath | None = None


class Probe(ProbeTimes):
    """A probe of a further container."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    grpc: GrpcAction | None = None

    @model_validator(mode="after")
    def _check_handler(self) -> Self:
        if sum(each is not None for each in (self.exec, self.http_get, self.tcp_socket, self.grpc)) != 1:
            raise ValueError("Write exactly one of exec, httpGet, tcpSocket and grpc")
        return self


class SeccompProfile(OpenModel):
    """The seccomp profile of the container runtime."""

    type: Literal["RuntimeDefault"]


class Capabilities(OpenModel):
    """Capabilities of a container."""

    add: Annotated[list[Literal["NET_BIND_SERVICE"]], Field(max_length=1)] | None = None
    drop: Annotated[list[Literal["ALL"]], Field(min_length=1, max_length=1)] | None = None


class _Security(OpenModel):
    """The security fields that pods and containers share."""

    run_as_user: _User | None = None
    run_as_group: _Group | None = None
    run_as_non_root: Literal[True] | None = None
    seccomp_profile: SeccompProfile | None = None


class PodSecurity(_Security):
    """The security context of the pods."""

    fs_group: _Group | None = None
    fs_group_change_policy: Literal["Always", "OnRootMismatch"] | None = None
    supplemental_groups: Annotated[list[_Group], Field(max_length=32)] | None = None


class ContainerSecurity(_Security):
    """The security context of a further container."""

    allow_privilege_escalation: Literal[False] | None = None
    capabilities: Capabilities | None = None
    privileged: Literal[False] | None = None
    read_only_root_filesystem: bool | None = None


def _own_port(port: int) -> int:
    if port == ENGINE_PORT:
        raise ValueError("The engine listens there: write another port")
    return port


def _own_port_name(name: str) -> str:
    if name == ENGINE_PORT_NAME:
        raise ValueError("The Service finds the engine by this name: write another name")
    return name


class ContainerPort(OpenModel):
    """A port of a further container. ``hostPort`` would be one of the node."""

    name: Annotated[_PortName, AfterValidator(_own_port_name)] | None = None
    container_port: Annotated[_Port, AfterValidator(_own_port)]
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    host_port: Annotated[int, Field(ge=0, le=0)] | None = None


def _not_the_engine(name: str) -> str:
    if name == ENGINE_CONTAINER:
        raise ValueError(
            "It is the engine's: use env, envFrom, volumeMounts, resources and the probes of podTemplate for it, or "
            "write another name"
        )
    return name


def _without_gpus(resources: ResourcesSpec) -> ResourcesSpec:
    named = {**(resources.requests or {}), **(resources.limits or {})}
    gpus = sorted(name for name in named if name.startswith(GPU_PREFIXES))
    if gpus:
        raise ValueError(f"Remove {', '.join(gpus)}: the GPUs of a pod are the engine's")
    return resources


class Sidecar(OpenModel):
    """A container that runs with the engine, without GPUs and within the restricted Pod Security Standard."""

    crd_fields: ClassVar[tuple[str, ...]] = ("name",)
    name: Annotated[DnsLabel, AfterValidator(_not_the_engine)] = Field(description="Name of the container.")
    image: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^\S+$")]
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    command: _Texts | None = None
    args: _Texts | None = None
    working_dir: _Text | None = None
    env: Annotated[list[EnvVar], Field(max_length=64)] | None = None
    env_from: Annotated[list[EnvFromSource], Field(max_length=16)] | None = None
    ports: Annotated[list[ContainerPort], Field(max_length=16)] | None = None
    resources: Annotated[ResourcesSpec, AfterValidator(_without_gpus)] | None = None
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] | None = None
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    termination_message_policy: Literal["File", "FallbackToLogsOnError"] | None = None
    security_context: ContainerSecurity | None = None


class InitContainer(Sidecar):
    """A container that ends before the engine starts, or that stays with restartPolicy Always.

    It has no GPUs, and is within the restricted Pod Security Standard.
    """

    restart_policy: Literal["Always"] | None = None

    @model_validator(mode="after")
    def _check_course(self) -> Self:
        """Refuse what Kubernetes refuses of a container that ends by itself."""
        probes = (self.startup_probe, self.readiness_probe, self.liveness_probe)
        if self.restart_policy is None and any(each is not None for each in probes):
            raise ValueError("Probes are for containers that stay: write restartPolicy: Always, too")
        return self
