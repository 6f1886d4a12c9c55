"""The priority of a deployment: who gets GPUs first where not all have room."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Priority:
    """The priority of a deployment's pods, as its PriorityClass gives it.

    ``value`` is 0 where there is no class. ``preempts`` means that an admin lets this class ask for the GPUs of
    running replicas with a lower priority.
    """

    value: int = 0
    preempts: bool = False


NO_PRIORITY = Priority()
