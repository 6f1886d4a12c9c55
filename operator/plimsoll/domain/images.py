"""Which image does an engine run, and for which vendor's GPUs is an image made?"""

from __future__ import annotations

import re
from dataclasses import dataclass

from plimsoll.domain.gpus import Vendor

_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)")
"""A tag that names a release and nothing else."""


@dataclass(frozen=True, slots=True)
class EngineImages:
    """The engines' images by vendor, as the admin set them.

    A reference without tag and digest gets the release's tag. One whose tag names a release is for that release alone;
    any other one with a tag or a digest is for all. ``registry`` goes before references that name none.
    """

    nvidia: str = "vllm/vllm-openai"
    amd: str = "vllm/vllm-openai-rocm"
    registry: str = ""

    @staticmethod
    def of(nvidia: str = "", amd: str = "", registry: str = "") -> EngineImages:
        """As settings give them: what is empty is vLLM's own."""
        plain = EngineImages()
        return EngineImages(nvidia or plain.nvidia, amd or plain.amd, registry)

    def reference(self, vendor: Vendor, version: str) -> str:
        """The image of a release for a vendor's GPUs."""
        given = self.amd if vendor is Vendor.AMD else self.nvidia
        repository, tag, pinned = _parts(given)
        release = _RELEASE.fullmatch(tag)
        is_for_it = pinned and (release is None or release[1] == version)
        image = given if is_for_it else f"{repository}:v{version}"
        return f"{self.registry}/{image}" if self.registry and not _names_registry(image) else image


def vendor_of(reference: str) -> Vendor:
    """For whose GPUs an image is made: AMD's where its reference has the word "rocm", else NVIDIA's."""
    return Vendor.AMD if "rocm" in reference.lower() else Vendor.NVIDIA


def _parts(reference: str) -> tuple[str, str, bool]:
    """Repository, tag, and whether there is a tag or a digest. A colon before the last slash is a port's."""
    plain, _, digest = reference.partition("@")
    folder, slash, last = plain.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{folder}{slash}{name}", tag, bool(tag or digest)


def _names_registry(reference: str) -> bool:
    host, slash, _ = reference.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")
