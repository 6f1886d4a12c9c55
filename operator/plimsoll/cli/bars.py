"""The budget of one GPU as a stacked bar, and the same as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from plimsoll.domain.outcomes import Fit, MemoryEstimate, Rejection
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.memory.decode_time import decode_floor
from plimsoll.memory.inverse import longest_context, most_sequences, widest_kv_precision
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.sizing import Sized, fit_of

BAR_CELLS = 48
"""Characters of a bar that stands for the whole of a GPU's usable memory."""

_TERMS = (
    ("weights", "weights_bytes", "W", "blue"),
    ("LoRA slots", "adapters_bytes", "L", "magenta"),
    ("KV cache", "kv_cache_bytes", "K", "green"),
    ("activations", "activations_bytes", "A", "yellow"),
    ("CUDA graphs", "cuda_graphs_bytes", "G", "cyan"),
    ("overhead", "overhead_bytes", "O", "white"),
    ("margin", "margin_bytes", "m", "bright_black"),
)
"""Name, field, letter and colour of each term. Letters, so that a bar reads without colours too."""

_VERDICT = {Fit.SURE: ("fits", "green"), Fit.PROBABLE: ("probably", "yellow"), Fit.NO: ("no", "red")}


_SAID = {Fit.SURE: "fits for sure", Fit.PROBABLE: "fits only probably", Fit.NO: "does not fit"}


def print_answers(console: Console, request: Request, answers: Sequence[Sized | Rejection]) -> None:
    """A bar for each GPU type, and underneath what the letters mean."""
    console.print(_headline(request), highlight=False)
    table = Table("GPU", "TP", "PP", "FITS", "BUDGET OF ONE GPU", "NEED/MAY GiB", "KV TOKENS", "AT ONCE", box=None)
    for answer in answers:
        if isinstance(answer, Rejection):
            split = answer.split
            cells = (answer.gpu_type, str(split.tensor_parallel), str(split.pipeline_parallel), Text("no", "red"))
            table.add_row(*cells, rejection_sentence(answer))
        else:
            table.add_row(*_row(request, answer))
    console.print(table)
    legend = ", ".join(f"{letter} {name}" for name, _, letter, _ in _TERMS)
    console.print(f"{legend}, . free, | what the engine may use, ! beyond the GPU", style="dim", highlight=False)


def print_one(console: Console, request: Request, answer: Sized) -> None:
    """The terms of one GPU, the error band, and the questions asked backwards."""
    figures = answer.figures
    table = Table("TERM", "GiB", box=None)
    table.columns[1].justify = "right"
    for name, field, _, _ in _TERMS:
        if getattr(figures, field):
            table.add_row(name, f"{getattr(figures, field) / GIB:.2f}")
    table.add_row("needed, to be sure", f"{figures.computed_bytes / GIB:.2f}", style="bold")
    if figures.forced_bytes is not None:
        table.add_row("needed, by override", f"{figures.forced_bytes / GIB:.2f}", style="yellow")
    table.add_row("the engine may use", f"{figures.budget_bytes / GIB:.2f}")
    table.add_row("usable of the GPU", f"{figures.usable_bytes / GIB:.2f}")
    console.print(table)
    for line in _sentences(request, answer):
        console.print(line, highlight=False)


def answer_document(request: Request, answer: Sized | Rejection) -> dict[str, Any]:
    """One answer as data: bytes and tokens, nothing rounded."""
    if isinstance(answer, Rejection):
        return {
            "gpuType": answer.gpu_type,
            "tensorParallel": answer.split.tensor_parallel,
            "pipelineParallel": answer.split.pipeline_parallel,
            "fit": Fit.NO.value,
            "reason": answer.reason.value,
            "message": rejection_sentence(answer),
        }
    figures = answer.figures
    low, high = figures.expected_bytes - figures.slack_bytes, figures.computed_bytes
    return {
        "gpuType": answer.gpu.name,
        "tensorParallel": answer.split.tensor_parallel,
        "pipelineParallel": answer.split.pipeline_parallel,
        "expertParallel": answer.split.expert_parallel,
        "fit": figures.fit.value,
        "terms": {_camel(field): getattr(figures, field) for _, field, _, _ in _TERMS},
        "expectedBytes": figures.expected_bytes,
        "bandBytes": {"low": low, "high": high},
        "budgetBytes": figures.budget_bytes,
        "usableBytes": figures.usable_bytes,
        "outsideBytes": figures.outside_bytes,
        "hostBytes": figures.host_bytes,
        "availableKvBytes": figures.available_kv_bytes,
        "kvBytesPerToken": figures.kv_bytes_per_token,
        "kvNeededTokens": figures.kv_needed_tokens,
        "kvCapacityTokens": {
            "expected": figures.kv_capacity_tokens,
            "low": figures.kv_capacity_low_tokens,
            "high": figures.kv_capacity_high_tokens,
        },
        "maxSequences": figures.max_sequences,
        "decodeFloorSeconds": decode_floor(
            request.model, request.precision, answer.gpu, answer.split, request.engine.residency
        ).seconds,
        "engine": {
            "maxModelLen": answer.settings.max_model_len,
            "maxNumSeqs": answer.settings.max_num_seqs,
            "maxNumBatchedTokens": answer.settings.max_num_batched_tokens,
            "gpuMemoryUtilizationPercent": answer.settings.gpu_memory_utilization_percent,
            "version": str(request.engine.version),
        },
    }


