"""CUDA graphs of one rank: the bytes that the engine charges before capture, and the bytes that capture takes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import CUDA_GRAPHS, Derivation, Line, Term
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.units import GIB, KIB, ceil_div
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.laws.rocm_attention import chosen_attention
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.memory.draft import draft_tokens
from plimsoll.memory.kinds import is_recurrent

MAX_CAPTURE = 512
"""Largest batch captured by default (vLLM ``config/vllm.py``)."""

MAX_CAPTURE_LARGE = 1024
"""The same on compute capability 10, and for gpt-oss (``model_executor/models/config.py``: 83 sizes in its logs)."""

_LARGE_ARCHITECTURES = frozenset({"GptOssForCausalLM"})

_BLACKWELL_DATA_CENTER, _BLACKWELL_WORKSTATION = 10, 12

_FLASHINFER = "FLASHINFER"

FULL_SET = 51
"""Captured sizes up to 512, on which the figures below were fitted."""


class GraphLaw(NamedTuple):
    """GiB of a full set of graphs: the base, each layer of the stage, and experts; estimated and actual."""

    estimate_base: float
    estimate_layer: float
    estimate_experts: float
    actual_base: float
    actual_layer: float
    actual_experts: float


FIRST_RUNNER = GraphLaw(0.30, 0.017, 0.2, 0.40, 0.0165, 0.4)
"""33 starts of vLLM 0.19.0 on H100: 0.49 (8 layers per stage) to 1.82 (80 layers) estimated, 0.51 to 1.85 taken. Two
dense models of 32 and 40 layers logged twice as much as similar models (1.60, 1.69). Experts: 0.11 to 0.63 more
estimated, 0.3 to 0.7 taken."""

SECOND_RUNNER = GraphLaw(0.12, 0.0108, 0.1, 0.12, 0.0108, 0.1)
"""Taken: 0.37 GiB (24 layers), 0.48 (28), 0.56 (36), 0.52 (40), 0.81 (64) on RTX 4080 to 5090 with 0.26 to 0.28, 0.70
on B300 (60 layers, 83 sizes, 0.26). Its estimate is a measurement (``gpu/cudagraph_utils.py``): 0.69 for a hybrid of 64
layers that took 0.30 (0.29). Experts: not reported."""

_SETS_WITH_ADAPTERS = 2
"""With adapters and without (``cudagraph_specialize_lora``): Qwen3-4B (36 layers) took 1.28 GiB (RTX 4090, 0.27.1)."""

_SPECIALIZES_SINCE = EngineVersion(0, 11, 1)


COLLECTIVES = 0.9
"""GiB of a full set where NCCL's collectives are captured. This happens between more than two GPUs on PCIe, which have
no custom all-reduce (``device_communicators/custom_all_reduce.py``). Four L40S took 0.9 more (0.19), eight 1.1
(0.10.2), four RTX 3090 0.3 (0.11). Four L4 were charged 0.9 more (0.29)."""

_MOST_WITHOUT_LINKS = 2


PREFILL_TRANSIENT_BYTES = 108 * KIB
"""The bytes that the first full graph of a recurrent model adds to the estimate for each token of a step, since 0.26.

