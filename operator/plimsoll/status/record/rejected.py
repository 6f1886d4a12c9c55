"""The rejected candidates as a status shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache

from plimsoll.api.v1alpha1.status import CandidateFiguresStatus, RejectionStatus
from plimsoll.domain.decisions.outcomes import CandidateFigures, Rejection
from plimsoll.domain.decisions.terms import ACTIVATIONS, KV_CACHE, WEIGHTS
from plimsoll.domain.public_words import Reason
from plimsoll.domain.units import format_price
from plimsoll.placement.explain import rejection_sentence
from plimsoll.status.record.forms import is_beyond
from plimsoll.status.record.places import split_fields

DEAR = 2
"""A candidate that fits and costs this many times the choice has no figures of its memory: its price rules it out. On
a fleet of large GPUs these are most candidates, and each write of a status carries all of them."""

MOST_KEPT = 8192
"""The entries that are remembered. A fleet of ten GPU types has some forty for each kind of request."""


def rejected(rejections: Sequence[Rejection]) -> Iterator[RejectionStatus]:
    """Yield the entries. The source of the prices of a GPU type stands in the first entry of that type that was judged.

    Deployments that ask for the same share their entries.
    """
    sourced: set[str] = set()
    for rejection in rejections:
        is_first = rejection.figures is not None and rejection.gpu_type not in sourced
        entry = _entry(rejection, with_source=is_first)
        if is_first:
            sourced.add(rejection.gpu_type)
        yield entry


@lru_cache(maxsize=MOST_KEPT)
def _entry(rejection: Rejection, *, with_source: bool) -> RejectionStatus:
    judged = rejection.figures
    return RejectionStatus(
        gpu_type=rejection.gpu_type,
        **split_fields(rejection.split),
        reason=rejection.reason.value,
        message=rejection_sentence(rejection),
        hourly_price=None if judged is None or judged.hourly_price is None else format_price(judged.hourly_price),
        price_source=judged.price_source if judged is not None and with_source else None,
        figures=None if judged is None or _is_dear(rejection) else _figures(judged),
    )


def _is_dear(rejection: Rejection) -> bool:
    if rejection.reason not in (Reason.COSTS_MORE, Reason.SPEED_NOT_MEASURED, Reason.SPOT_NOT_ASKED):
        return False
    price, best = (str(rejection.number(name)) for name in ("price", "best_price"))
    return "unknown" not in (price, best) and Decimal(price) >= DEAR * Decimal(best) > 0


def _figures(figures: CandidateFigures) -> CandidateFiguresStatus | None:
    """The figures of a candidate, without those that follow from others: a status has up to forty candidates.

    None if readers of JSON would round one of them and the API server refuse it, even if it is an admin's.
    """
    estimate = figures.estimate
    sizes = {term.name.key: term.size_bytes for term in estimate.terms}
    shown = CandidateFiguresStatus(
        fit=estimate.fit.value,
        weights_bytes=sizes.get(WEIGHTS.key, 0),
        kv_cache_bytes=sizes.get(KV_CACHE.key, 0),
        activations_bytes=sizes.get(ACTIVATIONS.key, 0),
        slack_bytes=estimate.slack_bytes or None,
        expected_bytes=estimate.expected_bytes,
        computed_bytes=estimate.computed_bytes,
        override_bytes=estimate.forced_bytes,
        budget_bytes=estimate.budget_bytes,
        usable_bytes=estimate.usable_bytes,
        kv_needed_tokens=estimate.kv_needed_tokens,
        kv_capacity_tokens=estimate.kv_capacity_tokens,
    )
    return None if is_beyond(shown) else shown
