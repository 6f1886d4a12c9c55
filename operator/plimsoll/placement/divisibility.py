"""Which tensor-parallel degrees a model's shape allows."""

from __future__ import annotations

from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Rejection, Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.reasons import Reason

FP8_BLOCK = 128
"""Block-wise FP8 weights are scaled in 128 x 128 blocks; a rank must hold whole blocks (vLLM ``fp8_utils.py``)."""


def split_refusal(model: ModelFacts, precision: Precision, gpu_type: str, split: Split) -> Rejection | None:
    """Why this model cannot be cut so, with the next degree that works; None where it can.

    Rules: attention heads divide by the degree (``config/model.py``), KV heads divide by it or it by them
    (``layers/linear.py``), MLP widths divide by it, and blocks and groups of quantized weights stay whole.
    """
    refusal = _first_refusal(model, precision, split.tensor_parallel)
    if refusal is None:
        return None
    reason, numbers = refusal
    next_degree = _next_degree(model, precision, split.tensor_parallel)
    return Rejection(
        gpu_type, split, reason, (*numbers, *((("next_degree", next_degree),) if next_degree is not None else ()))
    )


Refusal = tuple[Reason, tuple[tuple[str, int | str], ...]]


def _first_refusal(model: ModelFacts, precision: Precision, degree: int) -> Refusal | None:
    if model.heads % degree:
        return Reason.HEADS_NOT_DIVISIBLE, (("heads", model.heads),)
    if model.kv_heads % degree and degree % model.kv_heads:
        return Reason.KV_HEADS_NOT_DIVISIBLE, (("kv_heads", model.kv_heads),)
    for name, width in _widths(model):
        if width % degree:
            return Reason.WIDTH_NOT_DIVISIBLE, (("what", name), ("width", width))
        step = _quantum(model, precision)
        if step is not None and (width // degree) % step:
            return Reason.QUANT_BLOCK_NOT_DIVISIBLE, (("what", name), ("width", width // degree), ("block", step))
    return None


def _widths(model: ModelFacts) -> tuple[tuple[str, int], ...]:
    """The widths that a degree must divide, named as in config.json."""
    widths: list[tuple[str, int]] = []
    if model.dense_layers and model.intermediate:
        widths.append(("intermediate_size", model.intermediate))
    if model.experts is not None:
        widths.append(("moe_intermediate_size", model.experts.intermediate))
    return tuple(widths)


def _quantum(model: ModelFacts, precision: Precision) -> int | None:
    """Columns that must stay together on a rank, where weights are scaled by blocks or groups."""
    if model.checkpoint.precision is not precision or model.checkpoint.group_size is None:
        return None
    if precision is Precision.FP8:
        return FP8_BLOCK
    return model.checkpoint.group_size if precision in (Precision.AWQ, Precision.GPTQ) else None


def _next_degree(model: ModelFacts, precision: Precision, degree: int) -> int | None:
    """The nearest degree that works: smaller ones first, for they always need fewer GPUs."""
    smaller = (d for d in range(degree - 1, 0, -1) if _first_refusal(model, precision, d) is None)
    return next(smaller, None)
