"""Catalogued models that the writer of an unknown name may mean."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from plimsoll.adapters.catalog import catalogued_models

MOST_OFFERED = 3

_SIMILAR = 0.8
"""The least similarity of two spellings. Names of other sizes of the same model are as similar as that."""


def similar_models(name: str) -> tuple[str, ...]:
    """Return catalogued models with the same title, else those of a similar spelling; at most three."""
    same = tuple(each for each in catalogued_models() if _title(each) == _title(name) and each != name)
    return same[:MOST_OFFERED] or tuple(islice(_close(name), MOST_OFFERED))


def did_you_mean_model(name: str) -> str:
    """Return a question that follows a sentence, with the models that may be meant; empty where there are none."""
    *others, last = similar_models(name) or ("",)
    if not last:
        return ""
    offered = f"{', '.join(others)} or {last}" if others else last
    return f" Did you mean {offered}?"


def catalogued_spelling(name: str) -> str | None:
    """Return the catalogued name that differs from ``name`` in capitals alone; None where there is none.

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
