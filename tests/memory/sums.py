"""Figures that engines log and that the law itself does not need, for tests that compare them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from plimsoll.engines.vllm.memory.activations import activation_parts
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.kv_cache.layout import NULL_BLOCKS
from plimsoll.engines.vllm.memory.non_torch import non_torch_parts
from plimsoll.memory.band import Band


def activations_bytes(*arguments: Any, **more: Any) -> int:
    """The peak of activations."""
    return activation_parts(*arguments, **more).total


def non_torch_bytes(*arguments: Any, **more: Any) -> int:
    """The memory outside PyTorch and inside the budget."""
    return sum(size for _, size in non_torch_parts(*arguments, **more))


def blocks_in(layout: KvLayout, available_bytes: int) -> int:
    """Usable blocks that fit in ``available_bytes``; zero when not even the null block fits."""
    return max(0, layout.pool_blocks(available_bytes) - NULL_BLOCKS)


def max_concurrency(layout: KvLayout, available_bytes: int, context_tokens: int) -> Fraction:
    """Requests of full length that vLLM says it holds; zero for models without any cache."""
    per_request = layout.blocks_of_request(context_tokens)
    return Fraction(layout.pool_blocks(available_bytes), per_request) if per_request else Fraction()


def width_bytes(band: Band) -> int:
    """The bytes between the lowest and the highest need."""
    return band.high_bytes - band.low_bytes
