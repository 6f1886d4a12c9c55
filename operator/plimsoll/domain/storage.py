"""How many bytes a matrix takes on the GPU: bits of a weight, and what its scales and zero points add."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.precision import Precision
from plimsoll.domain.units import ceil_div

BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class Storage:
    """One number format as a checkpoint, or the engine, lays a matrix out.

    ``bits`` of one weight; ``scale_bytes`` of one scale. A scale covers ``group_outputs`` x ``group_inputs`` weights;
    ``group_inputs`` None means a whole row of inputs, and ``group_outputs`` None all outputs (one scale a tensor).
    ``zero_point_bits`` are packed beside each scale; ``index_bytes`` is what each input costs beside (GPTQ's
    ``g_idx``).
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
        """Bytes of one matrix of ``outputs`` rows and ``inputs`` columns."""
        return self.value_bytes(outputs, inputs) + self.scale_bytes_of(outputs, inputs)

    def value_bytes(self, outputs: int, inputs: int) -> int:
        """Bytes of the numbers alone."""
        return ceil_div(outputs * inputs * self.bits, BITS_PER_BYTE)

    def scale_bytes_of(self, outputs: int, inputs: int) -> int:
        """Bytes of what lies beside them: scales, zero points, indices."""
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
