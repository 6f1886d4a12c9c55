"""The options of a request: a verdict on every candidate. GPUs in use count like free ones.

Requests with equal content have the same options. From the fleet, the options depend only on its GPU types and the
size of its nodes. They are computed once for each kind of request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.outcomes import Option, Rejection
from plimsoll.domain.reasons import Reason
from plimsoll.domain.serving import Request
from plimsoll.placement.eligibility import sight
from plimsoll.placement.explain import place_words
from plimsoll.placement.feasibility import judge_all
from plimsoll.placement.memo import Memo
from plimsoll.placement.preference import rank


@dataclass(frozen=True, slots=True)
class Options:
    """A verdict on every candidate, in the order of candidates: a choice that fits, or the reason why none does."""

    verdicts: tuple[Option | Rejection, ...] = ()


NO_OPTIONS = Options()


def options(request: Request, fleet: Fleet, memo: Memo | None = None) -> Options:
    """Judge every candidate. Free GPUs are not checked: a solver decides who gets them.

    Raises:
        UnsupportedModel: the memory of the model cannot be estimated.
    """
    if memo is None:
        return _options(request, fleet, None)
    return memo.recall(request, "options", sight(request, fleet), lambda: _options(request, fleet, memo))


def _options(request: Request, fleet: Fleet, memo: Memo | None) -> Options:
    verdicts = judge_all(request, fleet, memo)
    return Options(_with_nearest(verdicts) if request.slo is not None else verdicts)


def _with_nearest(verdicts: tuple[Option | Rejection, ...]) -> tuple[Option | Rejection, ...]:
    """Add the cheapest option that keeps the declared latency to the candidates that miss it."""
    kept = [verdict for verdict in verdicts if isinstance(verdict, Option)]
    if not kept:
        return verdicts
    nearest = min(kept, key=lambda option: (option.doubts, rank(option)))
    words = ("nearest", place_words(*nearest.target.place))
    return tuple(
        replace(each, numbers=(*each.numbers, words))
        if isinstance(each, Rejection) and each.reason is Reason.TOO_SLOW
        else each
        for each in verdicts
    )
