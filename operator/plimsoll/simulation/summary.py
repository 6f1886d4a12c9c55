"""The first sentence of an answer: what fills when, what the policy does, and whether anybody had to give up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plimsoll.simulation.result import Event, Happening, Moment, Totals
from plimsoll.simulation.workload import Workload

_MINUTE = 60


def summary_of(workload: Workload, moments: Sequence[Moment], events: Sequence[Event], totals: Totals) -> str:
    """Return the sentence."""
    parts = [_filling(workload, moments, events), _policy(moments, events), *_losses(totals)]
    return f"{'; '.join(parts)}."


def _filling(workload: Workload, moments: Sequence[Moment], events: Sequence[Event]) -> str:
    first = {each.kind: each.at for each in reversed(events)}
    rate = f"{workload.requests_per_second:g} requests/s"
    full = [
        f"{name} after {minutes(first[kind])}"
        for kind, name in ((Happening.CACHE_FULL, "the KV cache fills"), (Happening.SLOTS_FULL, "the berths fill"))
        if kind in first
    ]
    if full:
        return f"At {rate} {' and '.join(full)}"
    used = max((each.kv_cache_in_use for each in moments), default=0.0)
    berths = max((each.running / each.berths for each in moments if each.berths), default=0.0)
    return f"At {rate} neither the KV cache (at most {used:.0%} used) nor the berths (at most {berths:.0%}) fill"


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


def _losses(totals: Totals) -> Iterator[str]:
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
