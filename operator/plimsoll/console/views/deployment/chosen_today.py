"""What runs, and what would be chosen today: the figures that differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.console.views.deployment.candidates import CHOSEN, Candidate, Candidates
from plimsoll.console.views.figures import Figures
from plimsoll.console.views.prices import dollars_of
from plimsoll.console.views.proposals.lines import Line
from plimsoll.console.views.words import dollars, gib, signed_gib, split_words, times
from plimsoll.domain.reasons import Reason

_KEPT = frozenset({Reason.PLACEMENT_KEPT.value, Reason.KEPT_TO_AVOID_MOVE.value})
"""Reasons of candidates that are better than what runs, and are left for it."""


@dataclass(frozen=True, slots=True)
class ChosenToday:
    """The lines of the comparison, why what runs is kept, and how many other candidates are better as well."""

    lines: tuple[Line, ...]
    reason: str
    message: str
    others: int


def chosen_today(found: Candidates) -> ChosenToday | None:
    """Return the comparison with the cheapest better candidate; None where nothing is better than what runs."""
    now = next((each for each in found.shown if each.verdict == CHOSEN), None)
    better = sorted((each for each in (*found.shown, *found.dear) if each.reason in _KEPT), key=_price)
    if now is None or not better:
        return None
    best = better[0]
    lines = tuple(line for line in _lines(now, best) if line.before != line.after)
    return ChosenToday(lines, best.reason, best.message, len(better) - 1)


def _price(candidate: Candidate) -> float:
    price = dollars_of(candidate.price)
    return float("inf") if price is None else float(price)


def _lines(now: Candidate, best: Candidate) -> Iterator[Line]:
    yield Line("GPUs of a replica", _place(now), _place(best))
    yield Line("price of a replica per hour", dollars(now.price), dollars(best.price), best.difference)
    if now.figures is not None and best.figures is not None:
        yield from _memory(now.figures, best.figures)


def _memory(now: Figures, best: Figures) -> Iterator[Line]:
    yield Line("need of one GPU", f"{gib(now.upper)} GiB", f"{gib(best.upper)} GiB")
    yield Line("load line of one GPU", f"{gib(now.budget)} GiB", f"{gib(best.budget)} GiB")
    yield Line("spare of one GPU", f"{signed_gib(now.spare)} GiB", f"{signed_gib(best.spare)} GiB")
    yield Line("KV room / need", _room(now), _room(best))


def _room(figures: Figures) -> str:
    return times(figures.kv_capacity_tokens, figures.kv_needed_tokens)


def _place(candidate: Candidate) -> str:
    return f"{candidate.gpu_type} {split_words(candidate.split)}"
