"""The cache rules of each vLLM release. The layout itself is in :mod:`plimsoll.engines.vllm.memory.kv_cache`."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.memory.kv_cache import Packing
from plimsoll.engines.vllm.memory.laws.engine_law import Change, Law, laws_after


@dataclass(frozen=True, slots=True)
class KvLaw(Law):
    """The cache rules from ``since`` on. The defaults are those of the oldest releases.

    ``hybrid_manager`` means that windows are charged as windows. ``charges_chunks`` means the same for chunked local
    attention, unless an EAGLE head drafts. ``concurrent_batches`` is the number of steps in flight for which a window
    reserves blocks (None: one per stage and one more). ``caches_state_prefixes`` means that recurrent states are held
    twice for prefix caching. ``saves_states`` means that a third state is kept for kernels that save states during a
    prefill. ``saves_gated_delta`` means that gated delta networks have such a kernel as well, and that blocks then are
    whole :data:`GATED_DELTA_ALIGNMENT` tokens. ``reports_tokens_by_group`` means that the engine reports the blocks of
    one group of layers as its tokens; later releases report the number of full-length requests times their length.
    ``aligns_to_block`` means that a recurrent state enlarges a block that the user names to a multiple of it.
    ``given_blocks_count`` means that a number of blocks that the user names decides whether the engine starts; before,
    what it has measured decides that, whatever number it then takes. ``checks_states`` means that an engine with full
    CUDA graphs starts only where each of its sequences gets a block for its state.
    ``packing`` is how pages of different sizes share a block.
    """

    hybrid_manager: bool = False
    charges_chunks: bool = False
    concurrent_batches: int | None = 1
    caches_state_prefixes: bool = False
    saves_states: bool = True
    saves_gated_delta: bool = False
    reports_tokens_by_group: bool = False
    aligns_to_block: bool = False
    given_blocks_count: bool = False
    checks_states: bool = False
    packing: Packing = Packing.TUPLES


GATED_DELTA_ALIGNMENT = 64
"""``FLASHINFER_GDN_CHECKPOINT_ALIGNMENT`` of ``v1/attention/backends/gdn_attn.py``, 0.33."""

_V = EngineVersion

CHANGES = (
    Change(
        _V(0, 9, 1),
        "config.py: the hybrid manager; a start-up log of Gemma 3 on 0.8.4 counts every layer as full attention. "
        "vllm#40691 shows tokens of one group on 0.19",
        {"hybrid_manager": True, "reports_tokens_by_group": True},
    ),
    Change(
        _V(0, 14),
        "envs.py, read in 0.12 and 0.14: VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is on. Logs of gpt-oss and "
        "Gemma 3 on 0.10 to 0.15 close exactly with one step in flight",
        {"charges_chunks": True},
    ),
    Change(
        _V(0, 20),
        "platforms/interface.py, _align_hybrid_block_size; up to 0.19 the block was aligned to 16 tokens "
        "(model_executor/models/config.py). config/compilation.py refuses more sequences than blocks (#38270); 0.19 "
        "captures smaller graphs instead",
        {"aligns_to_block": True, "checks_states": True},
    ),
    Change(
        _V(0, 20, 1),
        "#40694 mends #40691: 0.20.0 logs tokens of one group, 0.20.1 and 0.20.2 do not; kv_cache_utils.py of 0.20.1 "
        "plans with num_gpu_blocks_override (get_kv_cache_configs), that of 0.20.0 with what was measured",
        {"reports_tokens_by_group": False, "given_blocks_count": True},
    ),
    Change(
        _V(0, 23),
        "#44454, read in 0.23: pages of DeepSeek-V4 share blocks by page size, up to 0.22 by tuples (#44376 asks for "
        "6.66 GiB so)",
        {"packing": Packing.PAGE_SIZES},
    ),
    Change(
        _V(0, 26),
        "#47728: a window reserves for two steps with asynchronous scheduling; read in 0.25 and 0.26",
        {"concurrent_batches": None},
    ),
    Change(_V(0, 27), "#48993, read in 0.27: pages share blocks densely", {"packing": Packing.DENSE}),
    Change(
        _V(0, 28),
        "#50991, read in 0.28: prefix caching is on for recurrent layers",
        {"caches_state_prefixes": True, "saves_states": False},
    ),
    Change(
        _V(0, 32),
        "MambaSpec.num_prefill_checkpoint_blocks, read in 0.32; our notes on 0.28 do not have it",
        {"saves_states": True},
    ),
    Change(
        _V(0, 33),
        "get_kv_cache_spec of QwenGatedDeltaNetAttention and Qwen4ExpPLELayer, Platform._align_hybrid_block_size, read "
        "in 0.33",
        {"saves_gated_delta": True},
    ),
)
"""Every change of behaviour, newest last."""


_LAWS = laws_after(CHANGES, KvLaw())
"""The oldest rules, and the rules after each change."""


def kv_law_for(version: EngineVersion) -> KvLaw:
    """Return the rules of the newest release that is not newer than ``version``; for older versions, the oldest."""
    known = [law for law in _LAWS if law.since <= version]
    return known[-1] if known else _LAWS[0]
