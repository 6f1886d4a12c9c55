"""Find out whether the data-parallel ranks of a pod share its requests unevenly.

The mean use of a pod hides it: one rank takes the KV cache from its requests while the caches of the others are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from plimsoll.domain.reasons import Numbers
from plimsoll.rebalance.traffic import PodLoad

FULL_RANK = 0.9
"""The use of a rank's KV cache from which it has no room for another long request. Requests that run still grow."""

ROOM_ELSEWHERE = 0.6
"""The mean use of the other ranks up to which a full rank is an imbalance: what is too much for one of them has room
there. Chance alone makes smaller differences, because engines share requests out by their number."""

_PERCENT = 100


def uneven_ranks(loads: Iterable[PodLoad]) -> Numbers:
    """Return the figures of the fullest rank that others of its pod could relieve; empty where there is none.

    ``rank`` counts from 0 in the order of the ranks. ``mean_percent`` is the mean use of the other ranks.
    """
    found = [(load, rank) for load in loads if (rank := _full_rank(load.rank_uses)) is not None]
    if not found:
        return ()
    load, rank = max(found, key=lambda each: each[0].rank_uses[each[1]])
    return (
        ("pod", load.pod),
        ("rank", rank),
        ("rank_percent", round(_PERCENT * load.rank_uses[rank])),
        ("mean_percent", round(_PERCENT * _mean_of_others(load.rank_uses, rank))),
    )


def _full_rank(uses: Sequence[float]) -> int | None:
    """Return the fullest rank, where it is full and the others have room."""
    if len(uses) <= 1:
        return None
    rank = max(range(len(uses)), key=lambda each: uses[each])
    return rank if uses[rank] >= FULL_RANK and _mean_of_others(uses, rank) <= ROOM_ELSEWHERE else None


def _mean_of_others(uses: Sequence[float], rank: int) -> float:
    return fmean((*uses[:rank], *uses[rank + 1 :]))
