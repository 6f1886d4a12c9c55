"""Do two engines run the same model in the same way, as far as their memory goes?"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from plimsoll.domain.engine_choice import EngineChoice
from plimsoll.domain.model import FactsSource, ModelFacts

_DIGITS = 12


@lru_cache(maxsize=256)
def fingerprint(model: ModelFacts, engine: EngineChoice) -> str:
    """Hex digits that differ where the facts of the model or an option that changes the memory differ.

    The share of the GPU that the engine may use and the size of a step are left out: an observation is a difference
    from what the law says of that very share and step.
    """
    facts = replace(model, source=FactsSource.INLINE, parameters=None, remarks=())
    options = (engine.enforce_eager, engine.residency, engine.lora, engine.speculation, engine.media, engine.unfollowed)
    return sha256(repr((facts, options)).encode()).hexdigest()[:_DIGITS]
