"""Environment of the engine container, as in core/v1."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import ApiModel, optional, rule
from plimsoll.api.v1alpha1.values import DataKey, DnsSubdomain, Quantity

VariableName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]

_POD_FIELDS = (
    r"^(metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^']{1,317}'\]|"
    r"spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$"
)


class ConfigMapKeySelector(ApiModel):
    """A key of a ConfigMap."""

    name: DnsSubdomain = Field(description="Name of the ConfigMap.")
    key: DataKey = Field(description="Key of the value.")
    optional: bool | None = optional("Whether the pod may start without it.")


class SecretKeySelector(ApiModel):
    """A key of a Secret."""

    name: DnsSubdomain = Field(description="Name of the Secret.")
    key: DataKey = Field(description="Key of the value.")
    optional: bool | None = optional("Whether the pod may start without it.")


class ObjectFieldSelector(ApiModel):
    """A field of the pod."""

    api_version: str | None = optional("v1 (the default).", max_length=64)
    field_path: Annotated[str, Field(max_length=384, pattern=_POD_FIELDS)] = Field(
        description="Field of the pod, e.g. metadata.name or status.podIP."
    )


class ResourceFieldSelector(ApiModel):
    """A resource of a container."""

    container_name: str | None = optional("Container; the engine by default.", max_length=63)
    resource: Annotated[
        str,
        Field(max_length=128, pattern=r"^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i)$"),
    ] = Field(description="Resource, e.g. limits.memory.")
    divisor: Quantity | None = optional("Unit of the value, e.g. 1Mi.")


class EnvVarSource(ApiModel):
    """Where a value is from."""

    cel_rules = (
        rule(
            "[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef), has(self.resourceFieldRef)]"
            ".filter(given, given).size() == 1",
            "env.valueFrom needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef",
        ),
    )
    config_map_key_ref: ConfigMapKeySelector | None = optional("A key of a ConfigMap.")
    secret_key_ref: SecretKeySelector | None = optional("A key of a Secret, where the cluster admin permits it.")
    field_ref: ObjectFieldSelector | None = optional("A field of the pod.")
    resource_field_ref: ResourceFieldSelector | None = optional("A resource of the container.")


class EnvVar(ApiModel):
    """One variable."""

    cel_rules = (
        rule(
            "!has(self.value) || !has(self.valueFrom)",
            "env.value and env.valueFrom exclude each other: remove one of them",
        ),
    )
    name: VariableName = Field(description="Name of the variable.")
    value: str | None = optional("Its value, a string: quote numbers.", max_length=131_071)
    value_from: EnvVarSource | None = optional("Source of the value.")


class ConfigMapEnvSource(ApiModel):
    """A ConfigMap whose keys become variables."""

    name: DnsSubdomain = Field(description="Name of the ConfigMap.")
    optional: bool | None = optional("Whether the pod may start without it.")


class SecretEnvSource(ApiModel):
    """A Secret whose keys become variables."""

    name: DnsSubdomain = Field(description="Name of the Secret.")
    optional: bool | None = optional("Whether the pod may start without it.")


class EnvFromSource(ApiModel):
    """All keys of a ConfigMap or Secret as variables."""

    cel_rules = (
        rule(
            "has(self.configMapRef) != has(self.secretRef)",
            "envFrom needs exactly one of configMapRef and secretRef",
        ),
    )
    prefix: VariableName | None = optional("Prefix of each variable's name.")
    config_map_ref: ConfigMapEnvSource | None = optional("A ConfigMap.")
    secret_ref: SecretEnvSource | None = optional("A Secret, where the cluster admin permits it.")
