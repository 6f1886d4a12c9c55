"""The working of what a running engine takes beside weights and cache: activations, CUDA graphs, overhead."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.outcomes import MemoryEstimate
from plimsoll.domain.units import KIB
from plimsoll.engines.vllm.memory.activation_steps import activation_steps
from plimsoll.engines.vllm.memory.cuda_graphs import COLLECTIVES, FULL_SET, PREFILL_TRANSIENT_BYTES, GraphParts
from plimsoll.engines.vllm.memory.rank import Rank, rank_graphs, rank_overhead
from plimsoll.memory.steps import Step


def runtime_steps(rank: Rank, figures: MemoryEstimate) -> Iterator[Step]:
    """The lines of three terms, each followed by its total as ``figures`` has it."""
    since = f"as of vLLM {rank.law.since}"
    yield from activation_steps(rank)
    yield Step("activations", f"peak of a profiled step, {since}", figures.activations_bytes, is_total=True)
    yield from _graph_steps(rank_graphs(rank))
    yield Step("CUDA graphs", _graphs_total(rank, since), figures.cuda_graphs_bytes, is_total=True)
    yield from (Step("  measured", what, size) for what, size in rank_overhead(rank))
    yield Step("overhead", f"outside PyTorch, inside the budget, {since}", figures.overhead_bytes, is_total=True)


def _graph_steps(parts: GraphParts) -> Iterator[Step]:
    """The graphs as the engine charges them; of those that it does not charge, what they take all the same."""
    if not parts.first_bytes + parts.other_bytes:
        return
    share = f"x {parts.sizes} / {FULL_SET} sizes"
    first = f"{parts.law.estimate_base:.2f} GiB {share}"
    if parts.prefill_tokens:
        prefill = f"{parts.prefill_tokens:,} tokens x {PREFILL_TRANSIENT_BYTES // KIB} KiB"
        first = f"{prefill} of a prefill of recurrent layers, which counts as a graph"
    yield Step("  first graph", first, parts.first_bytes)
    terms = [f"{parts.law.estimate_layer} GiB x {parts.layers} layers"]
    terms += [f"{parts.law.estimate_experts} GiB of experts"] if parts.experts else []
    terms += [f"{COLLECTIVES} GiB of collectives by NCCL"] if parts.collectives else []
    others = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
    yield Step("  other graphs", f"{others} {share}", parts.other_bytes)


def _graphs_total(rank: Rank, since: str) -> str:
    if rank.settings.enforce_eager:
        return "none: eager"
    parts = rank_graphs(rank)
    if parts.first_bytes + parts.other_bytes:
        return f"{parts.layers} layers x {parts.sizes} captured sizes, charged {since}"
    return f"none charged {since}: {parts.actual_bytes:,} B lie beside the budget"
