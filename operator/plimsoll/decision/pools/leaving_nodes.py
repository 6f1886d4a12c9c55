"""Since when nodes are about to go, as this process has seen it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.facts.cluster.taints import leaving_nodes
from plimsoll.placement.extra_pods import REPLACEMENT_SECONDS


@dataclass(slots=True)
class LeavingNodes:
    """The nodes that go soon, each with the time when this process saw it first, in POSIX seconds.

    Another process begins to count anew: a node that stays cordoned has replacements for a little longer then.
    """

    since: dict[str, float] = field(default_factory=dict)

    def look(self, fleet: Fleet, now: float) -> frozenset[str]:
        """Return the nodes that pods are replaced for. One that does not go after a time counts no longer."""
        self.since = {name: min(now, self.since.get(name, now)) for name in leaving_nodes(fleet)}
        return frozenset(name for name, at in self.since.items() if now - at < REPLACEMENT_SECONDS)

    def ends(self) -> Iterator[float]:
        """Yield when a node counts no longer, in POSIX seconds."""
        return (at + REPLACEMENT_SECONDS for at in self.since.values())
