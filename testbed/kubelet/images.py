"""Which local program stands for a container's image?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class CannotRun(RuntimeError):
    """The container cannot be started here.

    Args:
        reason: the word that a real kubelet shows for a container that waits for this.
        message: for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a pod for its container: the address to listen at, a folder of its own, labels and annotations."""

    address: str
    folder: Path
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """A local program: its command, its whole environment, and one line for each difference from the manifest."""

    command: Sequence[str]
    environment: Mapping[str, str]
    differences: Sequence[str] = ()


Image = Callable[[Mapping[str, Any], Place], Program]
"""Makes the program for a container (as in the pod's spec). Raises :class:`CannotRun`."""


def program_of(container: Mapping[str, Any], place: Place, images: Mapping[str, Image]) -> Program:
    """Return the program of a container, by the image's name without its tag or digest.

    Raises:
        CannotRun: no program stands for the image, or its function refuses the container.
    """
    name = repository(container["image"])
    if name not in images:
        raise CannotRun("ErrImagePull", f"no program of this machine stands for the image {container['image']}")
    return images[name](container, place)


def repository(image: str) -> str:
    """Return an image's reference without its tag and its digest."""
    head, slash, last = image.partition("@")[0].rpartition("/")
    return head + slash + last.partition(":")[0]


def plain_environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a container.

    Raises:
        CannotRun: one of them has no plain value; this kubelet reads no Secrets, ConfigMaps or fields.
    """
    listed = container.get("env") or []
    referring = [entry["name"] for entry in listed if "valueFrom" in entry]
    if referring or container.get("envFrom"):
        raise CannotRun("CreateContainerConfigError", f"only plain values can be set, not those of {referring}")
    return {entry["name"]: entry.get("value", "") for entry in listed}
