"""The priority of a deployment: who gets GPUs first if not all have room."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Priority:
    """The priority of a deployment's pods, as its PriorityClass gives it.

    ``value`` is 0 if there is no class. ``preempts`` means that an admin lets this class ask for the GPUs of
    running replicas with a lower priority. ``evicts`` means that the scheduler ends pods of a lower priority to make
    room for its pods; not if the class has ``preemptionPolicy: Never``.
    """

    value: int = 0
    preempts: bool = False
    evicts: bool = True

    @property
    def evicts_below(self) -> int:
        """The priority below which pods give way to its pods."""
        return self.value if self.evicts else LOWEST


LOWEST = -(2**31)
"""The lowest priority that a pod can have: it is a number of 32 bits."""

NO_PRIORITY = Priority()