vllm#52872 (64 layers, RTX 5090): 107.5 KiB from 2,048 to 8,192 tokens; vllm#50780 (122B): about 128 KiB. It is the peak
of a prefill that the estimator runs, and not memory of graphs.
"""


class GraphMemory(NamedTuple):
    """Bytes of CUDA graphs on one rank.

    ``estimated_bytes`` is what the engine takes out of its budget for them (0 in releases and runners that take
    nothing). ``actual_bytes`` is what capture leaves allocated. The part above the estimate lies outside the budget.
    """

    estimated_bytes: int
    actual_bytes: int


class GraphParts(NamedTuple):
    """The inputs of the graphs of one rank, and the resulting bytes.

    ``law`` is the runner's. ``sizes`` are captured for each of ``layers`` layers. ``first_bytes`` is the first graph
    (or, for recurrent models, the prefill of ``prefill_tokens`` tokens that counts as a graph). ``other_bytes`` are the
    other graphs. Both are 0 where the engine takes nothing out of its budget. ``experts`` is 1 where there are experts,
    ``collectives`` is 1 where NCCL's collectives are captured.
    """

    law: GraphLaw = FIRST_RUNNER
    sizes: int = 0
    layers: int = 0
    experts: int = 0
    collectives: int = 0
    prefill_tokens: int = 0
    first_bytes: int = 0
    other_bytes: int = 0
    actual_bytes: int = 0

    @property
    def estimated_bytes(self) -> int:
        """The bytes that the engine takes out of its budget."""
        return self.first_bytes + self.other_bytes

    @property
    def memory(self) -> GraphMemory:
        """The charged bytes and the actual bytes."""
        return GraphMemory(self.estimated_bytes, self.actual_bytes)


def rank_graphs(rank: Rank) -> GraphParts:
    """Return the graphs of ``rank``, part by part; empty where the engine runs without graphs."""
    tokens = rank.settings.max_num_seqs * (1 + draft_tokens(rank.request))
    return rank_graph_kind(rank).parts(tokens, rank.settings.max_num_batched_tokens)


def rank_graph_kind(rank: Rank) -> GraphKind:
    """Return the graphs of ``rank`` for any load."""
    if rank.settings.enforce_eager:
        return NO_GRAPHS
    adapters = rank.request.engine.lora is not None
    return graph_kind(
        rank.request.model,
        rank.split,
        rank.law,
        rank.gpu,
        adapters=adapters,
        captures_full=not _captures_pieces_only(rank),
    )


def _captures_pieces_only(rank: Rank) -> bool:
    """Whether a decode step with drafted tokens runs in piecewise graphs, because FlashInfer takes one token a graph.

    It serves an fp8 cache on GPUs of capability 12, where FlashAttention does not (``platforms/cuda.py``,
    ``_get_backend_priorities``), and has full graphs for one token of each request only where TRT-LLM's kernels are
    (``flashinfer.py``, ``get_cudagraph_support`` of 0.26). The estimate is 0.13 GiB then, and 0.95 with a prefill.
    """
    capability, request = rank.gpu.compute_capability, rank.request
    if capability is None or capability[0] != _BLACKWELL_WORKSTATION or draft_tokens(request) == 0:
        return False
    chosen = chosen_attention(request.engine.unfollowed)
    return request.kv_precision is KvPrecision.FP8 if chosen is None else chosen == _FLASHINFER


def graphs_term(rank: Rank, parts: GraphParts) -> Term:
    """Return the graphs as a term, as far as the engine takes them out of its budget."""
    return Term(CUDA_GRAPHS, parts.estimated_bytes, _derivation, rank)


class GraphKind(NamedTuple):
    """The inputs of the graphs that are the same for any number of sequences and any step.

    Each of ``sets`` (0: no graphs) has a graph for each captured size, up to the size ``largest``. With
    ``counts_prefill``, a prefill counts as a graph. ``is_charged`` means that the engine takes its estimate out of its
    budget.
    """

    law: GraphLaw
    sets: int
    largest: int
    layers: int
    experts: int
    collectives: int
    counts_prefill: bool
    is_charged: bool

    def parts(self, step_tokens: int, batched_tokens: int) -> GraphParts:
        """Return the graphs part by part: they reach up to twice the tokens of a decode step."""
        if not self.sets:
            return GraphParts()
        largest = min(2 * step_tokens, self.largest, batched_tokens)
        return _parts(self, captured_sizes(largest), batched_tokens if self.counts_prefill else 0)


NO_GRAPHS = GraphKind(
    FIRST_RUNNER, sets=0, largest=0, layers=0, experts=0, collectives=0, counts_prefill=False, is_charged=False
)
"""The graphs of an engine that runs eagerly."""


def graph_kind(
    model: ModelFacts,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None,
    *,
    adapters: bool,
    captures_full: bool = True,
) -> GraphKind:
    """Return what the graphs of any load have in common, for an engine that captures graphs.

    Without ``captures_full``, no full graph is captured, and so no prefill is run for one.
    """
    is_second = law.runs_v2(model, gpu)
    return GraphKind(
        law=SECOND_RUNNER if is_second else FIRST_RUNNER,
        sets=_SETS_WITH_ADAPTERS if adapters and law.release >= _SPECIALIZES_SINCE else 1,
        largest=largest_capture(model, gpu),
        layers=ceil_div(model.layers, split.pipeline_parallel),
        experts=1 if model.experts else 0,
        collectives=1 if _captures_nccl(gpu, split) else 0,
        counts_prefill=law.charges_prefill_transient and is_recurrent(model) and not is_second and captures_full,
        is_charged=law.charges_graphs_of(model, gpu),
    )


# A table of candidates needs few different values, and reads each twice: for its settings and for its estimate.
@lru_cache(maxsize=1024)
def _parts(kind: GraphKind, captured: int, prefill_tokens: int) -> GraphParts:
    law, layers, experts, sizes = kind.law, kind.layers, kind.experts, kind.sets * captured
    share = sizes / FULL_SET
    nccl = COLLECTIVES * kind.collectives
    actual = law.actual_base + law.actual_layer * layers + law.actual_experts * experts + nccl
    parts = GraphParts(law, sizes, layers, experts, kind.collectives, actual_bytes=int(actual * share * GIB))
    if not kind.is_charged:
        return parts
    others = law.estimate_layer * layers + law.estimate_experts * experts + nccl
    parts = parts._replace(first_bytes=int(law.estimate_base * share * GIB), other_bytes=int(others * share * GIB))
    prefill = prefill_tokens * PREFILL_TRANSIENT_BYTES
    return parts._replace(prefill_tokens=prefill_tokens, first_bytes=prefill) if prefill > parts.first_bytes else parts


def _derivation(rank: Rank) -> Derivation:
    if rank.settings.enforce_eager:
        return Derivation("none: eager")
    parts = rank_graphs(rank)
    since = f"as of vLLM {rank.law.since}"
    if not parts.estimated_bytes:
        return Derivation(f"none charged {since}: {parts.actual_bytes:,} B lie outside the budget")
    return Derivation(f"{parts.layers} layers x {parts.sizes} captured sizes, charged {since}", tuple(_lines(parts)))


def _lines(parts: GraphParts) -> Iterator[Line]:
    share = f"x {parts.sizes} / {FULL_SET} sizes"
    first = f"{parts.law.estimate_base:.2f} GiB {share}"
    if parts.prefill_tokens:
        prefill = f"{parts.prefill_tokens:,} tokens x {PREFILL_TRANSIENT_BYTES // KIB} KiB"
        first = f"{prefill} of a prefill of recurrent layers, which counts as a graph"
    yield Line("first graph", first, parts.first_bytes)
    terms = [f"{parts.law.estimate_layer} GiB x {parts.layers} layers"]
    terms += [f"{parts.law.estimate_experts} GiB of experts"] if parts.experts else []
    terms += [f"{COLLECTIVES} GiB of collectives by NCCL"] if parts.collectives else []
    others = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
    yield Line("other graphs", f"{others} {share}", parts.other_bytes)


def _captures_nccl(gpu: GpuType | None, split: Split) -> bool:
    on_pcie = gpu is not None and gpu.vendor is Vendor.NVIDIA and gpu.interconnect is Interconnect.PCIE
    return on_pcie and split.tensor_parallel > _MOST_WITHOUT_LINKS


def largest_capture(model: ModelFacts, gpu: GpuType | None) -> int:
    """Return the largest batch that the engine captures when nothing else limits it."""
    capability = gpu.compute_capability if gpu is not None else None
    large = capability is not None and capability[0] == _BLACKWELL_DATA_CENTER
    return MAX_CAPTURE_LARGE if large or model.architecture in _LARGE_ARCHITECTURES else MAX_CAPTURE


@lru_cache(maxsize=1024)
def captured_sizes(largest: int) -> int:
    """Return how many batch sizes are captured up to ``largest``.

    vLLM captures ``[1, 2, 4] + 8..255 step 8 + 256.. step 16``.
    """
    small = sum(1 for size in (1, 2, 4) if size <= largest)
    medium = len(range(8, min(largest, 255) + 1, 8))
    large = len(range(256, largest + 1, 16))
    return small + medium + large
