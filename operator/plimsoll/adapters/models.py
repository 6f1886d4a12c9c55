"""Where a model's facts come from, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from plimsoll.adapters.catalog import catalogued_models, load_model_facts
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts


class Hub(Protocol):
    """What is asked of a hub: :class:`~plimsoll.adapters.hub.HubModels`, whose libraries are imported by its owner."""

    def facts(self, name: str, revision: str | None, token: str | None, *, asker: str = "") -> ModelFacts:
        """Read a model's facts. Blocks."""

    def close(self) -> None:
        """End the look-ups that are under way."""


class ModelSources:
    """Inline configuration, catalogue and hub as one source.

    1. A configuration given inline always wins: its author knows better.
    2. Without a revision the catalogue answers for the models it holds, without any network; the hub for all others.
    3. With a revision the hub answers, for the catalogue does not know what a revision holds. Where the hub cannot be
       reached, the catalogue stands in.

    Args:
        hub: the hub to ask.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def resolve(
        self,
        name: str,
        *,
        revision: str | None,
        token: str | None,
        inline: Mapping[str, object] | None,
        asker: str = "",
    ) -> ModelFacts:
        """Find a model's facts, on behalf of ``asker``. Blocks where the hub is asked; use a thread.

        Raises:
            ModelNotFound: no source knows the model, or the token may not read it.
            SourceUnavailable: only the hub could know, and it did not answer.
            InvalidInput: a field of the configuration, the revision or the token cannot be used.
            UnsupportedModel: the model has a part without a memory law.
        """
        if inline is not None:
            return read_model_facts(name, inline, revision=revision, source=FactsSource.INLINE)
        known = self.stand_in(name, revision)
        if known is not None and revision is None:
            return known
        try:
            return self._hub.facts(name, revision, token, asker=asker)
        except SourceUnavailable:
            if known is None:
                raise
            return known

    def needs_hub(self, name: str, *, revision: str | None, inline: Mapping[str, object] | None) -> bool:
        """Whether :meth:`resolve` asks the hub: whether it may block, and whether a token is of any use."""
        return inline is None and (revision is not None or name not in catalogued_models())

    def stand_in(self, name: str, revision: str | None) -> ModelFacts | None:
        """The catalogue's facts for a revision that nobody can look at; None where it does not hold the model."""
        catalogued = load_model_facts(name)
        return None if catalogued is None else replace(catalogued, revision=revision)

    def close(self) -> None:
        """End the look-ups that are under way."""
        self._hub.close()
