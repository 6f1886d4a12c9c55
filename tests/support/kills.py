"""Small worlds in which the operator dies at a chosen write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from testbed.fault_proxy import Exchange
from testbed.faults import Verb
from testbed.last_writes import LastWrite
from tests.support.small_worlds import NAME, World
from tests.support.witness import Witness

EVENTS, STATUS = "events", f"inferencedeployments/{NAME}/status"

_ID = re.compile(rf"(?<=placementproposals/{NAME}-)[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a story: the n-th of its method to its path, counted from 1."""

    method: str
    path: str
    nth: int

    def __str__(self) -> str:
        return f"{self.method} {self.path} no. {self.nth}"

    @property
    def comes_always(self) -> bool:
        """Whether every run has this write.

        How many states of its pods a status goes through depends on their pace, and an event is not tried again.
        """
        return self.nth <= {STATUS: 2, EVENTS: 1}.get(self.path, self.nth)

    def as_last(self, world: World, *, applied: bool) -> LastWrite:
        """This write in a world, as the last one there."""
        path = re.escape(self.path).replace("ID", "[0-9a-f]+")
        return LastWrite(_about(world), self.method, rf"/{path}(\?|$)", self.nth, applied)


def writes_of(world: World, exchanges: Iterable[Exchange]) -> list[Write]:
    """The writes of a world as a proxy saw them, in order. Ids of proposals differ between worlds and are left out."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for exchange in exchanges:
        _, inside, rest = exchange.path.partition(_about(world))
        if inside and exchange.verb is Verb.WRITE:
            kind = exchange.method, _ID.sub("ID", rest.partition("?")[0])
            seen[kind] += 1
            found.append(Write(*kind, seen[kind]))
    return found


def _about(world: World) -> str:
    return f"/namespaces/{world.namespace}/"


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A run of a story without a kill: its writes, everything as it was in the end, and what the audit log says."""

    writes: tuple[Write, ...]
    end: dict[str, Any]
    witness: Witness

    def points(self, *, of_all: bool) -> tuple[Write, ...]:
        """The writes at which the operator is killed: all, or the first effect of the decision."""
        effect = next(write for write in self.writes if write.comes_always and write.path != STATUS)
        return self.writes if of_all else (effect,)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Method and path of the writes, each once, in the order in which they came first."""
        return list(dict.fromkeys((write.method, write.path) for write in self.writes))


@dataclass(frozen=True, slots=True)
class Doomed:
    """A world, and the write at which the operator dies there."""

    world: World
    write: Write
    last: LastWrite

    def __str__(self) -> str:
        return f"{self.world.story.name}, killed {'after' if self.last.applied else 'before'} {self.write}"

    def is_ready_to_die(self) -> bool:
        """Whether the write is held, or will not come: the story is over without it."""
        return self.last.is_held or (not self.write.comes_always and self.world.is_at_rest())
