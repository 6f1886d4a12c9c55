"""The engines' metrics with their age, and a state for every way in which they can be unusable."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any

from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import to_percent


class SignalState(StrEnum):
    """The reliability of the numbers of one pod or of a whole load. Listed from best to worst."""

    FRESH = "Fresh"
    """Plausible, young, and enough samples for a rate."""
    COLD = "Cold"
    """Plausible, but there is only one sample, and what was before is not known."""
    STALE = "Stale"
    """The newest sample is older than the bound."""
    MISSING = "Missing"
    """No series for the pod, or none for a metric that the decision needs."""
    INVALID = "Invalid"
    """An impossible number: NaN, infinite, negative, a KV-cache use above 1, or a sample from the future."""
    UNAVAILABLE = "Unavailable"
    """Prometheus did not answer, or its answer was unusable."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram: how many values are at most each of its ``bounds``, in ascending order. The last one is +Inf."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One pod's metrics at one scrape. None if the scrape did not have the series; None is never the same as 0.

    ``*_total`` are counters since the engine started. A pod of several engines (data-parallel ranks) has the figures of
    all of them together. The totals of lengths and times are the sums of histograms, and each has its count with it.

    Attributes:
        at: the true scrape time in POSIX seconds.
        kv_usage: share 0..1 of KV blocks in use. Blocks kept only for the prefix cache count as free (vLLM's
            ``BlockPool.get_usage``).
        waiting: requests in the queue.
        running: requests in the batch.
        preemptions_total: requests that lost their blocks.
        kv_capacity_tokens: the KV cache that the engine really has.
        prompt_tokens_total: prompt tokens read.
        generation_tokens_total: tokens generated.
        finished_total: requests that are done.
        finished_prompt_tokens_total: prompt tokens of the requests that are done.
        finished_output_tokens_total: generated tokens of the requests that are done.
        ttft_seconds_total: times to the first token.
        first_tokens_total: requests with a first token.
        token_gap_seconds_total: times between two tokens of a request.
        token_gaps_total: how many such times there were.
        prefix_queried_tokens_total: prompt tokens that were looked up in the prefix cache.
        prefix_hit_tokens_total: prompt tokens that were found there, or in a cache behind it.
        behind_hit_tokens_total: those of them that a cache behind it had, e.g. in host memory.
        host_cache_tokens: the tokens that the engine keeps in host memory; None: none, or it does not say.
        rank_usages: ``kv_usage`` of each rank, in the order of the ranks; empty if there is one rank.
        rank_queues: ``waiting`` of each rank in the same way.
        first_token_buckets: the histogram of times to the first token; None if nobody asked for it.
        token_gap_buckets: that of the times between two tokens.
    """

    at: float
    kv_usage: float | None = None
    waiting: float | None = None
    running: float | None = None
    preemptions_total: float | None = None
    kv_capacity_tokens: int | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    finished_total: float | None = None
    finished_prompt_tokens_total: float | None = None
    finished_output_tokens_total: float | None = None
    ttft_seconds_total: float | None = None
    first_tokens_total: float | None = None
    token_gap_seconds_total: float | None = None
    token_gaps_total: float | None = None
    prefix_queried_tokens_total: float | None = None
    prefix_hit_tokens_total: float | None = None
    behind_hit_tokens_total: float | None = None
    host_cache_tokens: int | None = None
    rank_usages: tuple[float, ...] = ()
    rank_queues: tuple[float, ...] = ()
    first_token_buckets: Buckets | None = None
    token_gap_buckets: Buckets | None = None
    _is_possible: bool | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def is_possible(self) -> bool:
        """Whether all of its numbers, and its time, can be.

        A sample is part of many readings and turns, and it is looked at in the first of them.
        """
        if self._is_possible is None:
            object.__setattr__(self, "_is_possible", _can_be(self))
        return self._is_possible is True


NO_NUMBERS = ("rank_usages", "rank_queues", "first_token_buckets", "token_gap_buckets")
"""The fields of a sample that are several numbers. What cannot be is left out when they are read."""

LARGEST_COUNT = 2**53
"""The largest count that a float holds exactly (IEEE 754 doubles, the only number type of Prometheus)."""

NUMBERS = tuple(each.name for each in fields(EngineSample) if each.init and each.name not in ("at", *NO_NUMBERS))
"""The fields of a sample that are one number each."""

SIZES = ("kv_capacity_tokens", "host_cache_tokens")
"""Those of them that are the size of a cache. Nothing is computed from that of a cache in host memory."""

COUNTS = tuple(name for name in NUMBERS if name not in SIZES)
"""Every number of a sample that must be possible. One that is not would spoil every sum and mean that it is part of."""

counts_of: Callable[[EngineSample], tuple[float | None, ...]] = attrgetter(*COUNTS)
"""Returns all of them, in this order."""


def _can_be(sample: EngineSample) -> bool:
    counts = [count for count in counts_of(sample) if count is not None]
    return (
        math.isfinite(
            sample.at + sum(counts)
        )  # one NaN makes the sum NaN, and the least and the largest are no measure
        and (not counts or 0 <= min(counts) <= max(counts) <= LARGEST_COUNT)
        and (sample.kv_usage is None or sample.kv_usage <= 1)
        and (sample.kv_capacity_tokens is None or 0 < sample.kv_capacity_tokens <= LARGEST_COUNT)
        and (sample.host_cache_tokens is None or 0 < sample.host_cache_tokens <= LARGEST_COUNT)
    )


@dataclass(frozen=True, slots=True)
class PodSignals:
    """The samples of one pod, in any order.

    So many of the newest are ``steady``, as :func:`plimsoll.rebalance.signals.tracks.steady_of` finds. 0 says nothing,
    and changes no figure: it takes longer to find.

    ``known`` keeps what was found from them, by what else it was found from. A pod that has nothing new is not looked
    through again in the next turn.
    """

    pod: str
    samples: tuple[EngineSample, ...] = ()
    steady: int = field(default=0, repr=False, compare=False)
    known: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """How busy GPUs are, 0 to 1, as means over GPUs. None: not known. Figures for people, which decide nothing.

    ``memory`` is the share of the time in which their memory moves data, ``tensor_cores`` that in which these work.
    ``faults`` are what the GPUs of a pod report of themselves, in words, by the pod's name.
    """

    memory: float | None = None
    tensor_cores: float | None = None
    faults: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PodState:
    """The reliability of one pod's numbers. ``age_seconds`` is the age of its newest sample, None if it has none."""

    pod: str
    state: SignalState
    age_seconds: float | None = None


_SEVERITY = {state: rank for rank, state in enumerate(SignalState)}


def worst(states: tuple[SignalState, ...]) -> SignalState:
    """Return the state furthest from fresh; MISSING if there are no states."""
    return max(states, key=_SEVERITY.__getitem__, default=SignalState.MISSING)


def gpu_numbers(gpus: GpuActivity | None) -> Numbers:
    """Return the activity in percent, for people next to a diagnosis; empty if nothing is known."""
    if gpus is None:
        return ()
    pairs = (("memory_busy_percent", gpus.memory), ("tensor_busy_percent", gpus.tensor_cores))
    return tuple((name, to_percent(share)) for name, share in pairs if share is not None)
