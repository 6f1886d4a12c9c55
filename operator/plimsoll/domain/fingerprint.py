"""A fingerprint of a model and its engine options: equal where two engines need the same memory."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from plimsoll.domain.engine_choice import EngineChoice
from plimsoll.domain.model import FactsSource, ModelFacts

_DIGITS = 12


@lru_cache(maxsize=256)
def fingerprint(model: ModelFacts, engine: EngineChoice) -> str:
    """Return hex digits that differ where the model's facts or an option that changes the memory differ.

    The share of the GPU that the engine may use and the size of a step are left out, because an observation is the
    difference from the law's prediction for the same share and step.
    """
    facts = replace(model, source=FactsSource.INLINE, parameters=None, remarks=())
    options = (engine.enforce_eager, engine.residency, engine.lora, engine.speculation, engine.media, engine.unfollowed)
    runner = () if engine.model_runner is None else (f"model runner {engine.model_runner}",)
    return sha256(repr((facts, (*options, *runner))).encode()).hexdigest()[:_DIGITS]
