"""Storage of a 16-bit checkpoint that the engine is asked to quantize while loading."""

from __future__ import annotations

from plimsoll.domain.precision import Precision
from plimsoll.domain.storage import Storage
from plimsoll.facts.models.quantization.formats import (
    BITSANDBYTES_4,
    FP8_TENSOR,
    INT8_CHANNEL,
    MXFP4,
    awq,
    gptq,
    nvfp4,
)

_GROUP = 128
"""Weights that share a scale in nearly every published AWQ and GPTQ checkpoint."""

ONLINE: dict[Precision, Storage] = {
    Precision.FP8: FP8_TENSOR,
    Precision.BITSANDBYTES: BITSANDBYTES_4,
}
"""The new storage of linear layers; embeddings and the output projection do not change.

FP8 has one scale a tensor (``quantization/online/fp8.py``); vLLM 0.19 measured 8.49 GiB for Llama 3.1 8B on an H100,
rotary table (31 MiB) included. bitsandbytes is quantized to NF4 with double quantization and unpacked to 32-bit scales.
"""

TYPICAL: dict[Precision, Storage] = {
    **ONLINE,
    Precision.INT8: INT8_CHANNEL,
    Precision.AWQ: awq(_GROUP, zero_points=True).storage,
    Precision.GPTQ: gptq(4, _GROUP, activation_order=False).storage,
    Precision.MXFP4: MXFP4.storage,
    Precision.NVFP4: nvfp4().storage,
}
"""Usual storage of checkpoints in other precisions, to estimate the memory that one would need."""
