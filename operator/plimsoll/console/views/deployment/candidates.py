"""Why here, and not elsewhere: the choice, what fits by price, and what does not by what is missing.

Below, the figures of the placement that would be chosen today.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from plimsoll.api.v1alpha1.status import InferenceDeploymentStatus, RejectionStatus
from plimsoll.console.drawing.bar import PERCENT, Bar, bar_of, common_scale
from plimsoll.console.views.figures import Figures, figures_of_rejection
from plimsoll.console.views.proposals.lines import ProposalLine
from plimsoll.console.views.proposals.spec_change import fixed_place
from plimsoll.console.views.rows import DeploymentRow
from plimsoll.console.views.words import dollars, dollars_of, gib, signed_gib, split_words, times
from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.public_words import Reason
from plimsoll.status.record.places import split_of
from plimsoll.status.record.rejected import DEAR

_FAILS = frozenset({Reason.OBSERVED_TOO_SMALL.value, Reason.START_FAILED.value, Reason.TOO_FEW_STATES.value})
"""Reasons why an engine does not start, or holds too little, although the bytes fit: running engines have proved it, or
it refuses."""

CHOSEN, FITS, NO = "chosen", "fits", "no"
_SYMBOLS = {CHOSEN: "\u25cf", FITS: "\u2713", NO: "\u2717"}


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One GPU type and split. ``bar`` and ``figures`` are None if the status has no figures of its memory.

    ``difference`` is that of its price to the chosen one in percent, with its sign; empty if one is unknown.
    ``override`` are the fields of a spec that fix this place, as YAML; empty for the choice, for what does not fit, and
    if a spec cannot say it.
    """

    gpu_type: str
    split: Split
    verdict: str
    reason: str
    message: str
    figures: Figures | None = None
    price: str | None = None
    difference: str = ""
    override: str = ""
    bar: Bar | None = None

    @property
    def symbol(self) -> str:
        """The verdict as a symbol."""
        return _SYMBOLS[self.verdict]


@dataclass(frozen=True, slots=True)
class Candidates:
    """``shown`` is the table, ``dear`` fits and costs much more, ``impossible`` was not judged.

    ``omitted`` counts what the status does not hold.
    """

    shown: tuple[CandidateRow, ...]
    dear: tuple[CandidateRow, ...]
    impossible: tuple[CandidateRow, ...]
    omitted: int = 0

    @property
    def count(self) -> int:
        """How many candidates the status holds."""
        return len(self.shown) + len(self.dear) + len(self.impossible)


def candidates_of(status: InferenceDeploymentStatus, row: DeploymentRow) -> Candidates:
    """Return the candidates of a status, the choice first."""
    chosen = _chosen(status, row)
    price = dollars_of(None if chosen is None else chosen.price)
    others = [_candidate(each, price) for each in status.rejections or ()]
    return sorted_candidates(chosen, others, status.rejections_omitted or 0)


def sorted_candidates(chosen: CandidateRow | None, others: Sequence[CandidateRow], omitted: int = 0) -> Candidates:
    """Return candidates in the order of the page, each with its bar on one scale."""
    price = dollars_of(None if chosen is None else chosen.price)
    judged = [each for each in others if each.figures is not None or each.verdict == FITS]
    dear = [each for each in judged if each.verdict == FITS and _is_dear(each, price)]
    shown = [*([] if chosen is None else [chosen]), *sorted((each for each in judged if each not in dear), key=_order)]
    scale = common_scale(
        (max(each.figures.usable, each.figures.upper) for each in (*shown, *dear) if each.figures is not None),
        PERCENT,
    )

    def with_bar(each: CandidateRow) -> CandidateRow:
        return each if each.figures is None else replace(each, bar=bar_of(each.figures, scale))

    return Candidates(
        tuple(map(with_bar, shown)),
        tuple(map(with_bar, sorted(dear, key=_order))),
        tuple(each for each in others if each not in judged),
        omitted,
    )


