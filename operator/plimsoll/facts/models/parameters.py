"""How many parameters a model has."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.domain.model import ModelFacts, Weight


def count_parameters(facts: ModelFacts) -> int:
    """All parameters of the model as the engine loads it: a tied output projection counts once."""
    by_kind = [_sum(kind.weights) for kind in facts.kinds]
    encoder = _sum(facts.encoder.weights) if facts.encoder is not None else 0
    return _sum(facts.embedding) + sum(by_kind[kind] for kind in facts.order) + _sum(facts.head) + encoder


def _sum(weights: Iterable[Weight]) -> int:
    return sum(weight.parameters for weight in weights)
