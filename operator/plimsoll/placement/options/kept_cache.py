"""The KV cache of finished requests that a replica keeps in host memory: its tokens, and what one of them saves."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import format_gib
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import StartOptions
from plimsoll.performance.reuse import ReuseTimes, reuse_times
from plimsoll.performance.step_costs import step_costs


class KeptCache(NamedTuple):
    """Bytes, and tokens: at least as many, if ``is_least``. ``times`` are those of one token; None: not known."""

    size_bytes: int
    tokens: int
    is_least: bool = False
    times: ReuseTimes | None = None


def may_keep(request: Request) -> bool:
    """Whether the release keeps KV cache of this model in host memory."""
    engine, release = engine_of(request.engine.name), request.engine.version
    since = engine.since.get(Feature.HOST_CACHE)
    if since is None or release < since:
        return False
    return engine.host_cache_refusal(request.model, release, StartOptions(), {}) is None


def kept_cache(
    request: Request, gpu: GpuType, split: Split, settings: EngineSettings, figures: MemoryEstimate
) -> KeptCache | None:
    """Return what one replica keeps in host memory; None if nothing, or nothing that is known."""
    found = engine_of(request.engine.name).host_cache(request, gpu, split, settings, figures)
    if found is None:
        return None
    times = _times(request, gpu, split, settings.limits.step_tokens, figures)
    return KeptCache(found.asked_bytes, found.tokens, found.is_least, times)


def _times(
    request: Request, gpu: GpuType, split: Split, step_tokens: int, figures: MemoryEstimate
) -> ReuseTimes | None:
    shape = request.shape
    try:
        costs = step_costs(request.model, request.precision, request.kv_precision, gpu, split, request.engine.residency)
    except (UnsupportedModel, ValueError):
        return None
    prompt = shape.expected_prompt_tokens or shape.context_tokens
    return reuse_times(costs, gpu, figures.kv_bytes_per_token, prompt, step_tokens)


def kept_words(kept: KeptCache, gpu_tokens: int) -> str:
    """Return a sentence about it, next to the tokens that the GPUs of the replica hold."""
    least = "at least " if kept.is_least else ""
    more = f", {kept.tokens / gpu_tokens:.1f} times what the GPUs hold" if gpu_tokens > 0 else ""
    said = f"{format_gib(kept.size_bytes)} of host memory keep {least}{kept.tokens:,} tokens of finished requests{more}"
    if kept.times is None:
        return f"{said}."
    loaded, computed = (f"{1e6 * seconds:.1f} us" for seconds in kept.times)
    many = kept.times.computed / kept.times.loaded
    so = (
        f"{many:.0f} are loaded in the time of computing one"
        if many >= 1
        else "computing is faster, so it does not pay"
    )
    return f"{said}: a token that comes again is loaded in {loaded}, and computed in {computed}: {so}."
