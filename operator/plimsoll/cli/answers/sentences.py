"""The sentences of ``plimsoll estimate`` about a load, one answer, its price and its remedies, for any reader."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.cli.answers.cache_words import NO_CACHE, cache_sentence
from plimsoll.cli.answers.limits import limits
from plimsoll.cli.answers.rows import Row
from plimsoll.cli.answers.verdict import is_sure, verdict
from plimsoll.cli.changes.remedies import all_remedies
from plimsoll.domain.model import ModelFacts, Task
from plimsoll.domain.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.registry import engine_of
from plimsoll.performance.decode_time import decode_floor
from plimsoll.placement.sizing import Sized

NO_REMEDY = "no change that was tried makes it fit"


def degree(split: Split) -> str:
    """The tensor-parallel degree, the engines if there are several, and EP where experts are whole."""
    cut = (
        str(split.tensor_parallel) if split.data_parallel == 1 else f"{split.tensor_parallel} x DP{split.data_parallel}"
    )
    return f"{cut} EP" if split.expert_parallel else cut


def at_once(request: Request, answer: Sized) -> str:
    """The full-length requests that the cache holds. Each engine of a replica holds whole requests."""
    if not request.model.keeps_cache:
        return "-"
    engines, each = answer.split.data_parallel, answer.figures.kv_capacity_tokens / request.shape.context_tokens
    return f"{each:.1f}x" if engines == 1 else f"{engines * int(each / engines)}x"


def headline(request: Request) -> str:
    """Return the model, its numbers and the load, as the memory law reads them."""
    shape, model, engine = request.shape, request.model, engine_of(request.engine.name).title
    requests = f"{shape.concurrency} request{'s' if shape.concurrency > 1 else ''}"
    load = f"{requests} of {shape.context_tokens:,} tokens, guaranteed"
    if shape.expected_tokens is not None:
        lengths = f"{shape.expected_tokens:,} tokens on average, at most {shape.context_tokens:,}"
        load = f"{requests}, {lengths}"
    return (
        f"{model.name} ({model.architecture}, {model.evidence.value.lower()}): weights {request.precision}, "
        f"KV cache {request.kv_precision}, {load}, {engine} {request.engine.version}"
    )


def sentences(request: Request, answer: Sized) -> Iterator[str]:
    """Yield the need with its error band, the verdict, the cache, the inverse answers and the least time per token."""
    figures = answer.figures
    low, high = figures.expected_bytes - figures.slack_bytes, figures.computed_bytes
    yield f"Expected need {figures.expected_bytes / GIB:.2f} GiB, between {low / GIB:.2f} and {high / GIB:.2f}."
    yield verdict(figures)
    yield from _cache(request.model, figures)
    yield from _engines(request, answer.split)
    yield from _limits(request, answer)
    yield from _floor(request, answer)
    if figures.host_bytes:
        yield f"{figures.host_bytes / GIB:.2f} GiB of weights of each GPU stay in host memory."


def _cache(model: ModelFacts, figures: MemoryEstimate) -> Iterator[str]:
    if not model.keeps_cache:
        yield NO_CACHE
        return
    low_tokens, high_tokens = figures.kv_capacity_low_tokens, figures.kv_capacity_high_tokens
    yield cache_sentence(figures)
    yield f"KV tokens that fit: {figures.kv_capacity_tokens:,} expected, {low_tokens:,} to {high_tokens:,}."


def _floor(request: Request, answer: Sized) -> Iterator[str]:
    if request.model.task is Task.POOL:
        yield "It does not generate, so there is no time per token."
        return
    floor = decode_floor(request.model, request.precision, answer.gpu, answer.split, request.engine.residency)
    over_pcie = f", {1000 * floor.host_seconds:.1f} ms of it over PCIe" if floor.host_seconds else ""
    yield f"One token at batch size 1 takes at least {1000 * floor.seconds:.1f} ms{over_pcie}."


def _engines(request: Request, split: Split) -> Iterator[str]:
    if split.data_parallel > 1:
        share, engines = split.share(request.shape.concurrency), split.data_parallel
        yield f"These are tokens of {engines} engines. Each has a cache of its own and holds {share} of the requests."


def _limits(request: Request, answer: Sized) -> Iterator[str]:
    found = limits(request, answer)
    if answer.figures.forced_bytes is not None:
        yield "By the memory law, without the override:"
    yield from found.sentences()


def costs(row: Row) -> Iterator[str]:
    """The price, and the speed at the declared load; or that they are not known."""
    price, speed, gpus = row.gpu.price_in_force, row.speed, row.answer.split.gpus
    if row.fit is Fit.NO:
        return
    if row.price is None or price is None:
        yield f"Price: not known for {row.gpu.name}."
    else:
        yield f"Price: ${row.price:.2f} an hour for {gpus} GPU{'s' if gpus > 1 else ''} ({price.source})."
    if speed is None:
        yield "Speed at the declared load: not known, the performance model does not cover this."
    else:
        low, high = (1000 * edge for edge in speed.tpot_band)
        figure = f"{1000 * speed.tpot_seconds:.1f} ms a token ({low:.1f} to {high:.1f})"
        yield f"Speed at the declared load: {figure}, first token after {speed.ttft_seconds:.2f} s."


def remedy_lines(request: Request, row: Row, split: Split | None) -> Iterator[str]:
    """Yield the changes that would make it fit, if it does not fit for sure."""
    if is_sure(row.answer):
        return
    found = all_remedies(request, row.gpu, row.answer, split)
    if found:
        fit = "fit for sure" if not any(each.answer.figures.doubts for each in found) else "fit by the figures"
        yield f"Any one of these would make it {fit}:" if len(found) > 1 else f"This would make it {fit}:"
        yield from (f"  {each.sentence}." for each in found)
    else:
        yield "No change that was tried would make it fit for sure: other numbers, more GPUs of a node, a smaller load."
