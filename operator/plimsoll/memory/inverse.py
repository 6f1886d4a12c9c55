"""Inverse questions: the longest context, the most sequences, and the KV precision that fit a GPU and a split.

The memory law answers them. A figure that an admin set instead is not valid for other loads, so it is ignored here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.requests.serving import Request

FitOf = Callable[[Request, GpuType, Split], Fit]
"""Returns how well a request fits a GPU and a split, with the settings that it would get."""

MOST_SEQUENCES = 65_536
"""The limit of the search for the most requests: no manifest may declare more."""

_FEWER_BITS = (KvPrecision.FP8, KvPrecision.NVFP4)
"""From the most bits to the fewest."""


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest value that fits. ``is_bound`` means that it is the limit of the search, so more may fit."""

    value: int
    is_bound: bool


def longest_context(request: Request, gpu: GpuType, split: Split, fit: FitOf) -> Largest | None:
    """Return the most tokens of context that fit for sure; None if not even one fits.

    The limit of the search is the model's declared context, or the requested context if that is longer.
    """
    asked = by_law(request)

    def fits(tokens: int) -> bool:
        return fit(replace(asked, shape=replace(asked.shape, context_tokens=tokens)), gpu, split) is Fit.SURE

    # No request is longer than the context, so the context cannot be shorter than the mean length.
    shortest = asked.shape.expected_tokens or 1
    return _within(fits, shortest, max(shortest, asked.model.max_context_tokens, asked.shape.context_tokens))


def most_sequences(
    request: Request, gpu: GpuType, split: Split, fit: FitOf, *, most: int = MOST_SEQUENCES
) -> Largest | None:
    """Return the highest concurrency that fits for sure; None if not even one sequence fits."""
    asked = by_law(request)

    def fits(sequences: int) -> bool:
        return fit(replace(asked, shape=replace(asked.shape, concurrency=sequences)), gpu, split) is Fit.SURE

    return _within(fits, 1, most)


def widest_kv_precision(request: Request, gpu: GpuType, split: Split, fit: FitOf) -> KvPrecision | None:
    """Return the KV precision with the most bits that fits for sure, from 16 bits down; None if none fits."""
    asked = by_law(request)
    dtype = asked.model.checkpoint.dtype if asked.precision.is_quantized else asked.precision
    full = KvPrecision.FP16 if KvPrecision.FP16 in (asked.kv_precision, dtype) else KvPrecision.BF16
    wanted = (replace(asked, kv_precision=precision) for precision in (full, *_FEWER_BITS))
    return next((each.kv_precision for each in wanted if _fits_for_sure(each, gpu, split, fit)), None)


def _fits_for_sure(request: Request, gpu: GpuType, split: Split, fit: FitOf) -> bool:
    """Whether a format fits for sure. Not every cache has every format: one without a memory law does not fit."""
    try:
        return fit(request, gpu, split) is Fit.SURE
    except UnsupportedModel:
        return False


def by_law(request: Request) -> Request:
    """Return the same request without an admin's memory figure, so that the memory law judges it."""
    return replace(request, overrides=replace(request.overrides, memory_per_gpu_bytes=None))


def _within(fits: Callable[[int], bool], smallest: int, greatest: int) -> Largest | None:
    found = largest(fits, smallest, greatest)
    return None if found is None else Largest(found, is_bound=found == greatest)


def largest(fits: Callable[[int], bool], smallest: int, greatest: int) -> int | None:
    """Return the largest value that fits, by bisection. If a value fits, every smaller value must fit."""
    if not fits(smallest):
        return None
    good, bad = smallest, greatest + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
