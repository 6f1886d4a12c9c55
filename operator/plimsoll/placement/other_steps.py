"""The other sizes of a step (``--max-num-batched-tokens``) that running engines could be given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.placement.memo import Memo

STEPS = (512, 1024, 2048, 4096, 8192)
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
    """Return the other steps of :data:`STEPS` that the engines could be given; empty where the user has fixed it.

    Args:
        request: the deployment as the user wants it.
        runs: the same with the settings that its engines have.
        gpu: the GPU type of the replica.
        split: how the replica is cut.
        kv_tokens: the KV cache of a replica as it runs.
        memo: the answers of earlier passes.
    """
    if request.engine.max_batched_tokens is not None or request.overrides.memory_per_gpu_bytes is not None:
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
    for tokens in STEPS:
        is_smaller = tokens < now.max_num_batched_tokens
        if tokens == now.max_num_batched_tokens or (is_smaller and _needs_its_step(runs, usual)):
            continue
        figures = _figures(runs, gpu, split, tokens)
        if figures is not None:
            yield tokens, figures.kv_capacity_tokens - usual.kv_capacity_tokens


def _needs_its_step(runs: Request, figures: MemoryEstimate) -> bool:
    """Whether a smaller step may keep the engine from starting.

    A step must hold a block of a cache with recurrent states (2,096 tokens are known), and an image or a piece of sound
    as a whole where the model attends to it in both directions.
    """
    return figures.max_sequences is not None or runs.model.encoder is not None


def _figures(runs: Request, gpu: GpuType, split: Split, tokens: int) -> MemoryEstimate | None:
    """Return the estimate with a step; None where the engine would get another one, or this one may not fit."""
    changed, engine = with_step(runs, tokens), engine_of(runs.engine.name)
    settings = engine.settings(changed, gpu, split)
    if settings.max_num_batched_tokens != tokens:
        return None
    figures = engine.estimate(changed, gpu, split, settings)
    return figures if figures.is_trusted else None


def with_step(request: Request, tokens: int) -> Request:
    """Return the request with a fixed step."""
    return replace(request, engine=replace(request.engine, max_batched_tokens=tokens))
