"""The image of an engine, and the GPU vendor of an image."""

from __future__ import annotations

import re
from dataclasses import dataclass

from plimsoll.domain.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.gpus import Vendor

_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)")
"""A tag that names a release and nothing else."""


@dataclass(frozen=True, slots=True)
class EngineImages:
    """The images of one ``engine`` by vendor, as the admin set them; empty where the engine's own image is used.

    A reference without tag and digest gets the release's tag. A reference whose tag names a release is used for that
    release only. Any other reference with a tag or a digest is used for all releases. ``registry`` is added in front of
    references that name no registry.
    """

    nvidia: str = ""
    amd: str = ""
    registry: str = ""
    engine: str = DEFAULT_ENGINE

    def reference(self, engine: str, vendor: Vendor, usual: str) -> str:
        """Return the image for a vendor's GPUs. ``usual`` is the image of the engine's own release, with its tag."""
        given = (self.amd if vendor is Vendor.AMD else self.nvidia) if engine == self.engine else ""
        image = _for_release(given or _parts(usual)[0], _parts(usual)[1])
        return f"{self.registry}/{image}" if self.registry and not _names_registry(image) else image


def _for_release(given: str, tag: str) -> str:
    """Return the image that an admin means for the release that ``tag`` names."""
    repository, own_tag, pinned = _parts(given)
    release, wanted = _RELEASE.fullmatch(own_tag), _RELEASE.fullmatch(tag)
    names_another = release is not None and (wanted is None or release[1] != wanted[1])
    return given if pinned and not names_another else f"{repository}:{tag}"


def vendor_of(reference: str) -> Vendor:
    """Return the GPU vendor of an image: AMD where its reference contains "rocm", else NVIDIA."""
    return Vendor.AMD if "rocm" in reference.lower() else Vendor.NVIDIA


def _parts(reference: str) -> tuple[str, str, bool]:
    """Return repository, tag, and whether there is a tag or a digest. A colon before the last slash is a port."""
    plain, _, digest = reference.partition("@")
    folder, slash, last = plain.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", tag, bool(tag or digest)


def _names_registry(reference: str) -> bool:
    host, slash, _ = reference.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")
