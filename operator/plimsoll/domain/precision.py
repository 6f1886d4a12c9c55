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
    """How keys and values are stored in the KV cache.

    ``INT8``, ``INT4`` and ``FP8_SCALED`` keep a 32-bit scale for the key and one for the value of every token
    and head. ``FP8`` has one scale for a whole layer. TurboQuant's rotate keys and pack a key with its value.
    """

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    NVFP4 = "nvfp4"
    INT8 = "int8"
    INT4 = "int4"
    FP8_SCALED = "fp8_per_token_head"
    TURBO_K8V4 = "turboquant_k8v4"
    TURBO_4BIT = "turboquant_4bit_nc"
    TURBO_K3V4 = "turboquant_k3v4_nc"
    TURBO_3BIT = "turboquant_3bit_nc"


WIDE = (KvPrecision.BF16, KvPrecision.FP16)
"""The precisions of a KV cache that is not quantized."""

TURBOQUANT = (KvPrecision.TURBO_K8V4, KvPrecision.TURBO_4BIT, KvPrecision.TURBO_K3V4, KvPrecision.TURBO_3BIT)
"""TurboQuant's precisions."""

SCALED_BY_TOKEN = (KvPrecision.INT8, KvPrecision.INT4, KvPrecision.FP8_SCALED)
"""The precisions with a scale for every token and head."""
