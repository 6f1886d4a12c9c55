"""The last turn of each object: a pass repeats it as long as nothing has come that could change it.

Passes come every few seconds, and engines are scraped every 15 s or less often. A turn reads ten minutes of samples, so
a thousand objects would cost half of a core without this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from plimsoll.app.plan.case import Case
from plimsoll.decision.turns import Turn
from plimsoll.rebalance.inbox import PendingProposals
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.memory import LoopMemory

LONGEST_SECONDS = 10.0
"""Bounds end by time alone, so a turn is taken at least this often."""


@dataclass(frozen=True, slots=True)
class _Last:
    objects: tuple[object, ...]
    load: tuple[object, ...]
    pending: PendingProposals | None
    at: float
    turn: Turn


@dataclass(slots=True)
class TurnMemo:
    """The last turns, and ``memories``: what the live loop remembers of each object. Both by uid."""

    memories: dict[str, LoopMemory] = field(default_factory=dict, repr=False)
    _last: dict[str, _Last] = field(default_factory=dict, repr=False)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget objects that are gone."""
        living = set(uids)
        self._last = {uid: last for uid, last in self._last.items() if uid in living}
        self.memories = {uid: memory for uid, memory in self.memories.items() if uid in living}

    def recall(self, case: Case, reading: Reading, pending: PendingProposals | None, now: float) -> Turn | None:
        """Return the last turn if no sample and no answer has come since, and all else is unchanged."""
        last = self._last.get(case.uid)
        if last is None or not 0 <= now - last.at < LONGEST_SECONDS or last.turn.acted:
            return None
        same = last.objects == _objects(case) and last.load == _load(reading) and last.pending == pending
        return last.turn if same else None

    def keep(self, case: Case, reading: Reading, pending: PendingProposals | None, turn: Turn, now: float) -> None:
        """Keep a turn that was taken for a case as it is now."""
        self.memories[case.uid] = turn.standing.memory
        self._last[case.uid] = _Last(_objects(case), _load(reading), pending, now, turn)


def _objects(case: Case) -> tuple[object, ...]:
    """Return what a turn is taken of. Comparing is cheap: passes give back the same objects while nothing changes."""
    return case.body, case.around, case.decision, case.request


def _load(reading: Reading) -> tuple[object, ...]:
    newest = tuple(pod.samples[-1] for pod in reading.pods.values() if pod.samples)
    return reading.state, reading.error, newest, reading.gateway
