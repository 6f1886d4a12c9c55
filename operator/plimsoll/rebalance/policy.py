"""How bold the live loop may be: every bound it decides by, with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.errors import InvalidInput

STARTUP_MARGIN = 1.25
"""A cool-down lasts at least this many start-ups. A loop that looks again before its last replica serves sees the old
pressure and adds another; the quarter on top is for start-ups slower than the one observed."""


class Mode(StrEnum):
    """What becomes of a decision: RECOMMEND and AUTO make the same one, and the caller acts on it only in AUTO."""

    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class RebalancePolicy:
    """The bounds of the live loop. The defaults are cautious choices, not measurements, unless a source is named.

    They are the defaults of ``spec.rebalancing``; a test keeps them so.

    Args:
        mode: whether decisions are made at all, shown, or carried out.
        min_replicas: fewest replicas, at least 1; scaling to zero is not this loop's business.
        max_replicas: most replicas.
        changes_per_hour: most changes in any 60 minutes. 6: a loop that is wrong costs at most six starts an hour.
        window_seconds: how long pressure or slack must last. 120: two minutes outlast most bursts, and hold four
            scrapes at the 30 s that is common for pod monitors.
        cooldown_seconds: shortest time between two changes; see :meth:`effective_cooldown_seconds`. 300: it is seen
            for longer than a window what a change has done.
        max_age_seconds: oldest sample to decide by, and longest hole in the window. 60: two scrapes of 30 s.
        high_percent: demand over held KV tokens that is too much. 80: the KV-cache saturation bound of the llm-d
            autoscaler and of the Gateway API inference extension's endpoint picker.
        low_percent: demand over *remaining* KV tokens that makes a replica superfluous. 50: after a removal the rest is
            at half, 30 points below what would add it again.
        queue_per_replica: waiting requests per replica that are too many although the KV cache has room (the engine is
            bound by compute or by its batch size). 5: the queue bound of the same two peers.
        ceiling_seconds: how long a throughput at which replicas were too few forbids removing one. 86400: traffic
            changes its nature in time, and forgetting once a day costs at most one needless removal a day.

    Raises:
        InvalidInput: a bound contradicts another or itself.
    """

    mode: Mode = Mode.RECOMMEND
    min_replicas: int = 1
    max_replicas: int = 1
    changes_per_hour: int = 6
    window_seconds: int = 120
    cooldown_seconds: int = 300
    max_age_seconds: int = 60
    high_percent: int = 80
    low_percent: int = 50
    queue_per_replica: int = 5
    ceiling_seconds: int = 86_400

    def __post_init__(self) -> None:
        """Refuse bounds under which the loop could oscillate or divide by zero."""
        _at_least("minReplicas", self.min_replicas, 1)
        _at_least("maxReplicas", self.max_replicas, self.min_replicas)
        _at_least("changesPerHour", self.changes_per_hour, 0)
        _at_least("maxAgeSeconds", self.max_age_seconds, 1)
        _at_least("windowSeconds", self.window_seconds, self.max_age_seconds)
        _at_least("cooldownSeconds", self.cooldown_seconds, 0)
        _at_least("lowPercent", self.low_percent, 1)
        _at_least("highPercent", self.high_percent, self.low_percent + 1)
        _at_least("queuePerReplica", self.queue_per_replica, 1)
        _at_least("ceilingSeconds", self.ceiling_seconds, 0)

    def effective_cooldown_seconds(self, startup_seconds: float | None) -> float:
        """Seconds that must pass between two changes.

        The largest of the configured cool-down, :data:`STARTUP_MARGIN` start-ups as observed (None: none observed yet),
        and the window: until the window has passed it still holds samples from before the change, when the same load
        was spread over another number of replicas.
        """
        startup = STARTUP_MARGIN * startup_seconds if startup_seconds is not None else 0.0
        return max(float(self.cooldown_seconds), startup, float(self.window_seconds))


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise InvalidInput(f"rebalance.{field}", value, f"Use {least} or more.")
