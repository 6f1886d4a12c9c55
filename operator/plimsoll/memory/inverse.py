"""The questions asked backwards: with this GPU and split, how long, how many, in how few bits?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import Fit, Split
from plimsoll.domain.precision import KvPrecision
from plimsoll.domain.serving import Request

FitOf = Callable[[Request, GpuType, Split], Fit]
"""How well a request fits a GPU cut by a split, with the settings it would be run with."""

_FEWER_BITS = (KvPrecision.FP8, KvPrecision.NVFP4)
"""From the most bits to the fewest."""


def longest_context(request: Request, gpu: GpuType, split: Split, fit: FitOf) -> int | None:
    """The most tokens of context that fit for sure, within what the model declares; None where not one does."""

    def fits(tokens: int) -> bool:
        return fit(replace(request, shape=replace(request.shape, context_tokens=tokens)), gpu, split) is Fit.SURE

    return largest(fits, 1, max(request.model.max_context_tokens, request.shape.context_tokens))


def most_sequences(request: Request, gpu: GpuType, split: Split, fit: FitOf, *, most: int = 65_536) -> int | None:
    """The highest concurrency that fits for sure; None where not one sequence does."""

    def fits(sequences: int) -> bool:
        return fit(replace(request, shape=replace(request.shape, concurrency=sequences)), gpu, split) is Fit.SURE

    return largest(fits, 1, most)


def widest_kv_precision(request: Request, gpu: GpuType, split: Split, fit: FitOf) -> KvPrecision | None:
    """The KV precision with the most bits that fits for sure, from 16 bits down; None where none does."""
    full = KvPrecision.FP16 if KvPrecision.FP16 in (request.kv_precision, _dtype(request)) else KvPrecision.BF16
    wanted = (replace(request, kv_precision=precision) for precision in (full, *_FEWER_BITS))
    return next((each.kv_precision for each in wanted if fit(each, gpu, split) is Fit.SURE), None)


def _dtype(request: Request) -> str:
    """The 16-bit type that the model runs in."""
    return request.model.checkpoint.dtype if request.precision.is_quantized else request.precision


def largest(fits: Callable[[int], bool], smallest: int, greatest: int) -> int | None:
    """Bisect for the largest value that fits; where one fits, every smaller one does."""
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
