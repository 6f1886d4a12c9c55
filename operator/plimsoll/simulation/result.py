"""The answer of a simulation: moments, events, and totals. Times are in seconds since its beginning.

The first sentence of an answer: what fills when, what the policy does, and whether anybody had to give up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from plimsoll.simulation.workload import Workload

T = TypeVar("T")


class Happening(StrEnum):
    """The kinds of events."""

    CACHE_FULL = "CacheFull"
    """A request waits because a replica's KV cache has no room for it."""
    SLOTS_FULL = "SequenceSlotsFull"
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
class TimePercentiles:
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
        sequence_slots: the most requests that may run at the same time.
        waiting: requests in the queues of engines, or at the gateway.
        preemptions: since the moment before.
        gave_up: clients that lost patience since the moment before.
        wanted: replicas that are wanted.
        ready: replicas that serve. Removed ones that finish their requests are not among them.
        starting: replicas that start.
        ttft: times to the first token of the requests that got it since the moment before; None if there is none.
        tpot: mean times of the later tokens of the requests that ended since then; None if there is none.
    """

    at: float
    held_tokens: int
    hold_tokens: int
    fullest: float
    running: int
    sequence_slots: int
    waiting: int
    preemptions: int
    gave_up: int
    wanted: int
    ready: int
    starting: int
    ttft: TimePercentiles | None = None
    tpot: TimePercentiles | None = None

    @property
    def kv_cache_in_use(self) -> float:
        """The share of the KV cache in use, 0 to 1."""
        return self.held_tokens / self.hold_tokens if self.hold_tokens else 0.0


@dataclass(frozen=True, slots=True)
class RunTotals:
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
    ttft: TimePercentiles | None
    tpot: TimePercentiles | None


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of a simulation run; ``summary`` is its first sentence."""

    summary: str
    moments: tuple[Moment, ...]
    events: tuple[Event, ...]
    totals: RunTotals


def evenly(items: Sequence[T], most: int) -> Sequence[T]:
    """Return at most so many of a sequence, evenly apart; the first and the last are always among them."""
    if len(items) <= most:
        return items
    last = len(items) - 1
    return [items[round(number * last / (most - 1))] for number in range(most)]


_MINUTE = 60


def summary_of(workload: Workload, moments: Sequence[Moment], events: Sequence[Event], totals: RunTotals) -> str:
    """Return the sentence."""
    parts = [_filling(workload, moments, events), _policy(moments, events), *_losses(totals)]
    return f"{'; '.join(parts)}."


def _filling(workload: Workload, moments: Sequence[Moment], events: Sequence[Event]) -> str:
    first = {each.kind: each.at for each in reversed(events)}
    rate = f"{workload.requests_per_second:g} requests/s"
    full = [
        f"{name} after {minutes(first[kind])}"
        for kind, name in (
            (Happening.CACHE_FULL, "the KV cache fills"),
            (Happening.SLOTS_FULL, "the sequence slots fill"),
        )
        if kind in first
    ]
    if full:
        return f"At {rate} {' and '.join(full)}"
    used = max((each.kv_cache_in_use for each in moments), default=0.0)
    slots = max((each.running / each.sequence_slots for each in moments if each.sequence_slots), default=0.0)
    return f"At {rate} neither the KV cache (at most {used:.0%} used) nor the sequence slots (at most {slots:.0%}) fill"


def _policy(moments: Sequence[Moment], events: Sequence[Event]) -> str:
    made = [each for each in events if each.kind is Happening.DECISION]
    if made:
        wanted = [each.wanted for each in moments]
        times = "once" if len(made) == 1 else f"{len(made)} times"
        return f"the policy acts {times}, and {_range(wanted)}"
    if any(each.kind is Happening.PROPOSAL for each in events):
        return "the policy only proposes changes"
    held = next((each.reason for each in events if each.kind is Happening.HELD_BACK), None)
    return "the policy changes nothing" if held is None else f"the policy changes nothing ({held})"


def _range(wanted: Sequence[int]) -> str:
    first, most, least, last = wanted[0], max(wanted), min(wanted), wanted[-1]
    if most == least:
        return f"the number of replicas stays {first:,}"
    between = f", at most {most:,}" if most > max(first, last) else ""
    return f"the replicas go from {first:,} to {last:,}{between}"


def _losses(totals: RunTotals) -> Iterator[str]:
    if totals.gave_up:
        yield f"{totals.gave_up:,} of {totals.arrived:,} requests get no answer in time"
    if totals.lost:
        yield f"{totals.lost:,} are lost with removed replicas"


def minutes(seconds: float) -> str:
    """Return a time in words: seconds below two minutes, else minutes."""
    return f"{seconds:.0f} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.0f} min"


def clock(seconds: float) -> str:
    """Return the virtual time as minutes and seconds."""
    whole = round(seconds)
    return f"{whole // _MINUTE:02d}:{whole % _MINUTE:02d}"
