"""Number formats of weights and KV cache.

The bytes of a matrix on the GPU: the bits of its weights, and its scales and zero points.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.units import ceil_div


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


BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class Storage:
    """One number format of a matrix, in a checkpoint or in the engine.

    ``bits`` is the size of one weight, ``scale_bytes`` that of one scale. A scale covers ``group_outputs`` x
    ``group_inputs`` weights. ``group_inputs`` None means a whole row of inputs, and ``group_outputs`` None means all
    outputs (one scale per tensor). Each scale has ``zero_point_bits`` packed zero-point bits. ``index_bytes`` are the
    additional bytes of each input (GPTQ's ``g_idx``).
    """

    precision: Precision
    bits: int
    scale_bytes: int = 0
    group_inputs: int | None = None
    group_outputs: int | None = 1
    zero_point_bits: int = 0
    index_bytes: int = 0

    @property
    def is_quantized(self) -> bool:
        """Whether weights take fewer than 16 bits."""
        return self.bits < 2 * BITS_PER_BYTE

    def bytes_of(self, outputs: int, inputs: int) -> int:
        """Return the bytes of one matrix of ``outputs`` rows and ``inputs`` columns."""
        return self.value_bytes(outputs, inputs) + self.scale_bytes_of(outputs, inputs)

    def value_bytes(self, outputs: int, inputs: int) -> int:
        """Return the bytes of the values alone."""
        return ceil_div(outputs * inputs * self.bits, BITS_PER_BYTE)

    def scale_bytes_of(self, outputs: int, inputs: int) -> int:
        """Return the additional bytes: scales, zero points, indices."""
        if not self.scale_bytes:
            return 0
        scales = ceil_div(outputs, self.group_outputs or outputs) * ceil_div(inputs, self.group_inputs or inputs)
        zero_points = ceil_div(scales * self.zero_point_bits, BITS_PER_BYTE)
        return scales * self.scale_bytes + zero_points + inputs * self.index_bytes


FP32 = Storage(Precision.FP32, 32)
BF16 = Storage(Precision.BF16, 16)
FP16 = Storage(Precision.FP16, 16)

PLAIN = {Precision.FP32: FP32, Precision.BF16: BF16, Precision.FP16: FP16}
"""Storage of unquantized weights by type."""
