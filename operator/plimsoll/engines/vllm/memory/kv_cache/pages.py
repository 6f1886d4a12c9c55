"""The pages of a block: one layer's part of it, and which layers may share a group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Holding(StrEnum):
    """The tokens for which a layer keeps data. This decides the engine's spec class, and so the group."""

    FULL = "full"
    WINDOW = "window"
    CHUNK = "chunk"
    CROSS = "cross"
    STATE = "state"
    RING = "ring"


@dataclass(frozen=True, slots=True)
class Page:
    """One layer's part of one block, which the engine calls a spec. Layers with equal pages may share a group.

    ``shape`` separates layers that keep the same number of bytes in different forms. ``limit_tokens`` is the window,
    the chunk or the encoder's length, and 1 for states that are saved during a prefill. ``can_be_padded`` is false for
    latent attention, whose kernels read whole rows. A block of packed pages is a multiple of ``stride_bytes``.
    States that every rank holds ``whole`` are in separate groups.
    """

    holding: Holding
    shape: tuple[str | int, ...]
    block_tokens: int
    page_bytes: int
    limit_tokens: int = 0
    can_be_padded: bool = True
    stride_bytes: int = 1
    whole: bool = False
