"""The platforms of images, for plans on a file of nodes."""

from __future__ import annotations

import os

from plimsoll.api.convert import platforms_of
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.cli.later import registries
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.images import REGISTRIES, registries_in
from plimsoll.domain.platforms import ImagePlatforms, from_index, has_other_platforms


class Images:
    """The platforms of images, found as the operator does. Each image is asked for once.

    Args:
        fleet: the nodes. No registry is asked where the answer cannot matter.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._is_asked = has_other_platforms(fleet)
        self._allowed = registries_in(os.environ.get(REGISTRIES, ""))
        self._known: dict[str, ImagePlatforms] = {}

    def of(self, resource: InferenceDeployment) -> ImagePlatforms:
        """Return the platforms of an object's image. Blocks if a registry must be asked."""
        given = platforms_of(resource.spec.engine)
        if not (given.image and self._is_asked and self._allowed):
            return given
        if given.image not in self._known:
            self._known[given.image] = self._read(given)
        return self._known[given.image]

    def _read(self, given: ImagePlatforms) -> ImagePlatforms:
        try:
            return from_index(registries(self._allowed).architectures(given.image), given.image)
        except PlimsollError as error:
            return given.unread(str(error))
