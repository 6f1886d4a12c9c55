"""The status of a pod, from its containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.kubelet.times import stamp


class Conditions:
    """The conditions that a kubelet owns; each keeps the time of its last change."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[bool, float]] = {}

    def update(self, states: Mapping[str, bool], now: float) -> list[dict[str, Any]]:
        """Return the conditions for these states. Strategic merge keeps those of the scheduler."""
        for kind, state in states.items():
            if self._since.get(kind, (None, 0.0))[0] is not state:
                self._since[kind] = (state, now)
        return [_condition(kind, state, since) for kind, (state, since) in self._since.items()]


def _condition(kind: str, state: bool, since: float) -> dict[str, Any]:  # noqa: FBT001 -- a value, not a switch
    why = "ContainersNotReady" if kind in {"Ready", "ContainersReady"} and not state else None
    return {"type": kind, "status": str(state), "lastTransitionTime": stamp(since), "reason": why}


def pod_status(
    containers: Sequence[Mapping[str, Any]], conditions: Sequence[Mapping[str, Any]], *, address: str, began: float
) -> dict[str, Any]:
    """Return what is patched into ``status``; ``containers`` are entries of ``containerStatuses``."""
    return {
        "phase": _phase(containers),
        "startTime": stamp(began),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": list(conditions),
        "containerStatuses": list(containers),
    }


def _phase(containers: Sequence[Mapping[str, Any]]) -> str:
    """Running as soon as one container has run, and over when none will run again, as in the pods of Jobs."""
    ended = [each["state"]["terminated"] for each in containers if "terminated" in each["state"]]
    if len(ended) == len(containers):
        return "Failed" if any(each["exitCode"] for each in ended) else "Succeeded"
    has_run = any("waiting" not in each["state"] or "lastState" in each for each in containers)
    return "Running" if has_run else "Pending"
