"""The sentences of ``plimsoll estimate`` about a load, one answer, its price and its remedies, for any reader.

Sentences about one answer: whether the law or an override decides, and which warnings apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.cli.answers.cache_words import NO_CACHE, cache_sentence
from plimsoll.cli.answers.limits import limits
from plimsoll.cli.answers.rows import AnswerRow
from plimsoll.cli.changes.remedies import all_remedies
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Option, Rejection, Split, Target
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, format_gib
from plimsoll.engines.registry import engine_of
from plimsoll.performance.decode_time import DecodeFloor, decode_floor
from plimsoll.placement.options.kept_cache import KeptCache, kept_cache, kept_words
from plimsoll.placement.options.sizing import Sized
from plimsoll.placement.options.streamed_layers import host_layers, layer_words
from plimsoll.placement.places.warnings import choice_warnings, doubt_sentence, model_warnings

_SAID = {Fit.SURE: "fits for sure", Fit.PROBABLE: "fits only probably", Fit.NO: "does not fit"}


def verdict(figures: MemoryEstimate) -> str:
    """A sentence on whether it fits. If an override decides, it names the override and the law's answer."""
    may = f"the engine may use {format_gib(figures.budget_bytes)}"
    if figures.fit_of_step is Fit.NO:
        return (
            f"It does not start: a step has {figures.step_tokens:,} tokens, and it needs {figures.least_step_tokens:,} "
            "at least, for one token of each sequence or for the largest input that is read as a whole."
        )
    given = figures.given_cache
    if given is not None and not given.is_enough and figures.forced_bytes is None:
        return (
            f"It does not start: the cache is given {given.blocks:,} blocks, and the load needs {given.needed:,}, one "
            "of which the engine keeps unused."
        )
    if figures.fit_of_states is figures.fit is not Fit.SURE:
        states = f"the cache has blocks for the recurrent states of {figures.max_sequences} sequences for sure"
        return f"It {_SAID[figures.fit]}: {states}, and {figures.sequences} are to run at the same time."
    if figures.forced_bytes is None and not figures.is_expected_to_fit and figures.fit_of_bytes is not Fit.NO:
        least = f"{format_gib(figures.least_bytes)} at the lower edge of the error band"
        return f"It may fit: {may}, {least} and {format_gib(figures.expected_bytes)} by the estimate are needed."
    if figures.forced_bytes is None:
        return f"It {_SAID[figures.fit]}: {may}{_outside(figures)}."
    answer = "does not fit" if figures.fit is Fit.NO else "fits"
    return (
        f"It {answer}, needed {format_gib(figures.forced_bytes)} by override (spec.overrides.memoryPerGpu): {may}. "
        f"By the memory law it {_SAID[fit_by_law(figures)]}."
    )


def _outside(figures: MemoryEstimate) -> str:
    """Return what is lacking outside the budget, if the budget itself is enough."""
    if figures.has_room_outside or figures.computed_bytes > figures.budget_bytes:
        return ""
    left = format_gib(figures.usable_bytes - figures.budget_bytes)
    return (
        f", which leaves {left} outside it, where CUDA, communication and CUDA graphs may take "
        f"{format_gib(figures.outside_bytes)}: lower --utilization"
    )


def fit_by_law(figures: MemoryEstimate) -> Fit:
    """Whether the computed need fits, whatever an override says."""
    return replace(figures, forced_bytes=None).fit_by_figures


def is_sure(answer: Sized | Rejection) -> bool:
    """Whether it fits for sure by the memory law: then no change of the load or of its numbers is needed."""
    return isinstance(answer, Sized) and fit_by_law(answer.figures) is Fit.SURE


def warnings_of(request: Request, answer: Sized) -> tuple[str, ...]:
    """The warnings that the placement would give for this GPU."""
    # The way in which pods reach the GPU does not matter here.
    choice = Option(answer.gpu, Target(answer.gpu.name, answer.split, ("", ""), ""), answer.settings, answer.figures)
    doubts = (doubt_sentence(doubt) for doubt in answer.figures.doubts)
    return (*choice_warnings(request, choice), *doubts, *model_warnings(request))


NO_REMEDY = "no change that was tried makes it fit"


def degree(split: Split) -> str:
    """The tensor-parallel degree, the engines if there are several, and EP if experts are whole."""
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
    yield _floor(request, answer)
    if figures.host_bytes:
        yield f"{figures.host_bytes / GIB:.2f} GiB of weights of each GPU stay in host memory."
        layers = host_layers(request, answer.gpu, answer.split, answer.settings)
        yield from () if layers is None else (layer_words(layers),)
    kept = kept_of(request, answer)
    if kept is not None:
        yield kept_words(kept, figures.kv_capacity_tokens)
    if request.engine.host.takes_spare:
        yield _OPEN_SIZE


_OPEN_SIZE = "spec.kvCache.hostMemory auto takes a part of the memory of a node: `plimsoll plan` says how much."


def kept_of(request: Request, answer: Sized) -> KeptCache | None:
    """Return the KV cache that a replica keeps in host memory; None without one, or if its size is open."""
    return kept_cache(request, answer.gpu, answer.split, answer.settings, answer.figures)


def _cache(model: ModelFacts, figures: MemoryEstimate) -> Iterator[str]:
    if not model.keeps_cache:
        yield NO_CACHE
        return
    low_tokens, high_tokens = figures.kv_capacity_low_tokens, figures.kv_capacity_high_tokens
    yield cache_sentence(figures)
    yield f"KV tokens that fit: {figures.kv_capacity_tokens:,} expected, {low_tokens:,} to {high_tokens:,}."


def floor_of(request: Request, answer: Sized) -> DecodeFloor | None:
    """Return the least time per token at batch size 1; None for a model that does not generate."""
    if request.model.task is Task.POOL:
        return None
    return decode_floor(request.model, request.precision, answer.gpu, answer.split, request.engine.residency)


def _floor(request: Request, answer: Sized) -> str:
    floor = floor_of(request, answer)
    if floor is None:
        return "It does not generate, so there is no time per token."
    over_pcie = f", {1000 * floor.host_seconds:.1f} ms of it over PCIe" if floor.host_seconds else ""
    return f"One token at batch size 1 takes at least {1000 * floor.seconds:.1f} ms{over_pcie}."


def _engines(request: Request, split: Split) -> Iterator[str]:
    if split.data_parallel > 1:
        share, engines = split.share(request.shape.concurrency), split.data_parallel
        yield f"These are tokens of {engines} engines. Each has a cache of its own and holds {share} of the requests."


def _limits(request: Request, answer: Sized) -> Iterator[str]:
    found = limits(request, answer)
    if answer.figures.forced_bytes is not None:
        yield "By the memory law, without the override:"
    yield from found.sentences()


def costs(row: AnswerRow) -> Iterator[str]:
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


def remedy_lines(request: Request, row: AnswerRow, split: Split | None) -> Iterator[str]:
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
