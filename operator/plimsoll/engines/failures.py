"""The reason why an engine crashed, whichever engine it was.

A pod's message is searched for the texts of every engine. Their texts differ, and the user's own image may contain
another engine than the one that was asked for.
"""

from __future__ import annotations

from plimsoll.domain.engine_failures import MESSAGE_LIMIT, EngineFailure, StartFailure
from plimsoll.engines.registry import ENGINES


def read_failure(message: str, container_reason: str = "") -> EngineFailure:
    """Find the engine's own reason at the end of its log; ``container_reason`` is Kubernetes' (``OOMKilled``)."""
    for engine in ENGINES.values():
        found = engine.find_failure(message)
        if found is not None:
            return found
    if container_reason == "OOMKilled":
        text = "The container used more memory than its limit; raise spec.podTemplate.resources.limits.memory."
        return EngineFailure(StartFailure.HOST_MEMORY, text)
    last = next((line for line in reversed(message.splitlines()) if line.strip()), "The engine left no message.")
    return EngineFailure(StartFailure.UNKNOWN, last.strip()[:MESSAGE_LIMIT])
