"""The image of an engine, and the GPU vendor of an image.

The platforms of a deployment's image, and where they are known from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.cluster.node_rules import ARCHITECTURE_LABEL, USUAL_ARCHITECTURES, NodeRule, other_architectures
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.public_words import Reason

DOCKER_HUB = "docker.io"
"""The registry of references that name none."""

PUBLIC_REGISTRIES = (
    DOCKER_HUB, "ghcr.io", "quay.io", "nvcr.io", "registry.k8s.io", "public.ecr.aws", "mcr.microsoft.com", "gcr.io",
    "*.pkg.dev", "registry.gitlab.com",
)  # fmt: skip
"""Registries of the public internet that show the index of a public image to everybody."""

REGISTRIES = "PLIMSOLL_IMAGE_REGISTRIES"
NO_REGISTRIES = "none"
"""The variable that names the registries to ask, and its value for none."""

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128})")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?")
"""Names, tags and digests as registries take them.

Source: https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md#pulling-manifests, and
https://github.com/distribution/reference for hosts and for what a reference without a registry means.
"""

_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)")
"""A tag that names a release and nothing else."""


@dataclass(frozen=True, slots=True)
class ImageName:
    """A reference in parts: the registry's host, the repository, and a tag or a digest."""

    registry: str
    repository: str
    version: str

    def is_in(self, registries: Iterable[str]) -> bool:
        """Whether one of these is the registry. ``*.pkg.dev`` names all hosts below ``pkg.dev``."""
        return any(
            self.registry.endswith(each[1:]) if each.startswith("*.") else self.registry == each for each in registries
        )


def image_name(reference: str) -> ImageName | None:
    """Return the parts of a reference, with those that it leaves out; None if no registry can have such an image."""
    path, _, digest = reference.partition("@")
    host, registry = DOCKER_HUB, path.partition("/")[0]
    if _names_registry(path):
        host, path = registry.lower(), path.partition("/")[2]
    repository, tag, _ = _parts(path)
    if host in (DOCKER_HUB, "index.docker.io"):
        host, repository = DOCKER_HUB, repository if "/" in repository else f"library/{repository}"
    has_tag = not tag or _TAG.fullmatch(tag)
    fits = _HOST.fullmatch(host) and _REPOSITORY.fullmatch(repository) and has_tag
    if not fits or ("@" in reference and not _DIGEST.fullmatch(digest)):
        return None
    return ImageName(host, repository, digest or tag or "latest")


def registries_in(text: str) -> tuple[str, ...]:
    """Return the registries of :data:`REGISTRIES`, with commas between them; the public ones if it is empty.

    Raises:
        InvalidInput: one of them is no host.
    """
    listed = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if listed == (NO_REGISTRIES,):
        return ()
    for each in listed:
        if not _HOST.fullmatch(each.removeprefix("*.")) or each != each.lower():
            raise InvalidInput(REGISTRIES, each, "Write hosts such as ghcr.io or *.pkg.dev, with commas, or none.")
    return listed or PUBLIC_REGISTRIES


@dataclass(frozen=True, slots=True)
class EngineImages:
    """The images of one ``engine`` by vendor, as the admin set them; empty if the engine's own image is used.

    A reference without tag and digest gets the release's tag. A reference whose tag names a release is used for that
    release only. Any other reference with a tag or a digest is used for all releases. ``registry`` is added in front of
    references that name no registry.
    """

    nvidia: str = ""
    amd: str = ""
    registry: str = ""
    engine: str = DEFAULT_ENGINE

    def replaces(self, engine: str) -> bool:
        """Whether the admin names an image for NVIDIA GPUs in place of the engine's own."""
        return engine == self.engine and bool(self.nvidia)

    def of_admin(self, engine: str, usual: str) -> str:
        """Return the admin's image for NVIDIA GPUs; empty if it is the release's own, from where that is published.

        That for AMD GPUs does not count: their hosts are all for amd64.
        """
        is_named = self.replaces(engine) or self.registry
        return self.reference(engine, Vendor.NVIDIA, usual) if is_named else ""

    def reference(self, engine: str, vendor: Vendor, usual: str) -> str:
        """Return the image for a vendor's GPUs. ``usual`` is the image of the engine's own release, with its tag."""
        given = (self.amd if vendor is Vendor.AMD else self.nvidia) if engine == self.engine else ""
        image = _for_release(given or _parts(usual)[0], _parts(usual)[1])
        return f"{self.registry}/{image}" if self.registry and not _names_registry(image) else image


