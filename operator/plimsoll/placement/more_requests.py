"""The most requests that an engine runs at the same time: as many as the KV cache holds that is there anyway.

Without this, requests wait while most of the cache is empty. More requests at the same time need more memory for
activations, sampler and CUDA graphs, so each number is checked with the memory law.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace

from plimsoll.domain.latency import Slo
from plimsoll.domain.outcomes import EngineSettings, MemoryEstimate, Option
from plimsoll.domain.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.memory.load import EXPECTED_HEADROOM_PERCENT
from plimsoll.performance.slo import INTERACTIVE
from plimsoll.placement.memo import Memo
from plimsoll.placement.speed import speed_of

STEPS = tuple(sorted({2**power for power in range(1, 15)} | {3 * 2**power for power in range(13)}))
"""Numbers that are used beyond the declared one: powers of two, and half of the way to the next one.

The cache that is there changes a little with every correction learned from engines. Numbers this far apart (at least
33 %) change only where the cache changed a lot, so that replicas of one deployment mostly get the same number. They are
rounded down, because a number that is too large costs preemptions, and one that is too small only some waiting. With
data parallelism they are numbers of each engine.
"""


def with_more_requests(request: Request, option: Option, memo: Memo | None = None) -> Option:
    """Return the option with the most requests at the same time that its cache, its speed and the engine allow.

    The figures of the estimate are those with this number, and the fit stays sure. The number stays as declared where
    the user or a running engine fixes it, where an admin replaces the estimate, where the fit is not sure or an engine
    of the kind ran out of memory, and where the speed is not known or misses its limit already.
    """
    request = request.with_cache_as(narrow=option.has_narrow_cache)
    fixed = request.engine.max_sequences is not None or request.overrides.memory_per_gpu_bytes is not None
    learned = request.correction_for(option.gpu.name, option.split)
    doubtful = not option.estimate.is_trusted or (learned is not None and not learned.exact)
    if fixed or doubtful:
        return option
    if memo is None:
        return _raised(request, option)
    question = ("requests", option.gpu.name, option.split)
    return memo.recall(request, question, option, lambda: _raised(request, option))


def _raised(request: Request, option: Option) -> Option:
    engines, each = option.split.data_parallel, option.settings.max_num_seqs
    usual = engine_of(request.engine.name).most_sequences(request, option.gpu)
    most = min(usual, _held_at_most(request, option) // engines)
    steps = tuple(engines * step for step in STEPS[bisect_right(STEPS, each) : bisect_right(STEPS, most)])
    for number in reversed(steps[: _fast_enough(request, option, steps)]):
        found = _with(request, option, number)
        if found is not None:
            return replace(option, settings=found[0], estimate=found[1])
    return option


def _held_at_most(request: Request, option: Option) -> int:
    """Return a number that the cache never exceeds, so that larger ones need no estimate."""
    figures, shape = option.estimate, replace(request.shape, concurrency=1, guaranteed=False)
    room = 1 if shape.mean_tokens is None else EXPECTED_HEADROOM_PERCENT / 100
    length = min(shape.context_tokens, (shape.mean_tokens or shape.context_tokens) * room)
    held = int(figures.kv_capacity_low_tokens / length)
    return held if figures.max_sequences is None else min(held, option.split.data_parallel * figures.max_sequences)


def _fast_enough(request: Request, option: Option, steps: tuple[int, ...]) -> int:
    """Return how many of these numbers keep the time per token, which grows with the number of requests."""
    limit, place = _token_limit(request.slo), (option.gpu, option.split)

    def keeps(running: int) -> bool:
        settings = engine_of(request.engine.name).settings(_with_number(request, option, running), *place)
        found = speed_of(request, *place, settings, running)
        return found is not None and found.tpot_seconds <= limit

    if not steps or keeps(steps[-1]):  # mostly the cache is the limit
        return len(steps)
    return bisect_left(steps, 1, key=lambda running: 0 if keeps(running) else 1)


def _token_limit(slo: Slo | None) -> float:
    """Return the longest time per token in seconds: the declared one, else that for people who read along."""
    declared = None if slo is None else slo.tpot_seconds
    return declared or INTERACTIVE.tpot_seconds or 0.0


def _with(request: Request, option: Option, number: int) -> tuple[EngineSettings, MemoryEstimate] | None:
    """Return settings and estimate with this number; None where the cache or the memory does not hold it for sure."""
    engine = engine_of(request.engine.name)
    wider = _with_number(request, option, number)
    settings = engine.settings(wider, option.gpu, option.split)
    filled = replace(wider, shape=replace(request.shape, concurrency=number, guaranteed=False))
    if not engine.estimate(filled, option.gpu, option.split, settings).is_trusted:
        return None
    figures = engine.estimate(wider, option.gpu, option.split, settings)
    return (settings, figures) if figures.is_trusted else None


def _with_number(request: Request, option: Option, number: int) -> Request:
    """Return the request with this number. The step is fixed where the option has a smaller one than usual, to fit."""
    usual = engine_of(request.engine.name).settings(request, option.gpu, option.split)
    fixed = request.engine.max_batched_tokens if usual == option.settings else option.settings.max_num_batched_tokens
    return replace(request, engine=replace(request.engine, max_sequences=number, max_batched_tokens=fixed))
