"""Volumes of the pods and their mounts, as in core/v1: the common sources typed, the others handed on as they are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import ApiModel, optional, rule
from plimsoll.api.v1alpha1.environment import ObjectFieldSelector, ResourceFieldSelector
from plimsoll.api.v1alpha1.values import DataKey, DnsLabel, DnsSubdomain, FileMode, Passed, PassedShallow, Quantity

OWN_VOLUMES = ("cache", "shm", "tmp", "home")
"""Volumes that the operator adds to every pod."""

MOUNTABLE_OWN_VOLUMES = ("cache", "shm")
"""Those of them that users may mount at another path, too."""

OWN_MOUNTS = ("/cache", "/dev/shm", "/tmp")  # noqa: S108 - paths in the engine's container
"""Where the operator mounts them."""

_PATH = r"^/+[^:/][^:]*$"
_RELATIVE_PATH = r"^([^/].*)?$"


class KeyToPath(ApiModel):
    """One key as a file."""

    key: DataKey = Field(description="Key to project.")
    path: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^/]")] = Field(
        description="Relative path of the file."
    )
    mode: FileMode | None = optional("Permission bits of the file.")


KeyItems = Annotated[list[KeyToPath], Field(max_length=64)]


class EmptyDirVolume(ApiModel):
    """A directory that lives as long as the pod."""

    medium: Annotated[str, Field(max_length=32, pattern=r"^(Memory|HugePages(-[0-9]+[KMG]i)?)?$")] | None = optional(
        "Empty: the node's disk. Memory: its RAM."
    )
    size_limit: Quantity | None = optional("Size limit.")


class ConfigMapVolume(ApiModel):
    """The keys of a ConfigMap as files."""

    name: DnsSubdomain = Field(description="Name of the ConfigMap.")
    items: KeyItems | None = optional("Only these keys.")
    default_mode: FileMode | None = optional("Permission bits of the files.")
    optional: bool | None = optional("Whether the pod may start without it.")


class SecretVolume(ApiModel):
    """The keys of a Secret as files."""

    secret_name: DnsSubdomain = Field(description="Name of the Secret.")
    items: KeyItems | None = optional("Only these keys.")
    default_mode: FileMode | None = optional("Permission bits of the files.")
    optional: bool | None = optional("Whether the pod may start without it.")


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim of the namespace."""

    claim_name: DnsSubdomain = Field(description="Name of the PersistentVolumeClaim.")
    read_only: bool | None = optional("Mount it read-only everywhere.")


class HostPathVolume(ApiModel):
    """A path of the node."""

    path: str = Field(min_length=1, max_length=1024, description="Path on the node.")
    type: (
        Annotated[
            str,
            Field(pattern=r"^(DirectoryOrCreate|Directory|FileOrCreate|File|Socket|CharDevice|BlockDevice)?$"),
        ]
        | None
    ) = optional("Kind of file that the path must be.")


class NfsVolume(ApiModel):
    """A directory of an NFS server."""

    server: str = Field(min_length=1, max_length=253, description="Host name or address of the server.")
    path: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^/")] = Field(
        description="Path that the server exports."
    )
    read_only: bool | None = optional("Mount it read-only.")


class ImageVolume(ApiModel):
    """The files of an OCI image or artifact, read-only."""

    reference: str | None = optional("Image or artifact.", min_length=1, max_length=512)
    pull_policy: Annotated[str, Field(pattern=r"^(Always|IfNotPresent|Never)$")] | None = optional(
        "Always, IfNotPresent or Never."
    )


class DownwardFile(ApiModel):
    """A field of the pod as a file."""

    path: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^/]")] = Field(
        description="Relative path of the file."
    )
    field_ref: ObjectFieldSelector | None = optional("A field of the pod.")
    resource_field_ref: ResourceFieldSelector | None = optional("A resource of a container.")
    mode: FileMode | None = optional("Permission bits of the file.")


class DownwardVolume(ApiModel):
    """Fields of the pod as files."""

    items: Annotated[list[DownwardFile], Field(max_length=64)] | None = optional("The files.")
    default_mode: FileMode | None = optional("Permission bits of the files.")


class ProjectedVolume(ApiModel):
    """Several sources in one directory."""

    sources: Annotated[list[Passed], Field(max_length=32)] | None = optional(
        "configMap, downwardAPI, secret, serviceAccountToken and others, as in a pod."
    )
    default_mode: FileMode | None = optional("Permission bits of the files.")


class NodePublishSecret(ApiModel):
    """A Secret that the driver is given."""

    name: DnsSubdomain = Field(description="Name of the Secret.")


class CsiVolume(ApiModel):
    """A volume that a CSI driver makes for this pod."""

    driver: DnsSubdomain = Field(description="Name of the driver.")
    fs_type: str | None = optional("File system.", max_length=64)
    node_publish_secret_ref: NodePublishSecret | None = optional("A Secret that the driver is given.")
    read_only: bool | None = optional("Mount it read-only.")
    volume_attributes: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)] | None = (
        optional("Settings of the driver.")
    )


class EphemeralVolume(ApiModel):
    """A claim that lives as long as the pod."""

    volume_claim_template: Passed | None = optional("Metadata and spec of the PersistentVolumeClaim, as in a pod.")


