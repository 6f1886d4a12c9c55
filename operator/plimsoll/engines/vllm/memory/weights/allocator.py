"""The bytes that vLLM logs as weights in addition to the tensors: allocator, kernels' layouts and buffers.

Since vllm#41268 (0.21) the engine loads with ``max_split_size_mb`` at 20, so the allocator
(:mod:`plimsoll.memory.blocks`) splits nothing off from larger tensors. Checked with the engines' logs of model loading:
docs/memory-model.md.
"""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.caches import IndexerCache
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import MIB
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.weights.layout import fp8_block_bytes, relaid_bytes
from plimsoll.memory.blocks import block_ends_bytes
from plimsoll.memory.kinds import residual_streams
from plimsoll.memory.weights import older_table_bytes

ROCM_LIBRARY_BYTES = 72 * MIB
"""The bytes that stay allocated on AMD's GPUs in addition to all tensors, for any model and split: 70 to 81 MiB in
eight starts of Llama 3.1 8B and Qwen3 14B on R9700 (0.11 to 0.13), 56 in one on RX 9070 XT (0.14), 62 with Qwen2.5 14B
on MI300X (0.17). Since 0.20 logs do not show it: Qwen3 4B on MI355X (0.20.2), Seed-OSS 36B on MI300X (0.28)."""

_INDEX_BYTES, _HALF_BYTES = 4, 2

_STREAMS_FOR_PREDICTOR = (
    "DeepseekV41ForCausalLM",
    "Qwen4ExpForCausalLM",
    "Qwen4ExpForConditionalGeneration",
)
"""Classes that pass their streams to a predictor only if one is loaded (``models/deepseek_v41``, ``qwen4_exp``)."""


def loading_bytes(
    model: ModelFacts,
    precision: Precision,
    gpu: GpuType | None,
    split: Split,
    law: EngineLaw,
    stage: int = 0,
    *,
    batched_tokens: int = 0,
) -> int:
    """Return the signed bytes that the engine logs as weights in addition to the tensors.

    These are: ends of blocks, experts and FP8 weights in another kernel's layout, buffers for a step of
    ``batched_tokens`` tokens, tables of older releases for positions that never occur, and on ROCm a library's share.
    """
    return _loading_bytes(model, precision, gpu, split, law, stage) + step_buffer_bytes(model, batched_tokens)


def _loading_bytes(
    model: ModelFacts, precision: Precision, gpu: GpuType | None, split: Split, law: EngineLaw, stage: int
) -> int:
    """Return the part of :func:`loading_bytes` that is the same for every step."""
    return sum(loading_parts(model, precision, gpu, split, law, stage))


class LoadingParts(NamedTuple):
    """The signed bytes of each part of :func:`loading_bytes` that is the same for every step."""

    block_ends: int
    older_tables: int
    rocm_library: int
    expert_layout: int
    fp8_blocks: int


def loading_parts(
    model: ModelFacts, precision: Precision, gpu: GpuType | None, split: Split, law: EngineLaw, stage: int
) -> LoadingParts:
    """Return these parts. Each has a line of its own in the working (:mod:`.weights`)."""
    return LoadingParts(
        block_ends=block_ends_bytes(model, precision, split, stage, splits_large=law.splits_large_blocks),
        older_tables=0 if law.shortens_tables else older_table_bytes(model, precision),
        rocm_library=ROCM_LIBRARY_BYTES
        if law.keeps_rocm_library and gpu is not None and gpu.vendor is Vendor.AMD
        else 0,
        expert_layout=relaid_bytes(model, gpu, split, law, stage),
        fp8_blocks=fp8_block_bytes(model, precision, gpu, split, stage),
    )


def step_buffer_bytes(model: ModelFacts, batched_tokens: int) -> int:
    """Return the buffers that models create at load for the largest step, on every rank of every stage."""
    return batched_tokens * _token_buffer_bytes(model)


def _token_buffer_bytes(model: ModelFacts) -> int:
    """Return the bytes of these buffers for one token of a step.

    These are: a 4-byte index for each token that an indexer picks (vLLM ``models/deepseek_v2.py``); inputs that the
    layers of a model with a tower read from outside; and the streams of hyper-connections for a predictor, loaded or
    not (``models/deepseek_v4``; ``models/qwen3_vl.py``, ``gemma3n_mm.py``: Qwen3-VL-30B logged 0.09 GiB in addition to
    its tensors, 0.09 computed).
    """
    values = 0 if model.encoder is None else model.encoder.step_values
    streams = residual_streams(model)
    values += streams * model.hidden if streams > 1 and model.architecture not in _STREAMS_FOR_PREDICTOR else 0
    own = _picked_tokens(model) * _INDEX_BYTES + model.step_bytes
    return own + values * _HALF_BYTES


def _picked_tokens(model: ModelFacts) -> int:
    return max((cache.picked_tokens for cache in model.caches() if isinstance(cache, IndexerCache)), default=0)
