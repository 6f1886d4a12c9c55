"""The placements where an engine reported less KV cache than the load needs there."""

from __future__ import annotations

from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.serving import ObservedCapacity, Request
from plimsoll.placement.feasibility import sized
from plimsoll.placement.memo import Memo


def too_small(request: Request, fleet: Fleet, memo: Memo | None = None) -> tuple[ObservedCapacity, ...]:
    """Return the observed placements of a request that hold less than it needs, sorted.

    The need depends on the GPU type where the engine pools, because its step does. A placement that cannot be judged
    any more counts, because nothing shows that it holds enough: its type has left the fleet, or has no memory law now.
    """
    found = (seen for seen in request.observed if _is_too_small(request, seen, fleet, memo))
    return tuple(sorted(found, key=lambda seen: (seen.gpu_type, seen.split)))


def _is_too_small(request: Request, seen: ObservedCapacity, fleet: Fleet, memo: Memo | None) -> bool:
    gpu = fleet.named(seen.gpu_type)
    if gpu is None:
        return True
    try:
        _, figures = sized(request, gpu, seen.split, memo)
    except PlimsollError:
        return True
    return seen.kv_tokens < figures.kv_needed_tokens
