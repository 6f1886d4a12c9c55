"""The cache rules of each vLLM release. The layout itself is in :mod:`plimsoll.engines.vllm.memory.kv_cache`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.vllm.memory.kv_cache import Packing


@dataclass(frozen=True, slots=True)
class KvLaw:
    """The cache rules from ``since`` on.

    ``hybrid_manager`` means that windows are charged as windows. ``charges_chunks`` means the same for chunked local
    attention, unless an EAGLE head drafts. ``concurrent_batches`` is the number of steps in flight for which a window
    reserves blocks (None: one per stage and one more). ``caches_state_prefixes`` means that recurrent states are held
    twice for prefix caching. ``saves_states`` means that a third state is kept for kernels that save states during a
    prefill. ``tells_tokens_by_group`` means that the engine reports the blocks of one group of layers as its tokens;
    later releases report the number of full-length requests times their length. ``packing`` is how pages of different
    sizes share a block.
    """

    since: EngineVersion
    hybrid_manager: bool = True
    charges_chunks: bool = True
    concurrent_batches: int | None = None
    caches_state_prefixes: bool = True
    saves_states: bool = True
    tells_tokens_by_group: bool = False
    packing: Packing = Packing.DENSE


_TUPLES = KvLaw(
    EngineVersion(0, 8),
    hybrid_manager=False,
    charges_chunks=False,
    concurrent_batches=1,
    caches_state_prefixes=False,
    packing=Packing.TUPLES,
)

_HYBRID = replace(_TUPLES, since=EngineVersion(0, 9, 1), hybrid_manager=True, tells_tokens_by_group=True)
_CHUNKED = replace(_HYBRID, since=EngineVersion(0, 14), charges_chunks=True)

_LAWS = (
    _TUPLES,
    _HYBRID,
    _CHUNKED,
    replace(_CHUNKED, since=EngineVersion(0, 20, 1), tells_tokens_by_group=False),
    replace(_CHUNKED, since=EngineVersion(0, 23), tells_tokens_by_group=False, packing=Packing.PAGE_SIZES),
    KvLaw(EngineVersion(0, 26), caches_state_prefixes=False, packing=Packing.PAGE_SIZES),
    KvLaw(EngineVersion(0, 27), caches_state_prefixes=False),
    KvLaw(EngineVersion(0, 28), saves_states=False),
    KvLaw(EngineVersion(0, 32)),
)
"""Newest last.

Sources: a start-up log of Gemma 3 on 0.8.4 counts every layer as full attention, 0.9.1 has the hybrid manager (its
``config.py``), for chunked local attention since 0.14 (``envs.py``:
VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is on; read in 0.12 and 0.14); logs of gpt-oss and Gemma 3 on 0.10
to 0.15 close exactly with one step in flight; vllm#40691 shows tokens of one group on 0.19 and #40694 mends it (logs:
0.20.0 tells them, 0.20.1 and 0.20.2 do not); #47728 (0.26) reserves for two steps with asynchronous scheduling;
#50991 (0.28) turns prefix caching on for recurrent layers; pages of DeepSeek-V4 shared blocks by tuples up to 0.22
(#44376 asks for 6.66 GiB so), by page size since #44454, and densely since #48993: read in the sources of 0.23, 0.25,
0.26, 0.27 and 0.28; 0.32's ``MambaSpec.num_prefill_checkpoint_blocks`` was read there and is not in our notes on
0.28.
"""


@lru_cache(maxsize=64)
def kv_law_for(version: EngineVersion) -> KvLaw:
    """Return the rules of the newest release that is not newer than ``version``; for older versions, the oldest."""
    known = [law for law in _LAWS if law.since <= version]
    return known[-1] if known else _LAWS[0]
