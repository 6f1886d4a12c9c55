"""The rejected candidates as a status shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from plimsoll.domain.outcomes import CandidateFigures, Rejection
from plimsoll.domain.terms import ACTIVATIONS, KV_CACHE, WEIGHTS
from plimsoll.domain.units import format_price
from plimsoll.placement.explain import rejection_sentence
from plimsoll.render.names import stages

LARGEST_FIGURE = 2**53
"""Beyond this, readers of JSON round integers, and the API server refuses them. A candidate with such a figure is shown
without figures, also where the figure is an admin's."""


MOST_KEPT = 8192
"""The entries that are remembered. A fleet of ten GPU types has some forty for each kind of request."""


def rejected(rejections: Sequence[Rejection]) -> Iterator[dict[str, Any]]:
    """Yield the entries. The source of the prices of a GPU type stands in the first entry with figures of that type.

    Nobody may change an entry in place: deployments that ask for the same share theirs.
    """
    sourced: set[str] = set()
    for rejection in rejections:
        is_first = rejection.figures is not None and rejection.gpu_type not in sourced
        entry = _entry(rejection, with_source=is_first)
        if is_first and "figures" in entry:
            sourced.add(rejection.gpu_type)
        yield entry


@lru_cache(maxsize=MOST_KEPT)
def _entry(rejection: Rejection, *, with_source: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "gpuType": rejection.gpu_type,
        "tensorParallel": rejection.split.tensor_parallel,
        **stages(rejection.split),
        "reason": rejection.reason.value,
        "message": rejection_sentence(rejection),
    }
    shown = None if rejection.figures is None else _figures(rejection.figures)
    if rejection.figures is not None and shown is not None and _can_be_written(shown):
        source = {"priceSource": rejection.figures.price_source} if with_source else {}
        entry["figures"] = {**shown, **source}
    return entry


def _figures(figures: CandidateFigures) -> dict[str, Any]:
    """The figures of a candidate, without those that follow from others: a status has up to forty candidates."""
    estimate, price = figures.estimate, figures.hourly_price
    sizes = {term.name.key: term.size_bytes for term in estimate.terms}
    return {
        "fit": estimate.fit.value,
        "weightsBytes": sizes.get(WEIGHTS.key, 0),
        "kvCacheBytes": sizes.get(KV_CACHE.key, 0),
        "activationsBytes": sizes.get(ACTIVATIONS.key, 0),
        "slackBytes": estimate.slack_bytes or None,
        "expectedBytes": estimate.expected_bytes,
        "computedBytes": estimate.computed_bytes,
        "overrideBytes": estimate.forced_bytes,
        "budgetBytes": estimate.budget_bytes,
        "usableBytes": estimate.usable_bytes,
        "kvNeededTokens": estimate.kv_needed_tokens,
        "kvCapacityTokens": estimate.kv_capacity_tokens,
        "hourlyPrice": None if price is None else format_price(price),
    }


def _can_be_written(figures: Mapping[str, Any]) -> bool:
    return all(abs(each) <= LARGEST_FIGURE for each in figures.values() if isinstance(each, int))
