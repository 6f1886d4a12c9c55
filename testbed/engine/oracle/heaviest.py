"""Which rank of a split has to fit? Of a pipeline, the stage that weighs most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

_SPLIT: Final = ("config", "tp", "pp", "ep", "quantized")


def heaviest_ranks(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row for neighbours that are stages of the same pipeline: the heaviest, or one that was refused.

    Rows without a pipeline come back as they are.
    """
    for _, ranks in groupby(rows, key=lambda row: tuple(row[name] for name in _SPLIT)):
        answers = list(ranks)
        refused = [row for row in answers if "error" in row]
        if answers[0]["pp"] == 1:
            yield from answers
        else:
            yield refused[0] if refused else max(answers, key=lambda row: row["bytes"])