def _chosen(status: InferenceDeploymentStatus, row: DeploymentRow) -> CandidateRow | None:
    placement = status.placement
    if placement is None or row.gpu_type is None or row.split is None:
        return None
    price = placement.hourly_price_per_replica
    return CandidateRow(row.gpu_type, row.split, CHOSEN, "Placed", "Chosen.", row.figures, price)


def _candidate(rejection: RejectionStatus, chosen: Decimal | None) -> CandidateRow:
    figures, price = figures_of_rejection(rejection), rejection.hourly_price
    fits = _has_room(rejection, figures) and rejection.reason not in _FAILS
    return CandidateRow(
        rejection.gpu_type,
        split_of(rejection),
        FITS if fits else NO,
        rejection.reason,
        rejection.message,
        figures,
        price,
        _difference(dollars_of(price), chosen),
        fixed_place(rejection.gpu_type, split_of(rejection)) if fits else "",
    )


def _has_room(rejection: RejectionStatus, figures: Figures | None) -> bool:
    """Whether placement counted it as fitting; an admin's figure stands in the place of the computed one.

    Of what fits and costs much more a status has no figures.
    """
    if figures is None:
        return rejection.reason == Reason.COSTS_MORE.value
    return not figures.is_over if figures.fit is None else figures.fit is not Fit.NO


def _order(candidate: CandidateRow) -> tuple[bool, float]:
    """Return the place in the order: candidates that fit by price, then the others by what is missing."""
    figures = candidate.figures
    if candidate.verdict == FITS:
        return False, _price(candidate)
    return True, 0.0 if figures is None else float(figures.expected - figures.budget)


def _is_dear(candidate: CandidateRow, chosen: Decimal | None) -> bool:
    price = dollars_of(candidate.price)
    return chosen is not None and price is not None and price >= DEAR * chosen > 0


def _difference(price: Decimal | None, chosen: Decimal | None) -> str:
    if price is None or not chosen:
        return ""
    return f"{(price / chosen - 1) * 100:+,.0f} %"


_KEPT = frozenset({Reason.PLACEMENT_KEPT.value, Reason.KEPT_TO_AVOID_MOVE.value})
"""Reasons of candidates that are better than what runs, and are left for it."""


@dataclass(frozen=True, slots=True)
class ChosenToday:
    """The lines of the comparison, why what runs is kept, and how many other candidates are better as well."""

    lines: tuple[ProposalLine, ...]
    reason: str
    message: str
    others: int


def chosen_today(found: Candidates) -> ChosenToday | None:
    """Return the comparison with the cheapest better candidate; None if nothing is better than what runs."""
    now = next((each for each in found.shown if each.verdict == CHOSEN), None)
    better = sorted((each for each in (*found.shown, *found.dear) if each.reason in _KEPT), key=_price)
    if now is None or not better:
        return None
    best = better[0]
    lines = tuple(line for line in _lines(now, best) if line.before != line.after)
    return ChosenToday(lines, best.reason, best.message, len(better) - 1)


def _price(candidate: CandidateRow) -> float:
    price = dollars_of(candidate.price)
    return float("inf") if price is None else float(price)


def _lines(now: CandidateRow, best: CandidateRow) -> Iterator[ProposalLine]:
    yield ProposalLine("GPUs of a replica", _place(now), _place(best))
    yield ProposalLine("price of a replica per hour", dollars(now.price), dollars(best.price), best.difference)
    if now.figures is not None and best.figures is not None:
        yield from _memory(now.figures, best.figures)


def _memory(now: Figures, best: Figures) -> Iterator[ProposalLine]:
    yield ProposalLine("need of one GPU", f"{gib(now.upper)} GiB", f"{gib(best.upper)} GiB")
    yield ProposalLine("load line of one GPU", f"{gib(now.budget)} GiB", f"{gib(best.budget)} GiB")
    yield ProposalLine("spare of one GPU", f"{signed_gib(now.spare)} GiB", f"{signed_gib(best.spare)} GiB")
    yield ProposalLine("KV room / need", _room(now), _room(best))


def _room(figures: Figures) -> str:
    return times(figures.kv_capacity_tokens, figures.kv_needed_tokens)


def _place(candidate: CandidateRow) -> str:
    return f"{candidate.gpu_type} {split_words(candidate.split)}"
