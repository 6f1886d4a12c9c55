"""CUDA graphs of one rank: what the engine charges for them before capture, and what capture really takes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.units import GIB, KIB, ceil_div
from plimsoll.memory.engine_law import EngineLaw
from plimsoll.memory.runners import is_recurrent

MAX_CAPTURE = 512
"""Largest batch captured by default (vLLM ``config/vllm.py``)."""

MAX_CAPTURE_LARGE = 1024
"""... on compute capability 10, and of gpt-oss (``model_executor/models/config.py``: 83 sizes in its logs)."""

_LARGE_ARCHITECTURES = frozenset({"GptOssForCausalLM"})

_BLACKWELL_DATA_CENTER = 10

FULL_SET = 51
"""Captured sizes up to 512, on which the figures below were fitted."""

ESTIMATE_BASE, ESTIMATE_LAYER, ESTIMATE_EXPERTS = 0.30, 0.017, 0.2
"""GiB. 33 starts of vLLM 0.19.0 on H100: 0.49 (8 layers a stage) to 1.82 (80 layers); two dense models of 32 and 40
layers logged twice what their like did (1.60, 1.69). Experts: 0.11 to 0.63 more."""

_ACTUAL_BASE, _ACTUAL_LAYER, _ACTUAL_EXPERTS = 0.40, 0.0165, 0.4
"""GiB. The same starts: 0.51 to 1.85; experts 0.3 to 0.7 more."""


PREFILL_TRANSIENT_BYTES = 108 * KIB
"""What the first full graph of a recurrent model leaves in the estimate for each token of a step, since 0.26.

vllm#52872 (64 layers, RTX 5090): 107.5 KiB from 2,048 to 8,192 tokens; vllm#50780 (122B): about 128 KiB. It is the high
mark of a prefill that the estimator runs, not of graphs.
"""


class GraphMemory(NamedTuple):
    """Bytes of CUDA graphs on one rank.

    ``estimated_bytes`` is what the engine takes out of its budget for them (0 in releases and runners that take
    nothing), ``actual_bytes`` what capture leaves allocated; what exceeds the estimate lies outside the budget.
    """

    estimated_bytes: int
    actual_bytes: int


class GraphParts(NamedTuple):
    """What the graphs of one rank are counted from, and bytes.

    ``sizes`` are captured for each of ``layers`` layers; ``first_bytes`` is the first graph (or, of recurrent models,
    the prefill of ``prefill_tokens`` tokens that counts as one), ``other_bytes`` the rest; both are 0 where the engine
    takes nothing out of its budget.
    """

    sizes: int = 0
    layers: int = 0
    experts: int = 0
    prefill_tokens: int = 0
    first_bytes: int = 0
    other_bytes: int = 0
    actual_bytes: int = 0

    @property
    def memory(self) -> GraphMemory:
        """What is charged, and what is taken."""
        return GraphMemory(self.first_bytes + self.other_bytes, self.actual_bytes)


def cuda_graphs_bytes(
    model: ModelFacts,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None = None,
    *,
    sequences: int,
    batched_tokens: int,
    speculative_tokens: int = 0,
    enforce_eager: bool = False,
) -> GraphMemory:
    """Graphs by layers of a stage and captured sizes: twice the tokens of a decode step, its drafted ones included."""
    if enforce_eager:
        return GraphMemory(0, 0)
    return graph_parts(
        model,
        split,
        law,
        gpu,
        sequences=sequences,
        batched_tokens=batched_tokens,
        speculative_tokens=speculative_tokens,
    ).memory


def graph_parts(
    model: ModelFacts,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None,
    *,
    sequences: int,
    batched_tokens: int,
    speculative_tokens: int = 0,
) -> GraphParts:
    """The same part by part, of an engine that captures graphs."""
    largest = min(2 * sequences * (1 + speculative_tokens), largest_capture(model, gpu), batched_tokens)
    counts_prefill = law.charges_prefill_transient and is_recurrent(model) and not law.runs_v2(model, gpu)
    return _parts(
        captured_sizes(largest),
        ceil_div(model.layers, split.pipeline_parallel),
        1 if model.experts else 0,
        law.charges_graphs_of(model, gpu),
        batched_tokens if counts_prefill else 0,
    )


# The same few in a whole table of candidates, which asks twice for each: for its settings and for its estimate.
@lru_cache(maxsize=1024)
def _parts(sizes: int, layers: int, experts: int, charged: bool, prefill_tokens: int) -> GraphParts:  # noqa: FBT001 -- a key
    share = sizes / FULL_SET
    actual = _ACTUAL_BASE + _ACTUAL_LAYER * layers + _ACTUAL_EXPERTS * experts
    parts = GraphParts(sizes, layers, experts, actual_bytes=int(actual * share * GIB))
    if not charged:
        return parts
    others = ESTIMATE_LAYER * layers + ESTIMATE_EXPERTS * experts
    parts = parts._replace(first_bytes=int(ESTIMATE_BASE * share * GIB), other_bytes=int(others * share * GIB))
    prefill = prefill_tokens * PREFILL_TRANSIENT_BYTES
    return parts._replace(prefill_tokens=prefill_tokens, first_bytes=prefill) if prefill > parts.first_bytes else parts


def largest_capture(model: ModelFacts, gpu: GpuType | None) -> int:
    """Largest batch that the engine captures when nothing else bounds it."""
    capability = gpu.compute_capability if gpu is not None else None
    large = capability is not None and capability[0] == _BLACKWELL_DATA_CENTER
    return MAX_CAPTURE_LARGE if large or model.architecture in _LARGE_ARCHITECTURES else MAX_CAPTURE


@lru_cache(maxsize=1024)
def captured_sizes(largest: int) -> int:
    """How many batch sizes are captured up to ``largest`` (vLLM: ``[1, 2, 4] + 8..255 step 8 + 256.. step 16``)."""
    small = sum(1 for size in (1, 2, 4) if size <= largest)
    medium = len(range(8, min(largest, 255) + 1, 8))
    large = len(range(256, largest + 1, 16))
    return small + medium + large
