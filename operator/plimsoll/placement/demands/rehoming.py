"""Re-homing: replicas leave a place, or one of its nodes, if their pods cannot run. It is recorded and limited."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.public_words import LiveTrouble

REMEMBERED_SECONDS = 3600
"""How long replicas do not return to a place that they left. The cause that kept pods off its nodes rarely ends
sooner."""

MAX_REHOMINGS_PER_HOUR = 4
"""The most places that one deployment may leave in any hour. More moves would mean that planner and scheduler work
against each other."""

MOST_AVOIDED = 16
"""The most nodes that the pods of one pool stay off."""

OF_ONE_REPLICA = (LiveTrouble.REPLICA_SLOW.value, LiveTrouble.REPLICA_SILENT.value)
"""Reasons to leave a node where pods can run: one replica there was not like the others."""

MOST_REMEMBERED = 20
"""The most entries that a status holds."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A GPU type and split that replicas leave because their pods cannot run there, in the pass that decides it.

    A plan has no clock, so there is no time. ``reason`` is the cause in one word. With ``node`` they leave only that
    node, and stay on the others.
    """

    gpu_type: str
    split: Split
    reason: str = ""
    node: str = ""

    @property
    def place(self) -> tuple[str, Split]:
        """The place to which replicas do not return."""
        return self.gpu_type, self.split

    @property
    def is_of_one_replica(self) -> bool:
        """Whether pods can run on the node, and only one replica there was slow or silent.

        Pods' templates do not name such a node, because a template that names it keeps pods off it for longer than the
        hour. It is used if no other node has room.
        """
        return bool(self.node) and self.reason in OF_ONE_REPLICA


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehoming(Departure):
    """The same as the status keeps it: ``at`` is when replicas last left the place, in POSIX seconds.

    ``used_again``: the node of one slow or silent replica takes replicas again, because no other one had room.
    """

    at: float
    used_again: bool = False

    @property
    def is_shunned(self) -> bool:
        """Whether the plan keeps off a node only because of one replica."""
        return self.is_of_one_replica and not self.used_again

    @property
    def until(self) -> float:
        """When replicas may return, in POSIX seconds."""
        return self.at + REMEMBERED_SECONDS


def of_last_hour(rehomings: Iterable[Rehoming], now: float) -> tuple[Rehoming, ...]:
    """Return the entries of the last hour. An entry from the future (a clock that was set back) gets the time now."""
    kept = (
        each if each.at <= now else replace(each, at=now) for each in rehomings if now - each.at < REMEMBERED_SECONDS
    )
    return tuple(sorted(kept, key=lambda each: (each.at, *each.place, each.node)))


def remembered(earlier: Iterable[Rehoming], departures: Sequence[Departure], now: float) -> tuple[Rehoming, ...]:
    """Return the entries to store: one for each place and node, with the time when replicas last left it."""
    latest = {(*each.place, each.node): each for each in of_last_hour(earlier, now)}
    for each in departures:
        latest[*each.place, each.node] = Rehoming(each.gpu_type, each.split, each.reason, each.node, at=now)
    return tuple(sorted(latest.values(), key=lambda each: (each.at, *each.place, each.node)))[-MOST_REMEMBERED:]


def is_spent(left: Sequence[Departure], leaving: tuple[str, Split], node: str = "") -> bool:
    """Whether the deployment has left too many places to leave one more, or one more ``node``.

    More replicas that leave the same place do not count again. No replica returns there within the hour, so each
    replica leaves it only once. Nodes of one slow or silent replica have a bound of their own in the live loop.
    """
    places = {(*each.place, each.node) for each in left if not each.is_of_one_replica}
    return (*leaving, node) not in places and len(places) >= MAX_REHOMINGS_PER_HOUR


def still_open(verdicts: Iterable[Option | Rejection], closed: Collection[tuple[str, Split]]) -> list[Option]:
    """Return the options whose places are not closed."""
    options = (each for each in verdicts if isinstance(each, Option))
    return [each for each in options if not is_closed(closed, each.gpu.name, each.split)]


def is_closed(places: Iterable[tuple[str, Split]], gpu_type: str, split: Split) -> bool:
    """Whether a place is closed. It is also closed for pods with more GPUs, which are harder to bind."""
    return any(kind == gpu_type and left.shape.gpus_per_pod <= split.shape.gpus_per_pod for kind, left in places)
