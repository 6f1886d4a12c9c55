"""Requests that an engine can hold. vLLM ends an answer at the end of the context, and refuses a prompt beyond it."""

from __future__ import annotations

from benchmarks.rebalance.values import EngineSpec
from plimsoll.simulation.batch import BLOCK_TOKENS
from plimsoll.simulation.replay import cut
from plimsoll.simulation.values import Arrival


def room_of(engine: EngineSpec) -> int:
    """Return the most tokens of a prompt and its answer together: the context, or the whole KV cache if it is less."""
    return min(engine.context_tokens, engine.kv_tokens // BLOCK_TOKENS * BLOCK_TOKENS)


def fitting(arrival: Arrival, engine: EngineSpec) -> Arrival:
    """Return a request, cut to what the engine can hold: the answer first, and the prompt if one token is left of it.

    A client would cut its prompt likewise, because the engine refuses it.
    """
    return cut(arrival, room_of(engine))
