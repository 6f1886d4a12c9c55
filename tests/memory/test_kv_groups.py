"""Which layers share their blocks, and what that costs: windows, chunks, and pages of different size."""

from __future__ import annotations

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import (
    AttentionCache,
    CacheSpec,
    IndexerCache,
    LatentCache,
    StateCache,
    StateKind,
    StatePart,
)
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, kv_layout
from tests.memory.sums import max_concurrency
from tests.support.tables import every_case

Caches = tuple[tuple[CacheSpec, int], ...]


def hybrid(full: int, sliding: int, *, kv_heads: int = 8, head_dim: int = 128, window: int = 1024) -> Caches:
    return (
        (AttentionCache(kv_heads, head_dim, head_dim), full),
        (AttentionCache(kv_heads, head_dim, head_dim, window_tokens=window), sliding),
    )


GPT_OSS_20B = hybrid(12, 12, head_dim=64, window=128)
GPT_OSS_120B = hybrid(18, 18, head_dim=64, window=128)
GEMMA_3_12B = hybrid(8, 40, head_dim=256)
GEMMA_3_27B = hybrid(10, 52, kv_heads=16)

ONE_STEP_STARTS = [
    pytest.param(GPT_OSS_120B, 4, 2048, 45.32, 16_384, 284.25, id="gpt-oss-120b, vLLM 0.10.1, 4 x A100"),
    pytest.param(GPT_OSS_20B, 1, 2048, 7.12, 16_384, 16.75, id="gpt-oss-20b, vLLM 0.12.0, RTX 3090"),
    pytest.param(GPT_OSS_20B, 1, 2048, 21.09, 24_000, 35.18, id="gpt-oss-20b, vLLM 0.12.0, A100"),
    pytest.param(GPT_OSS_20B, 2, 2048, 22.75, 32_768, 56.85, id="gpt-oss-20b, vLLM 0.13, 2 x R9700"),
    pytest.param(GEMMA_3_12B, 1, 2048, 16.25, 9_900, 10.51, id="gemma-3-12b, vLLM 0.13, R9700"),
    pytest.param(GEMMA_3_12B, 2, 2048, 22.66, 9_900, 29.3, id="gemma-3-12b, vLLM 0.13, 2 x R9700"),
    pytest.param(GEMMA_3_27B, 2, 2048, 14.58, 28_900, 8.04, id="gemma-3-27b, vLLM 0.13, 2 x R9700"),
    pytest.param(GPT_OSS_120B, 2, 8192, 77.93, 131_072, 32.56, id="gpt-oss-120b, vLLM 0.15.1, TP 2"),
]
"""Caches, TP, batched tokens, GiB for the cache, context, and the concurrency that the engine told."""


def layout(
    caches: Caches, *, batched: int = 2048, stages: int = 1, others: Caches = (), hybrid_manager: bool = True
) -> KvLayout:
    return kv_layout(
        caches,
        KvPrecision.BF16,
        Split(1, stages),
        batched_tokens=batched,
        others=others,
        hybrid_manager=hybrid_manager,
    )


def groups(seen: KvLayout) -> list[int]:
    return [group.count for group in seen.groups]


@pytest.mark.parametrize(
    ("full", "sliding", "kv_heads", "head_dim", "bytes_per_token"),
    [
        pytest.param(10, 52, 16, 128, 573_440, id="gemma-3-27b, 573,582 measured"),
        pytest.param(8, 40, 8, 256, 393_216, id="gemma-3-12b, 393,226 measured"),
        pytest.param(5, 29, 4, 256, 143_360, id="gemma-3-4b, 143,374 measured"),
    ],
)
def test_hybrid_layers_are_padded_to_whole_groups(
    full: int, sliding: int, kv_heads: int, head_dim: int, bytes_per_token: int
) -> None:
    """vLLM 0.19.0 on H100: a token costs as much as all groups together, padding included."""
    seen = layout(hybrid(full, sliding, kv_heads=kv_heads, head_dim=head_dim))
    assert seen.block_bytes * sum(groups(seen)) // seen.block_tokens == bytes_per_token


def test_the_windows_of_gpt_oss_hold_the_tokens_of_two_running_steps() -> None:
    """18 full and 18 sliding layers, 128 tokens wide: 1,033 blocks beside the 8,192 of a request at 128 Ki."""
    seen = layout(GPT_OSS_120B, batched=8192)
    assert groups(seen) == [1, 1]
    assert seen.block_bytes == 589_824
    assert seen.blocks_of_request(131_072) == 8_192 + 1_033


@every_case(
    ("caches", "degree", "batched", "gib", "tokens", "concurrency"),
    ONE_STEP_STARTS,
)
def test_older_engines_reserved_windows_for_one_step(
    caches: Caches, degree: int, batched: int, gib: float, tokens: int, concurrency: float
) -> None:
    """Start-up logs of vLLM 0.10 to 0.15; vLLM's pull request 47728 made it every step in flight."""
    seen = kv_layout(caches, KvPrecision.BF16, Split(degree), batched_tokens=batched, concurrent_batches=1)
    assert float(max_concurrency(seen, int(gib * GIB), tokens)) == pytest.approx(concurrency, rel=3e-3)


def test_tokens_that_drafts_may_read_again_stay_in_the_window() -> None:
    seen = kv_layout(GPT_OSS_120B, KvPrecision.BF16, Split(1), batched_tokens=8192, retained_tokens=2)
    assert seen.blocks_of_request(131_072) == 8_192 + 1_034


