"""Known classes, read once by their own rows and once as if the rows did not exist.

The rows are the truth: they agree with the engine's modules. So the difference is the error of the generic reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, IndexerCache, LatentCache, RowCache
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.facts.models import model_class
from plimsoll.facts.models.architectures import ARCHITECTURES
from plimsoll.facts.models.composites import COMPOSITES
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.refusals import count_parameters

_PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "accuracy" / "data" / "model-configs"
_BY_CLASS = ("engine_parameters", "engine_hybrids")

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """The relative errors of one class's generic reading: parameters, and values of the KV cache for each token."""

    name: str
    weights: float
    cache: float


def readings(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Reading], list[str]]:
    """Return the errors for all classes that the generic reading answers for, and the classes that it refuses."""
    configs = dict(_first_of_each_class())
    truths = {name: read(config) for name, config in configs.items()}
    monkeypatch.setattr(model_class, "ARCHITECTURES", {})
    guesses = {name: _read_if_possible(config) for name, config in configs.items()}
    found = [_reading(name, truths[name], guess) for name, guess in guesses.items() if guess is not None]
    return found, [name for name, guess in guesses.items() if guess is None]


def read(config: Config) -> ModelFacts:
    """Return the facts of a configuration."""
    return read_model_facts("org/model", config, revision=None, source=FactsSource.INLINE)


def _first_of_each_class() -> Iterator[tuple[str, Config]]:
    """One configuration for each class without a tower, so that classes with many published models count once."""
    seen = set()
    for config in _configurations():
        name = str((config.get("architectures") or [""])[0])
        if name in ARCHITECTURES and name not in COMPOSITES and name not in seen:
            seen.add(name)
            yield name, config


def _configurations() -> Iterator[Config]:
    """Published files first, then the configurations that were written for the classes of the engine."""
    for path in sorted(_PUBLISHED.glob("*.json")):
        yield json.loads(path.read_text())
    for name in _BY_CLASS:
        data = json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text())
        yield from ({"transformers_version": "5.0.0", **row["config"]} for row in data["rows"])
    totals = json.loads((Path(__file__).parent / "data" / "parameter_totals.json").read_text())
    yield from ({"transformers_version": "5.0.0", **row["config"]} for row in totals)


def _read_if_possible(config: Config) -> ModelFacts | None:
    try:
        return read(config)
    except PlimsollError:
        return None


def _reading(name: str, truth: ModelFacts, guess: ModelFacts) -> Reading:
    weights = count_parameters(guess) / count_parameters(truth) - 1
    cache = _token_values(guess) / _token_values(truth) - 1 if _token_values(truth) else 0.0
    return Reading(name, weights, cache)


def _token_values(model: ModelFacts) -> float:
    return sum(_values(cache) for kind in model.order for cache in model.kinds[kind].caches)


def _values(cache: CacheSpec) -> float:
    """Values of one token in one layer; windows count like the whole context, because both readings have the same."""
    match cache:
        case AttentionCache(heads, key, value):
            return heads * (key + value)
        case LatentCache(latent, rope):
            return latent + rope
        case IndexerCache(width):
            return width / 2
        case RowCache(row_bytes):
            return row_bytes / 2 / cache.tokens_per_row
        case _:
            return 0.0
