"""The extra memory of kernels for their parameters: padding, and copies of absorbed projections."""

from __future__ import annotations

from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import Precision, Storage
from plimsoll.domain.units import ceil_div

MXFP4_WIDTH_STEP = 128
"""MXFP4 kernels round the per-rank expert width up to this many columns (vLLM ``fused_moe/oracle/mxfp4.py``)."""

MXFP4_HIDDEN_STEP = 256
"""... and the hidden size up to this many rows."""

ABSORBED = "self_attn.kv_b_proj"
"""MLA keeps 16-bit copies of this projection, transposed, for decoding (``layers/attention/mla_attention.py``)."""


def absorbed_bytes(weight: Weight, rank_shape: tuple[int, int, int], *, dtype: Storage) -> int:
    """Return the bytes of the copies that kernels keep of one weight of one layer on one rank.

    Args:
        weight: the weight.
        rank_shape: its matrices, rows and columns on the rank.
        dtype: the storage of weights that are not quantized.
    """
    _, outputs, inputs = rank_shape
    return dtype.bytes_of(outputs, inputs) if weight.name == ABSORBED else 0


def stored_bytes(weight: Weight, storage: Storage, rank_shape: tuple[int, int, int]) -> int:
    """Return the bytes that the engine allocates for one weight of one layer on one rank. MXFP4 experts are padded."""
    return sum(stored_parts(weight, storage, rank_shape))


def stored_parts(weight: Weight, storage: Storage, rank_shape: tuple[int, int, int]) -> tuple[int, int]:
    """Return the same in two parts: the values, and the scales and zero points, which are separate tensors."""
    count = rank_shape[0]
    outputs, inputs = kernel_shape(weight, storage, rank_shape)
    return count * storage.value_bytes(outputs, inputs), count * storage.scale_bytes_of(outputs, inputs)


def kernel_shape(weight: Weight, storage: Storage, rank_shape: tuple[int, int, int]) -> tuple[int, int]:
    """Return the rows and columns of one matrix with the padding of its kernel."""
    _, outputs, inputs = rank_shape
    is_padded = storage.precision is Precision.MXFP4 and weight.inputs > 1
    return _padded(weight.sharding, outputs, inputs) if is_padded else (outputs, inputs)


def _padded(sharding: Sharding, outputs: int, inputs: int) -> tuple[int, int]:
    """Return rows and columns of an expert matrix in the kernel's layout: one side is hidden, the other the width."""
    if sharding is Sharding.EXPERT_INPUTS:
        return _round_up(outputs, MXFP4_HIDDEN_STEP), _round_up(inputs, MXFP4_WIDTH_STEP)
    return _round_up(outputs, MXFP4_WIDTH_STEP), _round_up(inputs, MXFP4_HIDDEN_STEP)


def _round_up(size: int, step: int) -> int:
    return ceil_div(size, step) * step