def test_a_short_request_never_takes_more_window_than_it_has_tokens() -> None:
    assert layout(GPT_OSS_120B, batched=8192).blocks_of_request(160) == 10 + 10 + 1


def test_nearly_equal_kinds_form_one_group_each() -> None:
    """Within a factor of 1.5 the larger number is the group's, which pads less."""
    assert groups(layout(hybrid(10, 12))) == [1, 1]
    assert groups(layout(hybrid(10, 15))) == [1, 2]


def test_the_order_of_the_caches_is_no_part_of_what_fits() -> None:
    forward, backward = layout(GPT_OSS_120B), layout(GPT_OSS_120B[::-1])
    assert (forward.block_bytes, forward.blocks_of_request(9_000)) == (
        backward.block_bytes,
        backward.blocks_of_request(9_000),
    )


def test_full_attention_of_different_widths_is_one_group() -> None:
    seen = layout(((AttentionCache(8, 128, 128), 16), (AttentionCache(8, 64, 64), 16)))
    assert groups(seen) == [1]
    assert seen.block_bytes == 16 * 16 * (4096 + 2048)


def test_smaller_pages_get_longer_blocks() -> None:
    """Gemma 4 26B: 5 full layers of 2 heads x 512 beside 25 sliding ones of 8 heads x 256, whose pages are double."""
    caches = (
        (AttentionCache(2, 512, 512), 5),
        (AttentionCache(8, 256, 256, window_tokens=1024), 25),
    )
    seen = layout(caches)
    assert [(group.count, group.block_tokens) for group in seen.groups] == [(1, 32), (5, 16)]
    assert seen.block_bytes == 5 * 16 * 8 * 512 * 2


def test_pages_that_do_not_divide_the_largest_are_padded() -> None:
    caches = (
        (AttentionCache(4, 192, 128), 4),
        (AttentionCache(6, 192, 128, window_tokens=128), 4),
    )
    seen = layout(caches)
    assert [group.block_tokens for group in seen.groups] == [16, 16]
    assert seen.block_bytes == 4 * 16 * 6 * (192 + 128) * 2


def test_chunked_local_attention_keeps_one_chunk_and_what_is_in_flight() -> None:
    """Llama 4 Scout: 12 full and 36 chunked layers, in four groups of twelve."""
    caches = (
        (AttentionCache(8, 128, 128), 12),
        (AttentionCache(8, 128, 128, chunk_tokens=8192), 36),
    )
    seen = layout(caches)
    chunk = seen.blocks_of_request(131_072) - 8_192
    assert chunk % 3 == 0
    assert 8_192 // 16 < chunk // 3 <= (8_192 + 3 * 8_192) // 16
    assert seen.block_bytes == 12 * 16 * 4096
    promoted = layout(caches, hybrid_manager=False)
    assert promoted.blocks_of_request(131_072) == 8_192
    assert promoted.block_bytes == 48 * 16 * 4096


def test_without_the_hybrid_manager_windows_are_charged_as_full() -> None:
    seen = layout(GPT_OSS_120B, hybrid_manager=False)
    assert seen.blocks_of_request(131_072) == 8_192
    assert seen.block_bytes == 36 * 16 * 2048


def test_windows_beside_latent_attention_are_charged_as_full_where_pages_do_not_match() -> None:
    caches = ((LatentCache(512, 64), 8), (AttentionCache(8, 128, 128, window_tokens=512), 2))
    seen = layout(caches)
    assert groups(seen) == [1]
    assert seen.block_bytes == 16 * (8 * 1152 + 2 * 4096)


STATE = StateCache(StateKind.LINEAR, ((StatePart(64, 128 * 128, 4),),))


@pytest.mark.parametrize(
    ("caches", "hybrid_manager", "missing"),
    [
        pytest.param((*GPT_OSS_120B, (STATE, 4)), False, "hybrid KV cache manager", id="states-without-manager"),
        pytest.param(
            (*GPT_OSS_120B, *hybrid(1, 1, head_dim=64, window=256)),
            False,
            "hybrid KV cache manager",
            id="windows-without-manager",
        ),
        pytest.param(
            ((LatentCache(512, 64), 8), (IndexerCache(128), 8), (STATE, 4)),
            True,
            "no multiple",
            id="indexer-and-states",
        ),
    ],
)
def test_what_the_engine_cannot_lay_out_has_no_law(caches: Caches, hybrid_manager: bool, missing: str) -> None:  # noqa: FBT001
    with pytest.raises(UnsupportedModel, match=missing):
        layout(caches, hybrid_manager=hybrid_manager)


def test_a_stage_keeps_the_groups_of_the_whole_model() -> None:
    """Two stages of gemma-3-27b: 5 + 5 full layers and 26 + 26 sliding ones still make 1 + 6 groups."""
    seen = layout(hybrid(5, 26), stages=2, others=hybrid(5, 26))
    assert groups(seen) == [1, 6]
    assert seen.block_bytes == 5 * 16 * 4096


def test_an_uneven_stage_pays_for_its_widest_group() -> None:
    seen = layout(hybrid(6, 20), stages=2, others=hybrid(4, 32))
    assert groups(seen) == [1, 6]
    assert seen.block_bytes == 6 * 16 * 4096
