"""Recurrent states: what a request holds however long it is, and the blocks that attention gets beside them."""

from __future__ import annotations

from functools import partial

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, LatentCache, StateCache, StateKind, StatePart
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, kv_layout
from plimsoll.engines.vllm.memory.kv_cache.kv_law import kv_law_for
from tests.memory.sums import max_concurrency
from tests.support.tables import every_case

Caches = tuple[tuple[CacheSpec, int], ...]


def gated_delta(k_heads: int, v_heads: int, *, state_bytes: int | None = None, dim: int = 128) -> StateCache:
    """Three columns of convolution, and a state matrix for each value head."""
    convolution = (StatePart(2 * k_heads, 3 * dim, None, dim), StatePart(v_heads, 3 * dim, None, dim))
    return StateCache(StateKind.GATED_DELTA, (convolution, (StatePart(v_heads, dim * dim, state_bytes),)))


KIMI_DELTA = StateCache(
    StateKind.KIMI_DELTA, ((StatePart(3 * 32, 3 * 128, None, 128),), (StatePart(32, 128 * 128, 4),))
)

QWEN3_NEXT = ((AttentionCache(2, 256, 256), 12), (gated_delta(16, 32), 36))
QWEN3_5_27B = ((AttentionCache(4, 256, 256), 16), (gated_delta(16, 48, state_bytes=4), 48))
QWEN3_5_9B = ((AttentionCache(4, 256, 256), 8), (gated_delta(16, 32, state_bytes=4), 24))
KIMI_LINEAR = ((LatentCache(512, 64), 7), (KIMI_DELTA, 20))


def layout(caches: Caches, degree: int = 1, *, prefix_caching: bool = True, speculative_tokens: int = 0) -> KvLayout:
    return kv_layout(
        caches,
        KvPrecision.BF16,
        Split(degree),
        batched_tokens=8192,
        prefix_caching=prefix_caching,
        speculative_tokens=speculative_tokens,
    )


@pytest.mark.parametrize(
    ("caches", "degree", "block_tokens"),
    [
        pytest.param(QWEN3_NEXT, 1, 544, id="qwen3-next"),
        pytest.param(QWEN3_NEXT, 2, 544, id="qwen3-next-tp2"),
        pytest.param(QWEN3_5_27B, 4, 784, id="qwen3.5-27b-tp4"),
        pytest.param(KIMI_LINEAR, 2, 1024, id="kimi-linear-tp2"),
    ],
)
def test_attention_blocks_grow_until_a_state_fits_in_a_page(caches: Caches, degree: int, block_tokens: int) -> None:
    """544 and 784 are named in vLLM's ``rocm_attn.py``; latent attention goes in steps of 128."""
    assert layout(caches, degree).block_tokens == block_tokens


@pytest.mark.parametrize(
    ("named", "aligns", "block_tokens"),
    [
        pytest.param(None, True, 544, id="nobody-names-a-block"),
        pytest.param(32, True, 544, id="32-divides-it"),
        pytest.param(48, True, 576, id="whole-blocks-of-48"),
        pytest.param(256, True, 768, id="whole-blocks-of-256"),
        pytest.param(1024, True, 1024, id="more-than-enough"),
        pytest.param(256, False, 544, id="up-to-0.19-in-steps-of-16"),
        pytest.param(1024, False, 1024, id="up-to-0.19-more-than-enough"),
    ],
)
def test_a_block_that_the_user_names_grows_in_its_own_steps(
    named: int | None,
    aligns: bool,  # noqa: FBT001 - a row of a table
    block_tokens: int,
) -> None:
    """``_align_hybrid_block_size`` of 0.20 to 0.33; ``verify_and_update_config`` of 0.15 to 0.19."""
    asked = partial(kv_layout, QWEN3_NEXT, KvPrecision.BF16, Split(1), batched_tokens=8192, block_tokens=named)
    found = asked() if aligns else asked(aligns_to_block=False)
    assert found.block_tokens == block_tokens


def test_the_release_decides_whether_the_steps_are_those_of_the_user() -> None:
    assert [kv_law_for(EngineVersion(0, minor)).aligns_to_block for minor in (19, 20, 33)] == [False, True, True]


@every_case(
    ("caches", "degree", "gib", "tokens", "concurrency"),
    [
        pytest.param(QWEN3_NEXT, 2, 7.09, 16_384, 33.47, id="qwen3-next, vLLM 0.13, R9700"),
        pytest.param(QWEN3_NEXT, 2, 44.59, 262_144, 14.77, id="qwen3-next, vLLM 0.10.2, H200"),
        pytest.param(QWEN3_5_27B, 4, 7.56, 50_000, 9.42, id="qwen3.5-27b, vLLM 0.19.0, RTX 3090"),
        pytest.param(QWEN3_5_27B, 4, 7.47, 32_768, 13.87, id="qwen3.5-27b, vLLM 0.19.0, RTX 3090, more memory"),
        pytest.param(QWEN3_5_9B, 4, 15.36, 32_768, 57.74, id="qwen3.5-9b, vLLM 0.19.0, RTX 3090"),
        pytest.param(QWEN3_5_9B, 1, 10.21, 4_096, 235_706 / 4_096, id="qwen3.5-4b, vLLM 0.23.0, RTX 4090 D"),
    ],
)
def test_measured_memory_gives_the_measured_concurrency(
    caches: Caches, degree: int, gib: float, tokens: int, concurrency: float
) -> None:
    """Start-up logs of releases that kept prefix caching off for recurrent models. Memory is rounded to 0.01 GiB."""
    seen = layout(caches, degree, prefix_caching=False)
    assert float(max_concurrency(seen, int(gib * GIB), tokens)) == pytest.approx(concurrency, rel=2e-3)


def test_prefix_caching_holds_a_state_twice() -> None:
    """Three groups of states beside one of attention, whose request of one token takes one block."""
    assert layout(QWEN3_NEXT, prefix_caching=False).blocks_of_request(1) == 1 + 3
    assert layout(QWEN3_NEXT).blocks_of_request(1) == 1 + 3 * 2


def test_speculation_holds_a_state_for_every_drafted_token() -> None:
    seen = layout(QWEN3_NEXT, speculative_tokens=2)
    assert seen.blocks_of_request(1) == 1 + 3 * (2 + 2)
    assert seen.block_bytes > layout(QWEN3_NEXT).block_bytes


def test_a_state_costs_the_same_however_long_the_request() -> None:
    """Models of states alone have no prefix caching, and one page a request."""
    seen = layout(((gated_delta(16, 32), 24),))
    assert seen.blocks_of_request(1) == seen.blocks_of_request(1_000_000) == 1
    assert seen.block_bytes == 24 * 2 * (3 * 8192 + 32 * 128 * 128)
    assert seen.bytes_per_token == 0


def test_heads_and_groups_of_a_state_are_copied_where_they_run_out() -> None:
    """Two groups on eight ranks: every rank holds one; sixteen heads are divided."""
    part = (StatePart(16, 100, 4), StatePart(2, 10, 4))
    seen = layout(((StateCache(StateKind.MAMBA2, (part,)), 1),), degree=8)
    assert seen.block_bytes == 4 * (2 * 100 + 10)


def test_sequences_are_bounded_by_blocks_where_there_are_states() -> None:
    seen = layout(QWEN3_NEXT)
    assert seen.max_sequences(10 * GIB) == 10 * GIB // seen.block_bytes
    assert layout(((AttentionCache(8, 128, 128), 32),)).max_sequences(10 * GIB) is None
