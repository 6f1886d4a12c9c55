"""Group the layers of a model into kinds of equal layers, and keep their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from plimsoll.domain.model import LayerKind, Sharding, Weight
from plimsoll.domain.storage import BF16, Storage
from plimsoll.facts.models.shape import Part

StorageOf = Callable[[int | None, Weight], Storage]
"""Storage of one weight in one layer (None: outside the layers)."""


def layer_kinds(parts: Sequence[Part], storage_of: StorageOf) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
    """Return the different kinds of layers, and the kind of each layer.

    Args:
        parts: every layer, first to last.
        storage_of: returns how the checkpoint stores a weight; called for weights whose type the class does not fix.
    """
    numbers: dict[LayerKind, int] = {}
    order = []
    for layer, part in enumerate(parts):
        kind = LayerKind(stored(part.weights, layer, storage_of), part.caches)
        order.append(numbers.setdefault(kind, len(numbers)))
    return tuple(numbers), tuple(order)


def with_undivided(part: Part, names: tuple[str, ...]) -> Part:
    """Return the part with each weight whose name starts with one of ``names`` whole on every rank.

    Source: vLLM, ``model_executor/models/transformers/base.py``: a projection that the class's plan for tensor
    parallelism leaves out is replicated.
    """
    if not names:
        return part
    whole = (
        replace(weight, sharding=Sharding.REPLICATED) if weight.name.startswith(names) else weight
        for weight in part.weights
    )
    return Part(tuple(whole), part.caches)


def stored(weights: Iterable[Weight], layer: int | None, storage_of: StorageOf) -> tuple[Weight, ...]:
    """Return the weights as the checkpoint stores them. A type that the class fixes (32-bit states) does not change."""
    return tuple(
        weight if weight.storage is not BF16 else replace(weight, storage=storage_of(layer, weight))
        for weight in weights
    )
