"""The policy of the live loop: every bound for its decisions, with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.errors import InvalidInput

STARTUP_MARGIN = 1.25
"""A cool-down lasts at least this many start-ups. A loop that decides again before its last replica serves still sees
the old pressure and adds another replica. The extra quarter covers start-ups slower than the observed one."""


class Mode(StrEnum):
    """The use of a decision. RECOMMEND and AUTO make the same decision; the caller acts on it only in AUTO."""

    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class RebalancePolicy:
    """The bounds of the live loop. The defaults are cautious choices, not measurements, unless a source is named.

    They are the defaults of ``spec.rebalancing``; a test checks that they stay equal.

    Args:
        mode: whether the loop makes no decisions, only shows them, or also carries them out.
        min_replicas: fewest replicas, at least 1; this loop does not scale to zero.
        max_replicas: most replicas.
        changes_per_hour: most changes in any 60 minutes. 6: a wrong loop costs at most six starts an hour.
        window_seconds: how long pressure or slack must last. 120: two minutes are longer than most bursts, and hold
            four scrapes at the 30 s that is common for pod monitors.
        cooldown_seconds: shortest time between two changes; see :meth:`effective_cooldown_seconds`. 300: the loop sees
            the effect of a change for longer than one window.
        max_age_seconds: oldest usable sample, and longest gap in the window. 60: two scrapes of 30 s.
        high_percent: demand over held KV tokens that is too high. 80: the KV-cache saturation bound of the llm-d
            autoscaler and of the Gateway API inference extension's endpoint picker.
        low_percent: demand over *remaining* KV tokens that makes a replica superfluous. 50: after a removal the
            remaining replicas are at half, 30 points below the bound that would add the replica again.
        queue_per_replica: waiting requests per replica that are too many although the KV cache has room (the engine is
            bound by compute or by its batch size). 5: the queue bound of the same two projects.
        ceiling_seconds: how long the throughput at which there were too few replicas forbids a removal. 86400: traffic
            changes with time, and one forgotten ceiling a day costs at most one needless removal a day.

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
        """Refuse bounds with which the loop could oscillate or divide by zero."""
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
        """Return the seconds that must pass between two changes.

        This is the largest of three times: the configured cool-down, :data:`STARTUP_MARGIN` observed start-ups (None:
        none observed yet), and the window. Until a full window has passed, it holds samples from before the change,
        when the same load was spread over another number of replicas.
        """
        startup = STARTUP_MARGIN * startup_seconds if startup_seconds is not None else 0.0
        return max(float(self.cooldown_seconds), startup, float(self.window_seconds))


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise InvalidInput(f"rebalance.{field}", value, f"Use {least} or more.")
