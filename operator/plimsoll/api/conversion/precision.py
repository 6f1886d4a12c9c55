"""Resolve the user's choice of precision for a known model."""

from __future__ import annotations

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.facts.models.quantization import ONLINE

AUTO = "auto"
"""The value of both fields that means the checkpoint's own precision."""


def weight_precision(choice: str, model: ModelFacts) -> Precision:
    """Resolve ``auto``, and refuse a precision in which the checkpoint cannot be loaded.

    The engine's own ``auto`` runs 32-bit checkpoints in 16 bits, and ``auto`` here does the same.
    16-bit types can be cast to each other. The engine can make FP8 and bitsandbytes while it loads a 16-bit checkpoint
    (vLLM's online quantization). Every other format must be the format of the published checkpoint.

    Raises:
        InvalidInput: the checkpoint cannot be loaded in this precision.
    """
    published = model.checkpoint.precision
    if choice == AUTO:
        return Precision.BF16 if published is Precision.FP32 else published
    wanted = Precision(choice)
    if wanted is published:
        return wanted
    if not published.is_quantized and (not wanted.is_quantized or wanted in ONLINE):
        return wanted
    raise InvalidInput(
        "spec.precision",
        wanted.value,
        f"The checkpoint of {model.name} is {published.value}; write auto or {published.value}, "
        f"or name a checkpoint published as {wanted.value}.",
    )


def cache_precision(choice: str, model: ModelFacts, precision: Precision) -> KvPrecision:
    """Resolve ``auto``: the checkpoint's KV precision if it has one, else a 16-bit type that fits ``precision``."""
    if choice != AUTO:
        return KvPrecision(choice)
    if model.checkpoint.kv_precision is not None:
        return model.checkpoint.kv_precision
    dtype = model.checkpoint.dtype if precision.is_quantized else precision
    return KvPrecision.FP16 if dtype is Precision.FP16 else KvPrecision.BF16
