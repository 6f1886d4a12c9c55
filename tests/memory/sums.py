"""Figures that engines log and that the law itself does not need, for tests that compare them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.engines.vllm.memory.band import band_width
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.kv_cache.layout import NULL_BLOCKS
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.outside.cuda_graphs import NO_GRAPHS, GraphMemory, graph_kind
from plimsoll.engines.vllm.memory.outside.non_torch import non_torch_parts
from plimsoll.engines.vllm.memory.step.activations import Activations, profiled_step
from plimsoll.memory.calibration import Band


def activation_parts(
    model: ModelFacts,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None,
    *,
    batched_tokens: int,
    sequences: int,
    context_tokens: int | None = None,
    speculative_tokens: int = 0,
    last_stage: bool = True,
    compiles: bool = True,
    precision: Precision | None = None,
    dtype_bytes: int = 2,
) -> Activations:
    """The peak of activations on one rank; a context of None is the model's largest."""
    step = profiled_step(
        model,
        model.checkpoint.precision if precision is None else precision,
        split,
        law,
        gpu,
        batched_tokens,
        speculative_tokens,
        dtype_bytes,
        is_last=last_stage,
        compiles=compiles,
    )
    return step.activations(sequences, model.max_context_tokens if context_tokens is None else context_tokens)


def cuda_graphs_bytes(
    model: ModelFacts,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None = None,
    *,
    sequences: int,
    batched_tokens: int,
    speculative_tokens: int = 0,
    adapters: bool = False,
    enforce_eager: bool = False,
) -> GraphMemory:
    """The memory of the graphs. Drafted tokens count as tokens of the step."""
    kind = NO_GRAPHS if enforce_eager else graph_kind(model, split, law, gpu, adapters=adapters)
    return kind.parts(sequences * (1 + speculative_tokens), batched_tokens).memory


def band(
    model: ModelFacts,
    gpu: GpuType | None,
    split: Split,
    law: EngineLaw,
    *,
    sequences: int = 1024,
    weights_bytes: int = 0,
) -> Band:
    """The band of one rank's need."""
    return band_width(model, gpu, split, law, weights_bytes=weights_bytes).band(sequences)


def activations_bytes(*arguments: Any, **more: Any) -> int:
    """The peak of activations."""
    return activation_parts(*arguments, **more).total


def non_torch_bytes(*arguments: Any, **more: Any) -> int:
    """The memory outside PyTorch and inside the budget."""
    return sum(size for _, size in non_torch_parts(*arguments, **more))


def blocks_in(layout: KvLayout, available_bytes: int) -> int:
    """Usable blocks that fit in ``available_bytes``; zero when not even the null block fits."""
    return max(0, layout.pool_blocks(available_bytes) - NULL_BLOCKS)


def max_concurrency(layout: KvLayout, available_bytes: int, context_tokens: int) -> Fraction:
    """Requests of full length that vLLM says it holds; zero for models without any cache."""
    per_request = layout.blocks_of_request(context_tokens)
    return Fraction(layout.pool_blocks(available_bytes), per_request) if per_request else Fraction()


def width_bytes(band: Band) -> int:
    """The bytes between the lowest and the highest need."""
    return band.high_bytes - band.low_bytes
