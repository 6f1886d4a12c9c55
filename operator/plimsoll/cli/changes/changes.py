"""Single changes of a request that may make it fit, in words and as the command line writes them.

Changes of an engine's flags that may make it fit, the cheapest first. Load, weights and GPUs stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.adapters.catalog import other_checkpoints
from plimsoll.api.bounds import usual_release
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import WIDE, KvPrecision, Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import counted
from plimsoll.engines.registry import engine_of
from plimsoll.memory.weights import weights_bytes

LEAST_CONTEXT = 512
"""The shortest context in tokens that is offered in place of a longer one. Less is of no use to anybody."""


@dataclass(frozen=True, slots=True)
class RequestChange:
    """One change of a request: in words, as the command line writes it, and in fewer words for a table.

    ``checkpoint`` is the name of another checkpoint to ask about.
    """

    words: str
    option: str
    request: Request
    brief: str = ""
    checkpoint: str | None = None


def other_numbers(asked: Request, *, runs: bool) -> Iterator[RequestChange]:
    """Yield other formats of weights and cache. ``runs`` says whether the GPU has what the asked ones need.

    What engines reported holds for the formats of today, and is left out.
    """
    fresh = replace(asked, observed=(), failed_starts=(), corrections=())
    if not runs and asked.precision is Precision.BF16:
        yield _in_fp16(fresh)
    yield from _published(fresh)
    if not asked.precision.is_quantized:
        yield RequestChange("fp8 weights", "--precision fp8", replace(fresh, precision=Precision.FP8))
    yield from narrow_cache(fresh)


def _in_fp16(asked: Request) -> RequestChange:
    """Return the other 16-bit type, which cards before Ampere compute too. A cache in bf16 follows."""
    is_bf16 = asked.kv_precision is KvPrecision.BF16
    cache = KvPrecision.FP16 if is_bf16 else asked.kv_precision
    return RequestChange(
        "fp16 weights", "--precision fp16", replace(asked, precision=Precision.FP16, kv_precision=cache)
    )


def narrow_cache(asked: Request) -> Iterator[RequestChange]:
    """Yield a cache of half the bits, if it has 16."""
    if asked.kv_precision in WIDE:
        yield RequestChange("an fp8 KV cache", "--kv-precision fp8", replace(asked, kv_precision=KvPrecision.FP8))


def _published(asked: Request) -> Iterator[RequestChange]:
    """Yield the catalogued checkpoints of the same model with smaller weights, the largest first."""
    if asked.model.source is FactsSource.INLINE:
        return
    today = weights_bytes(asked.model, asked.precision, Split(1))
    found = [_checkpoint(facts, asked) for facts in other_checkpoints(asked.model.name)]
    sizes = [(weights_bytes(each.request.model, each.request.precision, Split(1)), each) for each in found]
    yield from (each for size, each in sorted(sizes, key=lambda pair: (-pair[0], pair[1].words)) if size < today)


def _checkpoint(facts: ModelFacts, asked: Request) -> RequestChange:
    precision = facts.checkpoint.precision
    model = engine_of(asked.engine.name).loaded(facts, asked.engine)
    return RequestChange(
        words=f"the {precision.value} checkpoint {facts.name}",
        option="",
        request=replace(asked, model=model, precision=precision),
        brief=f"the published {precision.value} checkpoint",
        checkpoint=facts.name,
    )


def shortest_context(request: Request) -> int:
    """Return the shortest context that is offered: no request is longer than the context."""
    return max(LEAST_CONTEXT, request.shape.expected_tokens or 0)


def with_requests(request: Request, count: int) -> RequestChange:
    """Return the change to this many requests at the same time."""
    shape = replace(request.shape, concurrency=count)
    return RequestChange(counted(f"{count:,}", "request"), f"--concurrency {count}", replace(request, shape=shape))


def with_sequences(request: Request, count: int) -> RequestChange:
    """Return the change of the number of sequences that a manifest or a command fixes."""
    option = f"--max-num-seqs {count}"
    words = f"at most {count:,} sequences" if request.engine.own_defaults else f"spec.engine.maxSequences {count}"
    return RequestChange(words, option, request.limited(StepLimits(sequences=count)))


def with_context(request: Request, tokens: int) -> RequestChange:
    """Return the change to this context in tokens."""
    shape = replace(request.shape, context_tokens=tokens)
    return RequestChange(f"a context of {tokens:,}", f"--context-length {tokens}", replace(request, shape=shape))


STEPS = (4096, 3072, 2048, 1024, 512)
"""Tokens of an engine step that are tried, from the largest."""

MOST_PERCENT = 98
"""The largest share of a GPU that a manifest may give an engine."""


def with_step(asked: Request, tokens: int) -> RequestChange:
    """Return the change to steps of so many tokens: long prompts take more steps."""
    return _changed(asked.limited(StepLimits(tokens)), f"steps of {tokens:,} tokens", f"--batched-tokens {tokens}")


def with_share(asked: Request, percent: int) -> RequestChange:
    """Return the change to this share of each GPU."""
    words = f"{percent} % of each GPU"
    return _changed(asked, words, f"--utilization {percent}", gpu_memory_utilization_percent=percent)


def other_engines(asked: Request, gpu: GpuType) -> Iterator[RequestChange]:
    """Yield the engine's other model runner, and the usual release if another one is asked for."""
    engine = engine_of(asked.engine.name)
    other = engine.other_runner(asked, gpu)
    if other is not None:
        runner, variable = other
        words = f"model runner V{runner} ({variable} in spec.podTemplate.env)"
        yield _changed(asked, words, "", brief=f"model runner V{runner}", model_runner=runner)
    usual = usual_release(engine)
    if asked.engine.version != usual and engine.release_refusal(asked.model, asked.precision, usual) is None:
        yield _changed(asked, f"release {usual}", f"--engine {usual}", version=usual)


def fewer_features(asked: Request) -> Iterator[RequestChange]:
    """Yield the engine without CUDA graphs, without its tower, and without drafts: it gets slower, or does less."""
    engine = asked.engine
    if engine.cache_bytes is not None or engine.cache_blocks is not None:
        words = "the size of the KV cache left to the engine (leave it out)"
        yield _changed(asked, words, "", cache_bytes=None, cache_blocks=None)
    if not engine.enforce_eager:
        yield _changed(asked, "no CUDA graphs", "--eager", enforce_eager=True)
    if asked.model.encoder is not None and not engine.media.text_only:
        media = replace(engine.media, text_only=True)
        change = _changed(asked, "text only", "--text-only", media=media)
        loaded = engine_of(engine.name).loaded(asked.model, change.request.engine)
        yield replace(change, request=replace(change.request, model=loaded))
    if engine.speculation is not None:
        yield _changed(asked, "no speculative decoding (leave --speculate out)", "", speculation=None)


def _changed(asked: Request, words: str, option: str, *, brief: str = "", **fields: Any) -> RequestChange:
    """Return a change of the engine. Lessons and failures of engines with other flags are left out."""
    fresh = replace(asked, observed=(), failed_starts=(), corrections=())
    return RequestChange(words, option, replace(fresh, engine=replace(asked.engine, **fields)), brief)
