"""The last turn of each object: a pass repeats it as long as nothing has come that could change it.

Passes come every few seconds, and engines are scraped every 15 s or less often. A turn reads ten minutes of samples, so
a thousand objects would cost half of a core without this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from plimsoll.decision.outcome import Ready
from plimsoll.decision.turns import Turn
from plimsoll.placement.demands.pools import Decision
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.memory import LoopMemory

LONGEST_SECONDS = 10.0
"""Bounds end by time alone, so a turn is taken at least this often."""


@dataclass(frozen=True, slots=True)
class _Last:
    asked: tuple[object, ...]
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

    def recall(self, ready: Ready, decision: Decision | None, reading: Reading, now: float) -> Turn | None:
        """Return the last turn if no sample and no answer has come since, and all else is unchanged."""
        last = self._last.get(ready.deployment.identity.uid)
        if last is None or not 0 <= now - last.at < LONGEST_SECONDS or last.turn.acted:
            return None
        return last.turn if last.asked == _asked(ready, decision, reading) else None

    def keep(self, ready: Ready, decision: Decision | None, reading: Reading, turn: Turn, now: float) -> None:
        """Keep a turn that was taken for a deployment with this decision."""
        uid = ready.deployment.identity.uid
        self.memories[uid] = turn.standing.memory
        self._last[uid] = _Last(_asked(ready, decision, reading), now, turn)


def _asked(ready: Ready, decision: Decision | None, reading: Reading) -> tuple[object, ...]:
    """Return what a turn is taken of. Comparing is cheap: passes give back the same objects while nothing changes."""
    newest = tuple(pod.samples[-1] for pod in reading.pods.values() if pod.samples)
    load = reading.state, reading.error, newest, reading.gateway
    return ready.deployment, ready.request, decision, *load
