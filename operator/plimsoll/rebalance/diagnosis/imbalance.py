"""Find out whether the data-parallel ranks of a pod share its requests unevenly.

The mean use of a pod hides it: one rank takes the KV cache from its requests while the caches of the others are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from plimsoll.domain.reasons import Numbers
from plimsoll.rebalance.law.wishes import LONG_QUEUE
from plimsoll.rebalance.signals.traffic import PodLoad

FULL_RANK = 0.9
"""The use of a rank's KV cache from which it has no room for another long request. Requests that run still grow."""

ROOM_ELSEWHERE = 0.6
"""The mean use of the other ranks up to which a full rank is an imbalance: what is too much for one of them has room
there. Chance alone makes smaller differences, because engines share requests out by their number."""

_PERCENT = 100


def uneven_ranks(loads: Iterable[PodLoad]) -> Numbers:
    """Return the figures of the fullest rank that others of its pod could relieve; empty where there is none.

    ``rank`` counts from 0 in the order of the ranks. The means are those of the other ranks.
    """
    found = [(load, rank) for load in loads if (rank := _full_rank(load)) is not None]
    if not found:
        return ()
    load, rank = max(found, key=lambda each: each[0].rank_uses[each[1]])
    return (
        ("pod", load.pod),
        ("rank", rank),
        ("rank_percent", round(_PERCENT * load.rank_uses[rank])),
        ("mean_percent", round(_PERCENT * _mean_of_others(load.rank_uses, rank))),
        *_queues(load, rank),
    )


def _queues(load: PodLoad, rank: int) -> Numbers:
    if not _are_known(load):
        return ()
    others = _mean_of_others(load.rank_queues, rank)
    return ("rank_waiting", round(load.rank_queues[rank])), ("mean_waiting", round(others))


def _full_rank(load: PodLoad) -> int | None:
    """Return the rank whose cache is full, or else where requests wait, while the others have room."""
    uses, queues = load.rank_uses, load.rank_queues
    if len(uses) <= 1:
        return None
    fullest = max(range(len(uses)), key=lambda each: uses[each])
    if uses[fullest] >= FULL_RANK and _mean_of_others(uses, fullest) <= ROOM_ELSEWHERE:
        return fullest
    if not _are_known(load):
        return None
    longest = max(range(len(queues)), key=lambda each: queues[each])
    return longest if queues[longest] >= LONG_QUEUE and _mean_of_others(queues, longest) < 1 else None


def _are_known(load: PodLoad) -> bool:
    """Whether each rank's queue is known as well."""
    return len(load.rank_queues) == len(load.rank_uses)


def _mean_of_others(figures: Sequence[float], rank: int) -> float:
    return fmean((*figures[:rank], *figures[rank + 1 :]))
