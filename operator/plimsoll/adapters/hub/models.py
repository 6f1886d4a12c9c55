"""The sources of a model's facts, in the order in which they are asked.

Catalogued models that the writer of an unknown name may mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Protocol

from plimsoll.adapters.catalog import catalogued_models, load_model_facts, model_title
from plimsoll.domain.errors import ModelNotFound, SourceUnavailable
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts

MOST_OFFERED = 3

_SIMILAR = 0.8
"""The least similarity of two spellings. Names of other sizes of the same model are as similar as that."""

_SIZE = re.compile(r"\d[bm]\b")
"""A number of parameters in a name: without one, a name is part of those of other models."""


def similar_models(name: str) -> tuple[str, ...]:
    """Return catalogued models with the same title, else those of a similar spelling; at most three."""
    same = tuple(each for each in catalogued_models() if _title(each) == _title(name) and each != name)
    return same[:MOST_OFFERED] or tuple(islice(_close(name), MOST_OFFERED))


def same_model(name: str) -> tuple[str, ...]:
    """Return catalogued checkpoints of the model that a checkpoint's name is built on, the unquantized first.

    Publishers add the number format, or words of their own, to the name of the model that they start from:
    ``someone/Qwen3.6-27B-AWQ-4bit``. Of several models whose names are part of it, the longest counts.
    """
    asked = f"-{model_title(name)}-"
    titles = {each: model_title(each) for each in catalogued_models()}
    base = max(
        (title for title in titles.values() if _SIZE.search(title) and f"-{title}-" in asked), key=len, default=""
    )
    found = (each for each, title in titles.items() if title == base and each != name)
    return tuple(sorted(found, key=lambda each: (_title(each) != base, each))[:MOST_OFFERED])


def did_you_mean_model(name: str) -> str:
    """Return a sentence that follows another one, with the models that may be meant; empty if there are none."""
    is_misspelt = any(_title(each) == _title(name) for each in catalogued_models())
    formats = () if is_misspelt else same_model(name)
    if formats:
        return f" {_in_formats(formats)}"
    *others, last = similar_models(name) or ("",)
    if not last:
        return ""
    offered = f"{', '.join(others)} or {last}" if others else last
    return f" Did you mean {offered}?"


def _in_formats(names: tuple[str, ...]) -> str:
    known = (facts for facts in map(load_model_facts, names) if facts is not None)
    *most, last = [f"{facts.name} ({facts.checkpoint.precision})" for facts in known]
    offered = f"{', '.join(most)} and {last}" if most else last
    return (
        f"The catalogue has other checkpoints of the same model: {offered}. Name the one with the precision that you "
        "want; one in bf16 can also be asked for in fp8."
    )


def catalogued_spelling(name: str) -> str | None:
    """Return the catalogued name that differs from ``name`` in capitals alone; None if there is none.

    A hub does not let two names differ in capitals alone, so both are the same model.
    """
    folded = name.casefold()
    return next((each for each in catalogued_models() if each.casefold() == folded), None)


def _title(name: str) -> str:
    return name.rpartition("/")[2].casefold()


def _close(name: str) -> Iterator[str]:
    """Yield names of a similar spelling: with the owner if the name has one, else without."""
    spelt = str.casefold if "/" in name else _title
    known = {spelt(each): each for each in reversed(catalogued_models()) if each != name}
    yield from (known[each] for each in get_close_matches(spelt(name), known, MOST_OFFERED, _SIMILAR))


class Hub(Protocol):
    """A hub, for example :class:`~plimsoll.adapters.hub.hub.HubModels`. Its creator imports the hub's libraries."""

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
