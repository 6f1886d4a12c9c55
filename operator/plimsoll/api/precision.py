"""The precision that a choice of the user's stands for, once the model is known."""

from __future__ import annotations

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.facts.models.quantization import ONLINE

AUTO = "auto"
"""Both fields' word for the checkpoint's own."""


def weight_precision(choice: str, model: ModelFacts) -> Precision:
    """Resolve ``auto`` and refuse what the checkpoint cannot be loaded as.

    The engine's own ``auto`` runs 32-bit checkpoints in 16 bits, and so does ours.
    16-bit types are casts of each other, FP8 and bitsandbytes can be made while loading a 16-bit checkpoint (vLLM's
    online quantization); every other format must be what the checkpoint was published in.

    Raises:
        InvalidInput: the checkpoint cannot be loaded so.
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
    """Resolve ``auto``: what the checkpoint fixes, else the 16-bit type of the weights in ``precision``."""
    if choice != AUTO:
        return KvPrecision(choice)
    if model.checkpoint.kv_precision is not None:
        return model.checkpoint.kv_precision
    dtype = model.checkpoint.dtype if precision.is_quantized else precision
    return KvPrecision.FP16 if dtype is Precision.FP16 else KvPrecision.BF16
