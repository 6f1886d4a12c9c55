"""Weights of one rank: what tensor parallelism divides, what it replicates, and what a precision costs."""

from __future__ import annotations

from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.units import ceil_div
from plimsoll.facts.parameters import ParameterGroup, Sharding, parameter_groups

DEFAULT_GROUP_SIZE = 128
"""Weights per scale of AWQ, GPTQ and block-wise FP8 checkpoints that do not say otherwise (their tools' default)."""

MXFP4_WIDTH_STEP = 128
"""MXFP4 kernels round the per-rank expert width up to this many columns (vLLM ``fused_moe/oracle/mxfp4.py``)."""

MXFP4_HIDDEN_STEP = 256
"""... and the hidden size up to this many rows."""


def weights_bytes(model: ModelFacts, precision: Precision, split: Split) -> int:
    """Bytes of weights on one rank of ``split``.

    Sharding rules: vLLM's parallel layers divide linear layers and vocabulary over the tensor-parallel ranks, replicate
    norms and routers, and keep at least one KV head a rank (``vllm/model_executor/layers/linear.py``).
    """
    return sum(_group_bytes(group, model, precision, split.tensor_parallel) for group in parameter_groups(model))


def _group_bytes(group: ParameterGroup, model: ModelFacts, precision: Precision, tensor_parallel: int) -> int:
    parameters = _parameters_per_rank(group, model, tensor_parallel)
    if not (group.quantizable and precision.is_quantized):
        dtype = precision if not precision.is_quantized else model.checkpoint.dtype_beside_quantized
        return parameters * _plain_bytes(dtype)
    quantized = _quantized_bytes(parameters, precision, model.checkpoint.group_size)
    if precision is Precision.MXFP4 and model.experts is not None:
        return int(quantized * _mxfp4_padding(model, tensor_parallel))
    return quantized


def _parameters_per_rank(group: ParameterGroup, model: ModelFacts, tensor_parallel: int) -> int:
    match group.sharding:
        case Sharding.SHARDED | Sharding.VOCABULARY:
            return ceil_div(group.parameters, tensor_parallel)
        case Sharding.KV_HEADS:
            return ceil_div(group.parameters, min(tensor_parallel, model.kv_heads))
        case Sharding.REPLICATED:
            return group.parameters


def _plain_bytes(dtype: Precision) -> int:
    return 4 if dtype is Precision.FP32 else 2


def _quantized_bytes(parameters: int, precision: Precision, group_size: int | None) -> int:
    """Weights plus their scales and zero points.

    fp8: one byte and, block-wise, a 4-byte scale per 128 x 128; int8: one byte, scales per channel are below 0.1 %; awq
    and gptq: half a byte, a 2-byte scale and a half-byte zero point per group; mxfp4: half a byte and one byte per 32
    (OCP MX specification); nvfp4: half a byte and one byte per 16.
    """
    group = group_size or DEFAULT_GROUP_SIZE
    match precision:
        case Precision.FP8:
            return parameters + ceil_div(parameters * 4, group * group)
        case Precision.INT8:
            return parameters + parameters // 1024
        case Precision.AWQ | Precision.GPTQ:
            return ceil_div(parameters, 2) + ceil_div(parameters * 5, 2 * group)
        case Precision.MXFP4:
            return ceil_div(parameters, 2) + ceil_div(parameters, 32)
        case Precision.NVFP4:
            return ceil_div(parameters, 2) + ceil_div(parameters, 16)
        case Precision.FP32 | Precision.BF16 | Precision.FP16:
            return parameters * _plain_bytes(precision)


def _mxfp4_padding(model: ModelFacts, tensor_parallel: int) -> float:
    """How much larger padded MXFP4 experts are: +9 % for gpt-oss on one GPU, +14 % on four (both seen in logs)."""
    if model.experts is None:
        return 1.0
    width = ceil_div(model.experts.intermediate, tensor_parallel)
    padded = ceil_div(width, MXFP4_WIDTH_STEP) * MXFP4_WIDTH_STEP
    hidden = ceil_div(model.hidden, MXFP4_HIDDEN_STEP) * MXFP4_HIDDEN_STEP
    return (padded / width) * (hidden / model.hidden)
