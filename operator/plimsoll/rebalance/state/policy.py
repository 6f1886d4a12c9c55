"""The policy of the live loop: every bound for its decisions, with its unit and its reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.state.allowance import Opening
from plimsoll.rebalance.state.decisions import LoopDecision, Move

READY_EARLY_SECONDS = 60.0
"""How much earlier than by the start-up alone the replicas of a schedule are started: a pass is made once a minute at
least, and the start-up counts from the binding of a pod."""


class Mode(StrEnum):
    """The use of a decision. RECOMMEND and AUTO make the same decision; the caller acts on it only in AUTO."""

    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class ScheduledMinimum:
    """Replicas that must be ready while ``opening`` is open; else from its time on."""

    replicas: int
    opening: Opening

    def is_due(self, now: float, startup_seconds: float) -> bool:
        """Whether it counts, or comes before a replica that is started a little later would be ready."""
        return self.opening.is_open or self.opening.opens_at - now <= startup_seconds + READY_EARLY_SECONDS


@dataclass(frozen=True, slots=True)
class RebalancePolicy:
    """The bounds of the live loop. The defaults come from simulations, unless a source is named.

    They are the defaults of ``spec.rebalancing``; a test checks that they stay equal.

    Args:
        mode: whether the loop makes no decisions, only shows them, or also carries them out.
        min_replicas: fewest replicas.
        max_replicas: most replicas.
        changes_per_hour: most removals, moves and changes of settings in any 60 minutes. Additions are not bounded:
            they serve requests. 6: a wrong loop costs at most six starts an hour.
        reversals_per_hour: most additions after a removal in any 60 minutes; then nothing is removed. 2.
        window_seconds: the time over which arrivals are counted. 120: two minutes are longer than most bursts. A rise
            beyond chance is seen in the last scrapes already.
        cooldown_seconds: how long fewer replicas must have been enough before some are removed, and the shortest time
            from an addition to a removal. 1800: a change that is taken back within half an hour is a flip
            (docs/rebalance-benchmark.md), and each replica that is missed costs its start-up.
        asks_before_moves: whether moves are only proposed although the mode is AUTO.
        idle_seconds: how long no request may have come before the last replicas go; None: they stay.
        wakes: whether a request that waits at the gateway starts a replica when none runs.
        cut_off: whether ``min_replicas`` is 1 because no request that comes while none runs reaches the picker.
        scales: whether the loop decides the number of replicas. Otherwise another controller does.
        contested: whether others keep changing the number of replicas although the loop decides it.
        scheduled: the entry of the schedule that ``min_replicas`` comes from; None: no entry asks for more.
        additions_per_hour: most replicas that are added in any 60 minutes, but up to ``min_replicas``; None: no bound.
        dollars_per_hour: the bill of all replicas in US dollars an hour that no change may exceed; None: no bound.
    """

    mode: Mode = Mode.RECOMMEND
    min_replicas: int = 1
    max_replicas: int = 1
    changes_per_hour: int = 6
    reversals_per_hour: int = 2
    window_seconds: int = 120
    cooldown_seconds: int = 1800
    asks_before_moves: bool = False
    idle_seconds: int | None = None
    wakes: bool = False
    cut_off: bool = False
    scales: bool = True
    contested: bool = False
    scheduled: ScheduledMinimum | None = None
    additions_per_hour: int | None = None
    dollars_per_hour: Decimal | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that contradict another or themselves.

        Raises:
            InvalidInput: a bound is too small.
        """
        _at_least("minReplicas", self.min_replicas, 0)
        _at_least("maxReplicas", self.max_replicas, self.min_replicas)
        _at_least("changesPerHour", self.changes_per_hour, 0)
        _at_least("reversalsPerHour", self.reversals_per_hour, 0)
        _at_least("windowSeconds", self.window_seconds, 1)
        _at_least("cooldownSeconds", self.cooldown_seconds, 0)
        if self.additions_per_hour is not None:
            _at_least("limits.additionsPerHour", self.additions_per_hour, 1)

    @property
    def awake(self) -> RebalancePolicy:
        """The policy that keeps a replica, if a request should start the first one."""
        return replace(self, min_replicas=1, cut_off=True) if self.wakes and not self.min_replicas else self

    def with_schedule(self, entries: Iterable[ScheduledMinimum], now: float, startup_seconds: float) -> RebalancePolicy:
        """Return the policy with the largest minimum of the schedule that counts now or is started now.

        It never exceeds the maximum. Nothing changes if another controller decides the number.
        """
        due = (each for each in entries if each.is_due(now, startup_seconds))
        largest = max(due, key=lambda each: (each.replicas, each.opening.is_open), default=None)
        if largest is None or not self.scales or min(largest.replicas, self.max_replicas) <= self.min_replicas:
            return self
        return replace(self, min_replicas=min(largest.replicas, self.max_replicas), scheduled=largest)

    @property
    def sleeps(self) -> bool:
        """Whether the user lets the loop take the last replica away, at times that no schedule claims."""
        return self.idle_seconds is not None

    def carries_out(self, decision: LoopDecision) -> bool:
        """Whether a change with a destination is carried out without an approval. People decide about engines."""
        asks = isinstance(decision, Move) and (self.asks_before_moves or decision.engine != "")
        return self.mode is Mode.AUTO and not asks


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise InvalidInput(f"rebalance.{field}", value, f"Use {least} or more.")
