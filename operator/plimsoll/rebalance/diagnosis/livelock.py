"""Find out whether an engine cannot schedule its requests although much of its KV cache is free.

Models with a recurrent state (Mamba, linear attention) keep that state in pages of the same cache, and a page of
attention is then as large as one of the state. So a short request takes as many pages as a long one, and a request can
need more pages at the same moment than there will ever be. The engine begins it again and again, and the requests
behind it wait. It counts no preemption, and the share of the cache in use looks harmless (vLLM issues 52520, 54458).
"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.domain.reasons import Numbers
from plimsoll.rebalance.signals.traffic import PodLoad

FULL_CACHE = 0.95
"""The use of the KV cache from which requests wait for it in the usual way."""

_PERCENT = 100


def page_livelock(loads: Iterable[PodLoad], *, has_states: bool) -> Numbers:
    """Return the figures of the stalled pod with the longest queue; empty where the cache or the model explains it.

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
        ("pod_percent", round(_PERCENT * longest.kv_use)),
    )
