"""Troubles within an engine: ranks that share its requests unevenly, and requests that it cannot schedule.

Find out whether the data-parallel ranks of a pod share its requests unevenly.
The mean use of a pod hides it: one rank takes the KV cache from its requests while the caches of the others are empty.

Find out whether an engine cannot schedule its requests although much of its KV cache is free.
Models with a recurrent state (Mamba, linear attention) keep that state in pages of the same cache, and a page of
attention is then as large as one of the state. So a short request takes as many pages as a long one, and a request can
need more pages at the same moment than there will ever be. The engine begins it again and again, and the requests
behind it wait. It counts no preemption, and the share of the cache in use looks harmless (vLLM issues 52520, 54458).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import to_percent
from plimsoll.rebalance.law.wishes import LONG_QUEUE
from plimsoll.rebalance.signals.traffic import PodLoad

FULL_RANK = 0.9
"""The use of a rank's KV cache from which it has no room for another long request. Requests that run still grow."""

ROOM_ELSEWHERE = 0.6
"""The mean use of the other ranks up to which a full rank is an imbalance: what is too much for one of them has room
there. Chance alone makes smaller differences, because engines share requests out by their number."""


def uneven_ranks(loads: Iterable[PodLoad]) -> Numbers:
    """Return the figures of the fullest rank that others of its pod could relieve; empty if there is none.

    ``rank`` counts from 0 in the order of the ranks. The means are those of the other ranks.
    """
    found = [(load, rank) for load in loads if (rank := _full_rank(load)) is not None]
    if not found:
        return ()
    load, rank = max(found, key=lambda each: each[0].rank_uses[each[1]])
    return (
        ("pod", load.pod),
        ("rank", rank),
        ("rank_percent", to_percent(load.rank_uses[rank])),
        ("mean_percent", to_percent(_mean_of_others(load.rank_uses, rank))),
        *_queues(load, rank),
    )


def _queues(load: PodLoad, rank: int) -> Numbers:
    if not _are_known(load):
        return ()
    others = _mean_of_others(load.rank_queues, rank)
    return ("rank_waiting", round(load.rank_queues[rank])), ("mean_waiting", round(others))


def _full_rank(load: PodLoad) -> int | None:
    """Return the rank whose cache is full, or else the one on which requests wait, while the others have room."""
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
    return len(load.rank_queues) == len(load.rank_uses)


def _mean_of_others(figures: Sequence[float], rank: int) -> float:
    return fmean((*figures[:rank], *figures[rank + 1 :]))


FULL_CACHE = 0.95
"""The use of the KV cache from which requests wait for it in the usual way."""


def page_livelock(loads: Iterable[PodLoad], *, has_states: bool) -> Numbers:
    """Return the figures of the stalled pod with the longest queue; empty if the cache or the model explains it.

    Args:
        loads: the pods. One is stalled if requests have waited for some scrapes and no token was generated meanwhile.
        has_states: whether the model keeps a recurrent state in the KV cache.
    """
    found = [load for load in loads if load.is_stalled and load.kv_use < FULL_CACHE]
    if not has_states or not found:
        return ()
    longest = max(found, key=lambda load: load.waiting)
    return (
        ("pod", longest.pod),
        ("pod_waiting", round(longest.waiting)),
        ("pod_running", round(longest.running)),
        ("pod_percent", to_percent(longest.kv_use)),
    )
