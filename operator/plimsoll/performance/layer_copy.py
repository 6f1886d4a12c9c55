"""The cliff of weights in host memory: the copy of a decoder layer over PCIe, and the work that could hide it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.performance.model import Load, context_tokens
from plimsoll.performance.step_costs import StepCosts

_BYTES_PER_GB = 10**9

MOST_TOKENS = 1 << 17
"""The most tokens of a step that are looked at. vLLM's default is 8,192 on cards with 70 GiB or more, and 2,048 on
others (``EngineArgs.get_batch_defaults``, 0.32)."""


class LayerCopy(NamedTuple):
    """One decoder layer of a rank, as a mean over all layers: its bytes, and seconds of its copy and of its work.

    Attributes:
        size_bytes: its weights.
        copied: the seconds in which the link to the host carries them.
        decoding: its part of a step in which the declared requests generate.
        reading: its part of a step that is full of prompts.
        hidden_from: the tokens of prompts in a step from which on its work takes as long as its copy; None: more than
            :data:`MOST_TOKENS`.
    """

    size_bytes: int
    copied: float
    decoding: float
    reading: float
    hidden_from: int | None


def layer_copy(costs: StepCosts, gpu: GpuType, layer_bytes: int, load: Load, step_tokens: int) -> LayerCopy:
    """Return what the copy of a layer takes, and its work.

    Args:
        costs: of an engine whose weights are all on the GPU. A step's gaps and serving are shared among its layers.
        gpu: the card, with the rate of copies from the host.
        layer_bytes: the mean bytes of a rank's decoder layer.
        load: the declared load.
        step_tokens: the most tokens of a step.
    """
    copied = layer_bytes / (gpu.host_bandwidth_gb_per_second * _BYTES_PER_GB)
    layers, prompt = costs.work.layers, load.prompt_tokens

    def reading(tokens: int) -> float:
        return (costs.prompt_step_seconds(tokens) + tokens / prompt * costs.prompt_attention(prompt)) / layers

    return LayerCopy(
        size_bytes=layer_bytes,
        copied=copied,
        decoding=costs.step(load.running, context_tokens(load)).total / layers,
        reading=reading(step_tokens),
        hidden_from=_first(lambda tokens: reading(tokens) >= copied),
    )


def _first(hides: Callable[[int], bool]) -> int | None:
    """Return the fewest tokens that hide a copy: more tokens never take less time."""
    if not hides(MOST_TOKENS):
        return None
    low, high = 1, MOST_TOKENS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if hides(middle) else (middle + 1, high)
    return low
