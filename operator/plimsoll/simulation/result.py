"""The answer of a simulation: moments, events, and totals. Times are in seconds since its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Happening(StrEnum):
    """The kinds of events."""

    CACHE_FULL = "CacheFull"
    """A request waits because a replica's KV cache has no room for it."""
    SLOTS_FULL = "BerthsFull"
    """A request waits because a replica runs as many as it may."""
    PREEMPTION = "Preemption"
    """Running requests lose their KV cache to others."""
    GAVE_UP = "GaveUp"
    """Clients lose patience before their first token."""
    LOST = "Lost"
    """A removed replica ends before its requests are done."""
    DECISION = "Decision"
    """The policy changes something."""
    PROPOSAL = "Proposal"
    """The policy would change something, and may only say so."""
    HELD_BACK = "HeldBack"
    """The policy would change something, or sees something wrong, and changes nothing."""
    SERVES = "Serves"
    """A new replica serves."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that begins at a moment. ``reason`` is the public reason of a decision, else empty."""

    at: float
    kind: Happening
    sentence: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle and the 95th percentile of times in seconds."""

    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class Moment:
    """The state at one moment.

    Attributes:
        at: seconds since the beginning.
        held_tokens: KV tokens of the blocks that running requests hold, over all replicas that serve.
        hold_tokens: the KV cache of these replicas.
        fullest: the largest share of a replica's KV cache in use, 0 to 1.
        running: requests that hold blocks.
        berths: the most requests that may run at the same time.
        waiting: requests in the queues of engines, or at the gateway.
        preemptions: since the moment before.
        gave_up: clients that lost patience since the moment before.
        wanted: replicas that are wanted.
        ready: replicas that serve. Removed ones that finish their requests are not among them.
        starting: replicas that start.
        ttft: times to the first token of the requests that got it since the moment before; None where there is none.
        tpot: mean times of the later tokens of the requests that ended since then; None where there is none.
    """

    at: float
    held_tokens: int
    hold_tokens: int
    fullest: float
    running: int
    berths: int
    waiting: int
    preemptions: int
    gave_up: int
    wanted: int
    ready: int
    starting: int
    ttft: Spread | None = None
    tpot: Spread | None = None

    @property
    def kv_cache_in_use(self) -> float:
        """The share of the KV cache in use, 0 to 1."""
        return self.held_tokens / self.hold_tokens if self.hold_tokens else 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """The requests of the whole run, and what became of them; those that are under way at the end are the rest.

    ``replica_seconds`` counts replicas while they hold their GPUs.
    """

    arrived: int
    served: int
    gave_up: int
    lost: int
    under_way: int
    preemptions: int
    replica_seconds: float
    ttft: Spread | None
    tpot: Spread | None


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of a simulation run; ``summary`` is its first sentence."""

    summary: str
    moments: tuple[Moment, ...]
    events: tuple[Event, ...]
    totals: Totals


def evenly(items: Sequence[T], most: int) -> Sequence[T]:
    """Return at most so many of a sequence, evenly apart; the first and the last are always among them."""
    if len(items) <= most:
        return items
    last = len(items) - 1
    return [items[round(number * last / (most - 1))] for number in range(most)]
