"""The answer to a what-if question: the difference first, then what changes, then the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from plimsoll.app.review.values import ReviewVerdict
from plimsoll.console.views.deployment.candidates import Candidates, candidates_of
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.words import count, dollars_of, split_words
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.record.reading import read, whole_status
from plimsoll.status.severity import waiting_state

Body = Mapping[str, Any]

_WORDS = {
    ReviewVerdict.PLACED: ("\u2713", "good", "placed", "placed"),
    ReviewVerdict.MOVED: ("\u2192", "warn", "moves", "move"),
    ReviewVerdict.CHANGED: ("\u25b3", "warn", "changes where it is", "change where they are"),
    ReviewVerdict.KEPT: ("=", "muted", "unchanged", "unchanged"),
    ReviewVerdict.WAITING: ("\u2026", "bad", "waits", "wait"),
    ReviewVerdict.REFUSED: ("\u2717", "bad", "refused", "refused"),
}
"""The symbol, the CSS class, the word for one deployment and that for several."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One deployment before and after. ``is_asked`` means that it is in the manifest."""

    key: ObjectKey
    symbol: str
    kind: str
    word: str
    reason: str
    message: str
    before: str
    after: str
    bill: str
    is_asked: bool
    restarts: bool
    candidates: Candidates | None


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """``summary`` is the difference in one line, with the number of deployments that lose by the question."""

    summary: str
    bill: str
    changes: tuple[Difference, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]


def answer_of(document: Body) -> WhatIfAnswer:
    """Return the answer from the document of ``plimsoll plan -o json``."""
    changes = tuple(_difference(each) for each in document["changes"])
    bill = _bill(document["bill"])
    unchanged = int(document["unchanged"]["count"])
    displaced = sum(1 for each in document["changes"] if _loses(each))
    summary = ", ".join([*_counts(document["changes"], unchanged), *([bill] if bill else []), f"{displaced} displaced"])
    notes, problems = tuple(document["notes"]), tuple(document["problems"])
    return WhatIfAnswer(summary, _whole_bill(document["bill"]), changes, notes, problems)


def _loses(change: Body) -> bool:
    """Whether a deployment that nobody asked about has to move or loses its place."""
    lost = (ReviewVerdict.MOVED, ReviewVerdict.WAITING, ReviewVerdict.REFUSED)
    return not change["inFiles"] and not change["withoutFilesToo"] and ReviewVerdict(change["change"]) in lost


def _counts(changes: Sequence[Body], unchanged: int) -> Iterator[str]:
    counts = Counter(ReviewVerdict(each["change"]) for each in changes)
    counts[ReviewVerdict.KEPT] += unchanged
    for verdict, (_, _, of_one, of_several) in _WORDS.items():
        if counts[verdict]:
            yield f"{counts[verdict]:,} {of_one if counts[verdict] == 1 else of_several}"


def _difference(change: Body) -> Difference:
    verdict = ReviewVerdict(change["change"])
    symbol, kind, word, _ = _WORDS[verdict]
    before, after = change["before"], change["after"]
    return Difference(
        key=ObjectKey(change["namespace"], change["name"]),
        symbol=symbol,
        kind=kind,
        word=_word(verdict, change) or word,
        reason=change["reason"],
        message=change["message"],
        before=_places(before),
        after=_places(after),
        bill=_prices(before, after),
        is_asked=bool(change["inFiles"]),
        restarts=bool(change["restarts"]),
        candidates=_candidates(change),
    )


def _word(verdict: ReviewVerdict, change: Body) -> str:
    """Return what becomes of one deployment if more is known than the verdict: where it moves, or what it waits for."""
    if verdict is ReviewVerdict.MOVED and change["after"]:
        return f"moves to {_places(change['after'])}"
    state = waiting_state(change["reason"]) if verdict is ReviewVerdict.WAITING else None
    return "" if state is None else state.value


def _candidates(change: Body) -> Candidates | None:
    if not change["inFiles"]:
        return None
    body = {"metadata": {"name": change["name"], "namespace": change["namespace"]}, "status": change}
    found = candidates_of(whole_status(read(change)), row_of(body))
    return found if found.count else None


def _places(places: Sequence[Body]) -> str:
    return ", ".join(_place(each) for each in places) or "nothing"


def _place(place: Body) -> str:
    split = Split(place["tensorParallel"], place["pipelineParallel"], place.get("dataParallel", 1))
    return f"{count(place['replicas'])} on {place['gpuType']} {split_words(split)}"


def _prices(before: Sequence[Body], after: Sequence[Body]) -> str:
    old, new = _total(before), _total(after)
    if old is None or new is None:
        return "unknown"
    return f"${old:,.2f}" if old == new else f"${old:,.2f} \u2192 ${new:,.2f}"


def _total(places: Sequence[Body]) -> Decimal | None:
    prices = [dollars_of(each.get("hourlyPrice")) for each in places]
    known = [price for price in prices if price is not None]
    return sum(known, start=Decimal(0)) if len(known) == len(prices) else None


def _bill(bill: Body) -> str:
    difference = Decimal(bill["after"]) - Decimal(bill["before"])
    return f"{'+' if difference >= 0 else '-'}${abs(difference):,.2f}/h" if difference else "same price"


def _whole_bill(bill: Body) -> str:
    unpriced = f", without {bill['unpricedPlaces']} places of unknown price" if bill["unpricedPlaces"] else ""
    return f"${Decimal(bill['before']):,.2f}/h now, ${Decimal(bill['after']):,.2f}/h after{unpriced}"
