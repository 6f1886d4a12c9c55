"""Sums over the parts of two terms, for tests that ask for one figure."""

from __future__ import annotations

from typing import Any

from plimsoll.engines.vllm.memory.activations import activation_parts
from plimsoll.engines.vllm.memory.non_torch import non_torch_parts


def activations_bytes(*arguments: Any, **more: Any) -> int:
    """The peak of activations."""
    return activation_parts(*arguments, **more).total


def non_torch_bytes(*arguments: Any, **more: Any) -> int:
    """The memory outside PyTorch and inside the budget."""
    return sum(size for _, size in non_torch_parts(*arguments, **more))
