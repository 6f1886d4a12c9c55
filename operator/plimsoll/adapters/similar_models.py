"""Catalogued models that the writer of an unknown name may mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from plimsoll.adapters.catalog import catalogued_models, load_model_facts, model_title

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
    """Return a sentence that follows another one, with the models that may be meant; empty where there are none."""
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
