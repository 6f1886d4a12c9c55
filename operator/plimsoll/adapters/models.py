"""The sources of a model's facts, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from plimsoll.adapters.catalog import catalogued_models, load_model_facts
from plimsoll.adapters.similar_models import did_you_mean_model
from plimsoll.domain.errors import ModelNotFound, SourceUnavailable
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts


class Hub(Protocol):
    """A hub, for example :class:`~plimsoll.adapters.hub.HubModels`. Its creator imports the hub's libraries."""

    def facts(self, name: str, revision: str | None, token: str | None, *, asker: str = "") -> ModelFacts:
        """Read a model's facts. Blocks."""

    def close(self) -> None:
        """End the look-ups that are under way."""


class ModelSources:
    """Inline configuration, catalogue and hub as one source.

    1. A configuration given inline always wins, because the user chose it.
    2. Without a revision the catalogue answers for the models it has, without any network; the hub for all others.
    3. With a revision the hub answers, because the catalogue does not know the content of a revision. If the hub cannot
       be reached, the catalogue's facts are used.

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
        """Find a model's facts for ``asker``. Blocks if it asks the hub; use a thread.

        Raises:
            ModelNotFound: no source knows the model, or the token may not read it.
            SourceUnavailable: only the hub could know the model, and it did not answer.
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
        except ModelNotFound as error:
            raise type(error)(f"{error}{'' if known else did_you_mean_model(name)}") from error

    def needs_hub(self, name: str, *, revision: str | None, inline: Mapping[str, object] | None) -> bool:
        """Whether :meth:`resolve` asks the hub: only then may it block, and only then is a token useful."""
        return inline is None and (revision is not None or name not in catalogued_models())

    def stand_in(self, name: str, revision: str | None) -> ModelFacts | None:
        """Return the catalogue's facts for a revision that cannot be read; None if the catalogue lacks the model."""
        catalogued = load_model_facts(name)
        return None if catalogued is None else replace(catalogued, revision=revision)

    def close(self) -> None:
        """End the look-ups that are under way."""
        self._hub.close()
