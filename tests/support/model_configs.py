"""Facts of the configurations that the accuracy benchmark keeps, by file name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts

CONFIGS = Path(__file__).resolve().parents[2] / "benchmarks" / "accuracy" / "data" / "model-configs"


def config_of(stem: str) -> dict[str, Any]:
    """One configuration, e.g. ``Qwen__Qwen3-8B``."""
    loaded: dict[str, Any] = json.loads((CONFIGS / f"{stem}.json").read_text(encoding="utf-8"))
    return loaded


@cache
def facts_of(stem: str) -> ModelFacts:
    """The facts of one configuration."""
    return facts_from(stem, config_of(stem))


def facts_from(name: str, config: dict[str, Any]) -> ModelFacts:
    """The facts of a configuration given in full."""
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE)
