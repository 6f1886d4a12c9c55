"""The sources of a model's facts on this machine: the catalogue, a configuration, and the Hub.

The platforms of images, for plans on a file of nodes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plimsoll.adapters.hub.models import ModelSources, did_you_mean_model
from plimsoll.api.conversion.convert import platforms_of
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.cli.later import hub_models, registries
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.engines.images import REGISTRIES, ImagePlatforms, from_index, has_other_platforms, registries_in
from plimsoll.domain.errors import PlimsollError, RateLimited, SourceUnavailable
from plimsoll.domain.models.model import ModelFacts

_WITHOUT_HUB = (
    "give the model's config.json instead (a file, the folder of a downloaded checkpoint, or spec.model.config of a "
    "manifest), or name one that `plimsoll models` lists."
)


@dataclass(frozen=True, slots=True)
class _HubIfAsked:
    """The hub. Its libraries are imported on the first request: most questions are about catalogued models."""

    cache: Path

    def facts(self, name: str, revision: str | None, token: str | None, *, asker: str = "") -> ModelFacts:
        """Read a model's facts. Blocks."""
        return hub_models(self.cache).facts(name, revision, token, asker=asker)

    def close(self) -> None:
        """Do nothing: no request runs between two questions."""


def hub_access() -> tuple[Path, str | None]:
    """The folder for the hub's answers, and this user's token for it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plimsoll" / "hub"
    return cache, os.environ.get("HF_TOKEN")


def resolved_facts(name: str, revision: str | None, config: Mapping[str, object] | None) -> ModelFacts:
    """Return the facts of a model by its name on the Hub, or by a configuration.

    Raises:
        PlimsollError: as :meth:`~plimsoll.adapters.hub.models.ModelSources.resolve`.
    """
    cache, token = hub_access()
    sources = ModelSources(hub=_HubIfAsked(cache))
    try:
        return sources.resolve(name, revision=revision, token=token, inline=config)
    except SourceUnavailable as error:
        raise SourceUnavailable(f"{error}. {_ways_out(error)}{did_you_mean_model(name)}") from error


def _ways_out(error: SourceUnavailable) -> str:
    if isinstance(error, RateLimited):
        pause = "" if error.pause_seconds is None else f"It asks for a pause of {error.pause_seconds} s. "
        return f"{pause}To do without the hub, {_WITHOUT_HUB}"
    return f"Check the network, name a mirror in HF_ENDPOINT, {_WITHOUT_HUB}"


class Images:
    """The platforms of images, found as the operator does. Each image is asked for once.

    Args:
        fleet: the nodes. No registry is asked if the answer cannot matter.
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
