"""The bytes of a matrix on the GPU: the bits of its weights, and its scales and zero points."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.precision import Precision
from plimsoll.domain.units import ceil_div

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