def bar(figures: MemoryEstimate) -> Text:
    """One cell for each of :data:`BAR_CELLS` parts of the usable memory; what overflows ends in ``!``."""
    cells: list[tuple[str, str]] = []
    reached = 0
    for _, field, letter, colour in _TERMS:
        reached += getattr(figures, field)
        filled = min(BAR_CELLS, round(BAR_CELLS * reached / figures.usable_bytes))
        cells += [(letter, colour)] * (filled - len(cells))
    cells += [(".", "dim")] * (BAR_CELLS - len(cells))
    cells[min(BAR_CELLS - 2, BAR_CELLS * figures.budget_bytes // figures.usable_bytes)] = ("|", "bold")
    if reached > figures.usable_bytes:
        cells[-1] = ("!", "red")
    return Text.assemble(*cells)


def _row(request: Request, answer: Sized) -> tuple[Any, ...]:
    figures = answer.figures
    word, colour = _VERDICT[figures.fit]
    at_once = figures.kv_capacity_tokens / request.shape.context_tokens
    return (
        answer.gpu.name,
        str(answer.split.tensor_parallel),
        str(answer.split.pipeline_parallel),
        Text(word, colour),
        bar(figures),
        f"{figures.needed_bytes / GIB:.1f}/{figures.budget_bytes / GIB:.1f}",
        f"{figures.kv_capacity_low_tokens:,}-{figures.kv_capacity_high_tokens:,}",
        f"{at_once:.1f}x",
    )


def _headline(request: Request) -> str:
    shape, model = request.shape, request.model
    load = f"{shape.concurrency} requests of {shape.context_tokens:,} tokens, guaranteed"
    if shape.expected_tokens is not None:
        lengths = f"{shape.expected_tokens:,} tokens on average, at most {shape.context_tokens:,}"
        load = f"{shape.concurrency} requests, {lengths}"
    return (
        f"{model.name} ({model.architecture}, {model.evidence.value.lower()}): weights {request.precision}, "
        f"KV cache {request.kv_precision}, {load}, vLLM {request.engine.version}"
    )


def _sentences(request: Request, answer: Sized) -> list[str]:
    figures, gpu, split = answer.figures, answer.gpu, answer.split
    low, high = figures.expected_bytes - figures.slack_bytes, figures.computed_bytes
    context = longest_context(request, gpu, split, fit_of)
    sequences = most_sequences(request, gpu, split, fit_of)
    precision = widest_kv_precision(request, gpu, split, fit_of)
    floor = decode_floor(request.model, request.precision, gpu, split, request.engine.residency)
    low_tokens, high_tokens = figures.kv_capacity_low_tokens, figures.kv_capacity_high_tokens
    over_pcie = f", {1000 * floor.host_seconds:.1f} ms of it over PCIe" if floor.host_seconds else ""
    told = [
        f"Expected need {figures.expected_bytes / GIB:.2f} GiB, between {low / GIB:.2f} and {high / GIB:.2f}.",
        f"It {_SAID[figures.fit]}: the engine may use {figures.budget_bytes / GIB:.2f} GiB.",
        f"KV cache: {figures.kv_bytes_per_token:,} bytes a token and GPU; {figures.kv_needed_tokens:,} tokens needed.",
        f"KV tokens that fit: {figures.kv_capacity_tokens:,} expected, {low_tokens:,} to {high_tokens:,}.",
        f"Longest context for {request.shape.concurrency} requests: {_number(context)} tokens.",
        f"Most requests of {request.shape.context_tokens:,} tokens: {_number(sequences)}.",
        f"Widest KV precision: {'none fits' if precision is None else precision.value}.",
        f"One token at batch size 1 takes at least {1000 * floor.seconds:.1f} ms{over_pcie}.",
    ]
    if figures.host_bytes:
        told.append(f"{figures.host_bytes / GIB:.2f} GiB of weights of each GPU stay in host memory.")
    return [*told, *request.model.remarks]


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)
