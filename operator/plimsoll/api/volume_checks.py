"""Refuse the user's volumes and mounts that conflict with each other or with the operator's own."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from plimsoll.api.v1alpha1.volumes import (
    MOUNTABLE_OWN_VOLUMES,
    OWN_MOUNTS,
    OWN_VOLUMES,
    SOURCES,
    Volume,
    VolumeMount,
)
from plimsoll.domain.errors import InvalidInput


def check_volumes(field: str, volumes: Sequence[Volume]) -> None:
    """Refuse names that are already used and volumes with several sources. Raises :class:`InvalidInput`."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        if volume.name in OWN_VOLUMES:
            raise InvalidInput(
                f"{field}[{index}].name", volume.name, f"{', '.join(OWN_VOLUMES)} are the operator's: rename it."
            )
        if volume.name in seen:
            raise InvalidInput(f"{field}[{index}].name", volume.name, "It is there twice: remove one, or rename it.")
        seen.add(volume.name)
        given = sources_of(volume)
        if len(given) > 1:
            raise InvalidInput(f"{field}[{index}]", ", ".join(given), "A volume has one source: remove the others.")


def sources_of(volume: Volume) -> tuple[str, ...]:
    """Return the sources that a volume names, as users write them. A volume without a source is an emptyDir."""
    given = volume.model_dump(by_alias=True, exclude_none=True)
    return tuple(source for source in SOURCES if source in given)


def check_volume_mounts(field: str, mounts: Sequence[VolumeMount], volumes: Sequence[Volume]) -> None:
    """Refuse mounts of volumes that do not exist, and paths that are already used. Raises :class:`InvalidInput`."""
    names = {*MOUNTABLE_OWN_VOLUMES, *(volume.name for volume in volumes)}
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{field}[{index}]"
        if mount.name not in names:
            raise InvalidInput(f"{where}.name", mount.name, "Name a volume of spec.podTemplate.volumes.")
        path = _plain(mount.mount_path)
        if path == "/" or path in OWN_MOUNTS:
            taken = f"/ and the operator's {', '.join(OWN_MOUNTS)} are taken"
            raise InvalidInput(f"{where}.mountPath", mount.mount_path, f"Write another path: {taken}.")
        if path in seen:
            raise InvalidInput(
                f"{where}.mountPath", mount.mount_path, "Something is mounted there: write another path."
            )
        seen.add(path)
        _check_mount(where, mount)


def _check_mount(where: str, mount: VolumeMount) -> None:
    if mount.sub_path and mount.sub_path_expr:
        raise InvalidInput(f"{where}.subPathExpr", mount.sub_path_expr, "Remove it, or subPath.")
    for name, path in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
        if ".." in (path or "").split("/"):
            raise InvalidInput(f"{where}.{name}", path, "Write a path within the volume, without '..'.")
    if mount.recursive_read_only in {"IfPossible", "Enabled"} and not mount.read_only:
        raise InvalidInput(f"{where}.recursiveReadOnly", mount.recursive_read_only, "Write readOnly: true, too.")


def _plain(path: str) -> str:
    """Return the path as the kernel reads it: no double slashes, no dots, no slash at the end."""
    return "/" + posixpath.normpath(path).lstrip("/")
