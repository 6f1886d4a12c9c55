"""The engines that there are, by name."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.engines.base import Engine
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.vllm.engine import VLLM

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (VLLM, SGLANG)}
"""One row for each engine."""


def engine_of(name: str = DEFAULT_ENGINE) -> Engine:
    """Return the engine of that name. Raises KeyError where there is none; the API refuses such names first."""
    return ENGINES[name]


def started_by(command: Sequence[str] | None) -> Engine | None:
    """Return the engine whose containers have a command; None if that is not known, or not of exactly one engine."""
    found = [engine for engine in ENGINES.values() if command is not None and engine.command == tuple(command)]
    return found[0] if len(found) == 1 else None
