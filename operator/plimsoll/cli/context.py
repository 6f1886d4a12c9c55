"""The command line's sources of facts: files, the Hub, or the cluster of the current kubeconfig."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plimsoll.adapters.models import ModelSources
from plimsoll.adapters.similar_models import did_you_mean_model
from plimsoll.api.speculation import draft_model
from plimsoll.api.v1alpha1 import InferenceDeployment, ModelSpec
from plimsoll.cli.cluster_access import ClusterAccess
from plimsoll.cli.later import hub_models, inference_deployment
from plimsoll.cli.price_files import read_prices
from plimsoll.domain.errors import InvalidInput, PlimsollError, RateLimited, SourceUnavailable
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.model import ModelFacts
from plimsoll.facts.prices.repricing import OwnPrices

Body = dict[str, Any]

_WITHOUT_HUB = (
    "give the model's config.json instead (a file, the folder of a downloaded checkpoint, or spec.model.config of a "
    "manifest), or name one that `plimsoll models` lists."
)


def prices_from(path: str | None) -> OwnPrices:
    """Prices from a file, a ConfigMap manifest or a list in CSV; empty without a file.

    Raises:
        InvalidInput: the file cannot be read, is neither, or holds an entry that is no price of a GPU type.
    """
    found = read_prices(path, "--prices")
    if found.complaints:
        raise InvalidInput("--prices", path, f"{found.complaints[0]}.")
    return found.own


class Models:
    """The facts of models, from the same sources as the operator's. Each model is requested once.

    An error is kept too: forty objects of one model wait for one time-out.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], ModelFacts | PlimsollError] = {}

    def of(self, resource: InferenceDeployment) -> ModelFacts:
        """The model's facts. Blocks if the Hub must be asked."""
        return self._facts(resource.spec.model)

    def draft_of(self, resource: InferenceDeployment) -> ModelFacts | None:
        """The facts of its draft; None if speculative decoding names none."""
        draft = draft_model(resource.spec)
        return None if draft is None else self._facts(draft)

    def _facts(self, model: ModelSpec) -> ModelFacts:
        if model.config is not None:
            return _facts(model)
        key = (model.name, model.revision)
        if key not in self._known:
            try:
                self._known[key] = _facts(model)
            except PlimsollError as error:
                self._known[key] = error
        known = self._known[key]
        if isinstance(known, PlimsollError):
            raise known
        return known


def model_of(resource: InferenceDeployment) -> ModelFacts:
    """The model's facts, for one question."""
    return Models().of(resource)


def draft_of(resource: InferenceDeployment) -> ModelFacts | None:
    """The facts of its draft, for one question."""
    return Models().draft_of(resource)


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


def _facts(model: ModelSpec) -> ModelFacts:
    cache, token = hub_access()
    sources = ModelSources(hub=_HubIfAsked(cache))
    try:
        return sources.resolve(model.name, revision=model.revision, token=token, inline=model.config)
    except SourceUnavailable as error:
        raise SourceUnavailable(f"{error}. {_ways_out(error)}{did_you_mean_model(model.name)}") from error


def _ways_out(error: SourceUnavailable) -> str:
    """Return the ways that the user has where the hub does not answer, or not now."""
    if isinstance(error, RateLimited):
        pause = "" if error.pause_seconds is None else f"It asks for a pause of {error.pause_seconds} s. "
        return f"{pause}To do without the hub, {_WITHOUT_HUB}"
    return f"Check the network, name a mirror in HF_ENDPOINT, {_WITHOUT_HUB}"


def live_object(namespace: str, name: str, access: ClusterAccess) -> Body | None:
    """One InferenceDeployment of the cluster, or None."""
    return inference_deployment(ObjectKey(namespace, name), access.file, access.context)
