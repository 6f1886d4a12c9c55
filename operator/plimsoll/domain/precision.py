"""Number formats of weights and KV cache."""

from __future__ import annotations

from enum import StrEnum


class Precision(StrEnum):
    """How the weights of the linear layers are stored on the GPU."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    AWQ = "awq"
    GPTQ = "gptq"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"
    BITSANDBYTES = "bitsandbytes"

    @property
    def is_quantized(self) -> bool:
        """Whether linear layers are stored in fewer than 16 bits."""
        return self not in (Precision.FP32, Precision.BF16, Precision.FP16)


class KvPrecision(StrEnum):
    """How keys and values are stored in the KV cache."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    NVFP4 = "nvfp4"


WIDE = (KvPrecision.BF16, KvPrecision.FP16)
"""The precisions of a KV cache that is not quantized."""
