"""Single changes of a request that may make it fit, in words and as the command line writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plimsoll.adapters.catalog import other_checkpoints
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import WIDE, KvPrecision, Precision
from plimsoll.domain.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.memory.weights import weights_bytes

LEAST_CONTEXT = 512
"""The shortest context in tokens that is offered in place of a longer one. Less is of no use to anybody."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a request: in words, as the command line writes it, and in fewer words for a table.

    ``checkpoint`` is the name of another checkpoint to ask about.
    """

    words: str
    option: str
    request: Request
    brief: str = ""
    checkpoint: str | None = None


def other_numbers(asked: Request, *, runs: bool) -> Iterator[Change]:
    """Yield other formats of weights and cache. ``runs`` says whether the GPU has what the asked ones need.

    What engines reported holds for the formats of today, and is left out.
    """
    fresh = replace(asked, observed=(), failed_starts=(), corrections=())
    if not runs and asked.precision is Precision.BF16:
        yield _in_fp16(fresh)
    yield from _published(fresh)
    if not asked.precision.is_quantized:
        yield Change("fp8 weights", "--precision fp8", replace(fresh, precision=Precision.FP8))
    yield from narrow_cache(fresh)


def _in_fp16(asked: Request) -> Change:
    """Return the other 16-bit type, which cards before Ampere compute too. A cache in bf16 follows."""
    is_bf16 = asked.kv_precision is KvPrecision.BF16
    cache = KvPrecision.FP16 if is_bf16 else asked.kv_precision
    return Change("fp16 weights", "--precision fp16", replace(asked, precision=Precision.FP16, kv_precision=cache))


def narrow_cache(asked: Request) -> Iterator[Change]:
    """Yield a cache of half the bits, if it has 16."""
    if asked.kv_precision in WIDE:
        yield Change("an fp8 KV cache", "--kv-precision fp8", replace(asked, kv_precision=KvPrecision.FP8))


def _published(asked: Request) -> Iterator[Change]:
    """Yield the catalogued checkpoints of the same model with smaller weights, the largest first."""
    if asked.model.source is FactsSource.INLINE:
        return
    today = weights_bytes(asked.model, asked.precision, Split(1))
    found = [_checkpoint(facts, asked) for facts in other_checkpoints(asked.model.name)]
    sizes = [(weights_bytes(each.request.model, each.request.precision, Split(1)), each) for each in found]
    yield from (each for size, each in sorted(sizes, key=lambda pair: (-pair[0], pair[1].words)) if size < today)


def _checkpoint(facts: ModelFacts, asked: Request) -> Change:
    precision = facts.checkpoint.precision
    model = engine_of(asked.engine.name).loaded(facts, asked.engine)
    return Change(
        words=f"the {precision.value} checkpoint {facts.name}",
        option="",
        request=replace(asked, model=model, precision=precision),
        brief=f"the published {precision.value} checkpoint",
        checkpoint=facts.name,
    )


def shortest_context(request: Request) -> int:
    """Return the shortest context that is offered: no request is longer than the context."""
    return max(LEAST_CONTEXT, request.shape.expected_tokens or 0)


def with_requests(request: Request, count: int) -> Change:
    """Return the change to this many requests at the same time."""
    words = f"{count:,} request{'s' if count > 1 else ''}"
    return Change(words, f"--concurrency {count}", replace(request, shape=replace(request.shape, concurrency=count)))


def with_sequences(request: Request, count: int) -> Change:
    """Return the change of the number of sequences that a manifest or a command fixes."""
    option = f"--max-num-seqs {count}"
    words = f"at most {count:,} sequences" if request.engine.own_defaults else f"spec.engine.maxSequences {count}"
    return Change(words, option, replace(request, engine=replace(request.engine, max_sequences=count)))


def with_context(request: Request, tokens: int) -> Change:
    """Return the change to this context in tokens."""
    shape = replace(request.shape, context_tokens=tokens)
    return Change(f"a context of {tokens:,}", f"--context {tokens}", replace(request, shape=shape))