def _for_release(given: str, tag: str) -> str:
    repository, own_tag, pinned = _parts(given)
    release, wanted = _RELEASE.fullmatch(own_tag), _RELEASE.fullmatch(tag)
    names_another = release is not None and (wanted is None or release[1] != wanted[1])
    return given if pinned and not names_another else f"{repository}:{tag}"


def vendor_of(reference: str) -> Vendor:
    """Return the GPU vendor of an image: AMD if its reference contains "rocm", else NVIDIA."""
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


LINUX = "linux/"


class PlatformSource(StrEnum):
    """Where the platforms of an image are known from."""

    DECLARED = "Declared"
    """The user names them."""

    RELEASE = "Release"
    """The image is the release's own, which has the platforms of all GPU nodes."""

    INDEX = "Index"
    """The image's index in its registry names them."""

    ASSUMED = "Assumed"
    """Nobody has named them."""


@dataclass(frozen=True, slots=True)
class ImagePlatforms:
    """The architectures of an image for Linux, as node labels spell them; empty if no node is ruled out.

    ``image`` is the reference whose index may be read; empty if nobody has to read it. ``why`` says why it could not
    be read; empty if it was read, or was not to be read.
    """

    architectures: tuple[str, ...] = ()
    source: PlatformSource = PlatformSource.RELEASE
    image: str = ""
    why: str = ""

    @property
    def rules(self) -> tuple[NodeRule, ...]:
        """The rule for the nodes of the image's pods. It also accepts a node that names no architecture."""
        if not self.architectures:
            return ()
        numbers: list[tuple[str, str | int]] = [("platforms", ", ".join(self.names)), ("source", self.source.value)]
        if self.image:
            numbers += [("image", self.image), ("why", self.why)]
        terms = ((other_architectures(self.architectures),),)
        return (NodeRule(Reason.IMAGE_FOR_OTHER_PLATFORM, tuple(numbers), terms),)

    @property
    def names(self) -> tuple[str, ...]:
        """The platforms as an index names them: ``linux/amd64``."""
        return tuple(f"{LINUX}{each}" for each in self.architectures)

    @property
    def is_noted(self) -> bool:
        """Whether the status keeps them: another look at the index could find others."""
        return bool(self.image)

    def unread(self, why: str) -> ImagePlatforms:
        """Return the same platforms with the reason why the index could not be read."""
        return replace(self, why=why)


OF_RELEASE = ImagePlatforms()


def assumed(image: str) -> ImagePlatforms:
    """Return the platforms of a user's own image that names none."""
    return ImagePlatforms(USUAL_ARCHITECTURES, PlatformSource.ASSUMED, image)


def declared(names: Iterable[str]) -> ImagePlatforms:
    """Return the platforms that a user names: ``linux/arm64``."""
    return ImagePlatforms(tuple(sorted(each.removeprefix(LINUX) for each in names)), PlatformSource.DECLARED)


def from_index(architectures: tuple[str, ...], image: str) -> ImagePlatforms:
    """Return the platforms that the index of an image names."""
    return ImagePlatforms(tuple(sorted(set(architectures))), PlatformSource.INDEX, image)


def has_other_platforms(fleet: Fleet) -> bool:
    """Whether a GPU node has another architecture than images usually have. Elsewhere no index has to be read."""
    return fleet.once("other platforms", lambda: any(_is_other(dict(node.labels)) for node in fleet.nodes))


def _is_other(labels: Mapping[str, str]) -> bool:
    return labels.get(ARCHITECTURE_LABEL, USUAL_ARCHITECTURES[0]) not in USUAL_ARCHITECTURES