class Volume(ApiModel):
    """A volume: a name and one source. Without a source it is an emptyDir, as in a pod."""

    name: DnsLabel = Field(description="Name that volumeMounts refer to.")
    config_map: ConfigMapVolume | None = optional("The keys of a ConfigMap as files.")
    csi: CsiVolume | None = optional("A volume that a CSI driver makes for this pod.")
    downward_api: DownwardVolume | None = optional("Fields of the pod as files.", alias="downwardAPI")
    empty_dir: EmptyDirVolume | None = optional("A directory that lives as long as the pod.")
    ephemeral: EphemeralVolume | None = optional("A claim that lives as long as the pod.")
    host_path: HostPathVolume | None = optional("A path of the node.")
    image: ImageVolume | None = optional("The files of an OCI image or artifact.")
    nfs: NfsVolume | None = optional("A directory of an NFS server.")
    persistent_volume_claim: ClaimVolume | None = optional("A PersistentVolumeClaim.")
    projected: ProjectedVolume | None = optional("Several sources in one directory.")
    secret: SecretVolume | None = optional("The keys of a Secret as files.")
    aws_elastic_block_store: PassedShallow | None = optional("As in a pod.")
    azure_disk: PassedShallow | None = optional("As in a pod.")
    azure_file: PassedShallow | None = optional("As in a pod.")
    cephfs: PassedShallow | None = optional("As in a pod.")
    cinder: PassedShallow | None = optional("As in a pod.")
    fc: PassedShallow | None = optional("As in a pod.")
    flex_volume: PassedShallow | None = optional("As in a pod.")
    flocker: PassedShallow | None = optional("As in a pod.")
    gce_persistent_disk: PassedShallow | None = optional("As in a pod.")
    git_repo: PassedShallow | None = optional("As in a pod.")
    glusterfs: PassedShallow | None = optional("As in a pod.")
    iscsi: PassedShallow | None = optional("As in a pod.")
    photon_persistent_disk: PassedShallow | None = optional("As in a pod.")
    portworx_volume: PassedShallow | None = optional("As in a pod.")
    quobyte: PassedShallow | None = optional("As in a pod.")
    rbd: PassedShallow | None = optional("As in a pod.")
    scale_io: PassedShallow | None = optional("As in a pod.", alias="scaleIO")
    storageos: PassedShallow | None = optional("As in a pod.")
    vsphere_volume: PassedShallow | None = optional("As in a pod.")


SOURCES = tuple(field.alias or name for name, field in Volume.model_fields.items() if name != "name")
"""Every source of a volume, as users write it."""

_TYPED_SOURCES = SOURCES[: SOURCES.index("secret") + 1]
"""Those that a CEL rule can see. The others are compared in Python alone (:mod:`plimsoll.api.checks.pod_checks`)."""

Volume.cel_rules = (
    rule(
        f"!(self.name in {list(OWN_VOLUMES)})",
        f"volumes.name: {', '.join(OWN_VOLUMES)} are the operator's: use another name",
    ),
    rule(
        "[" + ", ".join(f"has(self.{source})" for source in _TYPED_SOURCES) + "].filter(given, given).size() <= 1",
        "volumes: a volume has one source: split it, or remove the others",
    ),
)


class VolumeMount(ApiModel):
    """Where a volume is mounted in the engine's container."""

    cel_rules = (
        rule(
            "!self.mountPath.matches(r'^/+(cache|tmp|dev/+shm)/*$')",
            f"volumeMounts.mountPath: {', '.join(OWN_MOUNTS)} are the operator's: use another path",
        ),
        rule(
            "!has(self.subPath) || !has(self.subPathExpr) || self.subPath == '' || self.subPathExpr == ''",
            "volumeMounts.subPath and subPathExpr exclude each other: remove one of them",
        ),
        rule(
            "!has(self.recursiveReadOnly) || self.recursiveReadOnly == 'Disabled' || "
            "(has(self.readOnly) && self.readOnly)",
            "volumeMounts.recursiveReadOnly needs readOnly: true",
        ),
    )
    name: DnsLabel = Field(description="Name of the volume.")
    mount_path: Annotated[str, Field(min_length=2, max_length=1024, pattern=_PATH)] = Field(
        description="Absolute path in the container, without a colon."
    )
    read_only: bool | None = optional("Mount it read-only.")
    recursive_read_only: Annotated[str, Field(pattern=r"^(Disabled|IfPossible|Enabled)$")] | None = optional(
        "Disabled, IfPossible or Enabled: whether mounts below it are read-only, too."
    )
    sub_path: Annotated[str, Field(max_length=1024, pattern=_RELATIVE_PATH)] | None = optional(
        "Relative path in the volume."
    )
    sub_path_expr: Annotated[str, Field(max_length=1024, pattern=_RELATIVE_PATH)] | None = optional(
        "The same, with $(VARIABLES)."
    )
    mount_propagation: Annotated[str, Field(pattern=r"^(None|HostToContainer)$")] | None = optional(
        "None or HostToContainer; Bidirectional is for privileged containers alone."
    )
