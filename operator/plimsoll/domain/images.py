"""The image of an engine, and the GPU vendor of an image."""

from __future__ import annotations

import re
from dataclasses import dataclass

from plimsoll.domain.gpus import Vendor

_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)")
"""A tag that names a release and nothing else."""


@dataclass(frozen=True, slots=True)
class EngineImages:
    """The engines' images by vendor, as the admin set them.

    A reference without tag and digest gets the release's tag. A reference whose tag names a release is used for that
    release only. Any other reference with a tag or a digest is used for all releases. ``registry`` is added in front of
    references that name no registry.
    """

    nvidia: str = "vllm/vllm-openai"
    amd: str = "vllm/vllm-openai-rocm"
    registry: str = ""

    @staticmethod
    def of(nvidia: str = "", amd: str = "", registry: str = "") -> EngineImages:
        """Return the images from settings. An empty setting means vLLM's own image."""
        plain = EngineImages()
        return EngineImages(nvidia or plain.nvidia, amd or plain.amd, registry)

    def reference(self, vendor: Vendor, version: str) -> str:
        """Return the image of a release for a vendor's GPUs."""
        given = self.amd if vendor is Vendor.AMD else self.nvidia
        repository, tag, pinned = _parts(given)
        release = _RELEASE.fullmatch(tag)
        is_for_it = pinned and (release is None or release[1] == version)
        image = given if is_for_it else f"{repository}:v{version}"
        return f"{self.registry}/{image}" if self.registry and not _names_registry(image) else image


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
