"""The engines that there are, by name."""

from __future__ import annotations

from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.engines.base import Engine
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.vllm.engine import VLLM

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (VLLM, SGLANG)}
"""One row for each engine."""


def engine_of(name: str = DEFAULT_ENGINE) -> Engine:
    """Return the engine of that name. Raises KeyError where there is none; the API refuses such names first."""
    return ENGINES[name]
