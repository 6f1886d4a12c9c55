"""Compare the weights of a known class with the weights that the checkpoint stores."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.domain.model import LayerKind, ModelFacts, Weight
from plimsoll.domain.units import format_gib
from plimsoll.facts.models.tensors.reading import TensorWeights

LARGEST_DIFFERENCE = 0.01
"""Largest accepted difference, as a share of the weights: padded vocabularies and dropped scales stay below it."""


def difference(facts: ModelFacts, weights: TensorWeights) -> str | None:
    """Return a sentence if the sums differ by more than a hundredth; None if they agree."""
    ours, stored = _of_facts(facts), _of_tensors(weights)
    expected, found = sum(ours.values()), sum(stored.values())
    if abs(found - expected) <= LARGEST_DIFFERENCE * expected:
        return None
    part = max(ours, key=lambda name: abs(stored[name] - ours[name]))
    return (
        f"The checkpoint stores {format_gib(found)} of weights that the engine would load, {format_gib(expected)} "
        f"follow from config.json; most of the difference is in the {part} ({format_gib(stored[part])} stored, "
        f"{format_gib(ours[part])} expected). The estimate goes by config.json."
    )


def _of_facts(facts: ModelFacts) -> dict[str, int]:
    layers = [_bytes(kind.weights) for kind in facts.kinds]
    return {
        "layers": sum(layers[kind] for kind in facts.order),
        "embeddings": _bytes((*facts.embedding, *facts.head)),
        "tower": _bytes(facts.encoder.weights) if facts.encoder is not None else 0,
    }


def _of_tensors(weights: TensorWeights) -> dict[str, int]:
    layers = {LayerKind(layer, ()): 0 for layer in weights.layers}
    for layer in weights.layers:
        layers[LayerKind(layer, ())] += 1
    return {
        "layers": sum(count * _bytes(kind.weights) for kind, count in layers.items()),
        "embeddings": _bytes((*weights.embedding, *weights.head)),
        "tower": _bytes(weights.tower),
    }


def _bytes(weights: Iterable[Weight]) -> int:
    return sum(weight.count * weight.storage.bytes_of(weight.outputs, weight.inputs) for weight in weights)
