"""The options of a request: a verdict on every candidate, and the order of preference among those that fit.

GPUs in use count like free ones.

Requests with equal content have the same options. From the fleet, the options depend only on its GPU types and the
size of its nodes. They are computed once for each kind of request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Option, Rejection, Split, counted_price
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.explain import place_words
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import Candidate
from plimsoll.placement.options.feasibility import hourly_price, judge_all
from plimsoll.placement.options.nodes import sight

UNPRICED = 1_000.0
"""US dollars an hour assumed for a GPU without a price, so that it is taken only if nothing else is left."""

NO_PRICE = Decimal("Infinity")
"""Types without a price rank behind all priced types, so that an unknown cost is never the first choice."""


Preference = tuple[Decimal, int, int, int, str]


def rank(choice: Option) -> Preference:
    """Return the sort key of preference: less cost, fewer GPUs, fewer engines, fewer pipeline stages, name.

    Several engines on the same GPUs share their requests unevenly at times, so one engine comes first if it fits.
    """
    return preference(choice.gpu, choice.split, choice.cost)


def preference(gpu: GpuType, split: Split, price: Decimal | None) -> Preference:
    """Return the same sort key for a candidate, given the cost of one replica."""
    known = NO_PRICE if price is None else price
    return known, split.gpus, split.data_parallel, split.pipeline_parallel, gpu.name


def preference_at(candidate: Candidate) -> Preference:
    """Return the same sort key for a candidate by its price alone."""
    price = hourly_price(candidate.gpu, candidate.split)
    return preference(candidate.gpu, candidate.split, counted_price(candidate.gpu, price))


def price_of(option: Option) -> float:
    """Return the cost of a replica by which options are compared, in US dollars an hour."""
    return UNPRICED * option.split.gpus + float(option.delay_cost) if option.cost is None else float(option.cost)


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
