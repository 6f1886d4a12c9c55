"""One tensor of a checkpoint, as the header of its safetensors file describes it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from plimsoll.domain.units import ceil_div

FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""Types that the engine reads into its own 16- or 32-bit type."""

LARGEST_BYTES = 10**15
"""Largest accepted size of a checkpoint. Real checkpoints are far smaller; a larger list is a mistake."""

_BITS = re.compile(r"[A-Z]+(\d+)")
_POSSIBLE_BITS = frozenset({4, 6, 8, 16, 32, 64, 128})
_BITS_OF_OTHERS = 8
"""Bits of BOOL, and of an unknown type."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Name, type and shape. ``dtype`` is spelled as in safetensors: BF16, F8_E4M3, I32.

    Source: the safetensors format, https://github.com/huggingface/safetensors#format.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Stored elements; packed weights count as the words they are."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Bits of one element: the number in the type's name."""
        return _bits(self.dtype)

    @property
    def bytes(self) -> int:
        """Bytes in the file."""
        return ceil_div(self.elements * self.bits, 8)


@lru_cache(maxsize=64)
def _bits(dtype: str) -> int:
    figure = _BITS.match(dtype)
    bits = int(figure[1][:4]) if figure is not None else 0
    return bits if bits in _POSSIBLE_BITS else _BITS_OF_OTHERS
