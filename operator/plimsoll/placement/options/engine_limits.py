"""Other limits of an engine that runs: more requests at the same time, and other sizes of a step.

The most requests that an engine runs at the same time: as many as the KV cache holds that is there anyway.
Without this, requests wait while most of the cache is empty. More requests at the same time need more memory for
activations, sampler and CUDA graphs, so each number is checked with the memory law.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Option, Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.memory.load import EXPECTED_HEADROOM_PERCENT
from plimsoll.performance.slo import READER_TPOT_SECONDS
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.feasibility import estimated
from plimsoll.placement.options.speed import speed_of

STEPS = tuple(sorted({2**power for power in range(1, 15)} | {3 * 2**power for power in range(13)}))
"""Numbers that are used beyond the declared one: powers of two, and half of the way to the next one.

The cache that is there changes a little with every correction learned from engines. Numbers this far apart (at least
33 %) change only if the cache changed a lot, so that replicas of one deployment mostly get the same number. They are
rounded down, because a number that is too large costs preemptions, and one that is too small only some waiting. With
data parallelism they are numbers of each engine.
"""


def with_more_requests(request: Request, option: Option, memo: Memo | None = None) -> Option:
    """Return the option with the most requests at the same time that its cache, its speed and the engine allow.

    The figures of the estimate are those with this number, and the fit stays sure. The number stays as declared if
    the user or a running engine fixes it, if an admin replaces the estimate, if the fit is not sure or an engine
    of the kind ran out of memory, or if the speed is not known or misses its limit already.
    """
    request = request.with_cache_as(narrow=option.has_narrow_cache, host_bytes=option.settings.host_cache_bytes)
    fixed = request.engine.limits.sequences > 0 or request.overrides.memory_per_gpu_bytes is not None
    learned = request.correction_for(option.gpu.name, option.split)
    doubtful = not option.estimate.is_trusted or (learned is not None and not learned.exact)
    if fixed or doubtful:
        return option
    if memo is None:
        return _raised(request, option)
    question = ("requests", option.gpu.name, option.split)
    return memo.recall(request, question, option, lambda: _raised(request, option))


def _raised(request: Request, option: Option) -> Option:
    engines, each = option.split.data_parallel, option.settings.limits.sequences
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
    return declared or READER_TPOT_SECONDS


def _with(request: Request, option: Option, number: int) -> tuple[EngineSettings, MemoryEstimate] | None:
    """Return settings and estimate with this number; None if the cache or the memory does not hold it for sure."""
    engine = engine_of(request.engine.name)
    wider = _with_number(request, option, number)
    settings = engine.settings(wider, option.gpu, option.split)
    filled = replace(wider, shape=replace(request.shape, concurrency=number, guaranteed=False))
    if not engine.estimate(filled, option.gpu, option.split, settings).is_trusted:
        return None
    figures = estimated(wider, option.gpu, option.split, settings)
    return (settings, figures) if figures.is_trusted else None


def _with_number(request: Request, option: Option, number: int) -> Request:
    """Return the request with this number. The step is fixed if the option has a smaller one than usual, to fit."""
    usual = engine_of(request.engine.name).settings(request, option.gpu, option.split)
    step = 0 if usual == option.settings else option.settings.limits.step_tokens
    return request.limited(StepLimits(step, number))


STEP_SIZES = (512, 1024, 2048, 4096, 8192)
"""The sizes that are compared, in tokens of an engine.

With fewer than 512, hardly any prompt tokens fit next to the requests that generate. The memory law was fitted to
starts with up to 8,192 tokens, so a larger step is left to the user.
"""


@dataclass(frozen=True, slots=True)
class OtherStep:
    """A step of ``tokens`` that fits for sure, and the KV cache in tokens that it leaves to a replica."""

    tokens: int
    kv_tokens: int


def other_steps(
    request: Request, runs: Request, gpu: GpuType, split: Split, kv_tokens: int, memo: Memo
) -> tuple[OtherStep, ...]:
    """Return the other steps of :data:`STEP_SIZES` that the engines could be given; empty if the user has fixed it.

    Args:
        request: the deployment as the user wants it.
        runs: the same with the settings that its engines have.
        gpu: the GPU type of the replica.
        split: how the replica is cut.
        kv_tokens: the KV cache of a replica as it runs.
        memo: the answers of earlier passes.
    """
    if request.engine.limits.step_tokens or request.overrides.memory_per_gpu_bytes is not None:
        return ()
    try:
        found = memo.recall(runs, ("steps", gpu.name, split), gpu, lambda: tuple(_others(runs, gpu, split)))
    except PlimsollError:  # the request cannot be judged, and the plan says so
        return ()
    return tuple(OtherStep(tokens, max(1, kv_tokens + more)) for tokens, more in found)


def _others(runs: Request, gpu: GpuType, split: Split) -> Iterator[tuple[int, int]]:
    """Yield each other step, and how much larger the KV cache is with it, in tokens."""
    learned, engine = runs.correction_for(gpu.name, split), engine_of(runs.engine.name)
    if learned is not None and not learned.exact:
        return  # an engine of the kind ran out of memory, and nobody knows by how much
    now = engine.settings(runs, gpu, split)
    usual = engine.estimate(runs, gpu, split, now)
    for tokens in STEP_SIZES:
        is_smaller = tokens < now.limits.step_tokens
        if tokens == now.limits.step_tokens or (is_smaller and _needs_its_step(runs, usual)):
            continue
        figures = _figures(runs, gpu, split, tokens)
        if figures is not None:
            yield tokens, figures.kv_capacity_tokens - usual.kv_capacity_tokens


def _needs_its_step(runs: Request, figures: MemoryEstimate) -> bool:
    """Whether a smaller step may keep the engine from starting.

    A step must hold a block of a cache with recurrent states (2,096 tokens are known), and an image or a piece of sound
    as a whole if the model attends to it in both directions.
    """
    return figures.max_sequences is not None or runs.model.encoder is not None


def _figures(runs: Request, gpu: GpuType, split: Split, tokens: int) -> MemoryEstimate | None:
    """Return the estimate with a step; None if the engine would get another one, or this one may not fit."""
    changed, engine = with_step(runs, tokens), engine_of(runs.engine.name)
    settings = engine.settings(changed, gpu, split)
    if settings.limits.step_tokens != tokens:
        return None
    figures = engine.estimate(changed, gpu, split, settings)
    return figures if figures.is_trusted else None


def with_step(request: Request, tokens: int) -> Request:
    """Return the request with a fixed step."""
    return request.limited(StepLimits(tokens))
