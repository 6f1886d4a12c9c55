"""The platforms of a deployment's image, and where they are known from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.node_rules import ARCHITECTURE_LABEL, USUAL_ARCHITECTURES, NodeRule, other_architectures
from plimsoll.domain.reasons import Reason

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
    """The architectures of an image for Linux, as node labels spell them; empty where no node is ruled out.

    ``image`` is the reference whose index may be read; empty where nobody has to read it. ``why`` says why it could not
    be read; empty where it was read, or was not to be read.
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
