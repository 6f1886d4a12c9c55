"""Bytes and blocks of the KV cache, against figures that people know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.model import AttentionLayers, ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import KvPrecision
from plimsoll.domain.serving import ServingShape
from plimsoll.domain.units import GIB, MIB
from plimsoll.memory.kv_cache import BLOCK_TOKENS, KvLayout, kv_layout
from plimsoll.memory.load import needed_blocks
from tests.support.planning import LLAMA_8B, LLAMA_70B, model

LLAMA_2 = "meta-llama/Llama-2-7b-hf"
LLAMA_3_70B = "meta-llama/Meta-Llama-3-70B-Instruct"
GPT_OSS = "openai/gpt-oss-120b"


def layout(
    facts: ModelFacts | str, degree: int = 1, kv: KvPrecision = KvPrecision.BF16, *, batched: int = 2048
) -> KvLayout:
    facts = model(facts) if isinstance(facts, str) else facts
    return kv_layout(facts, kv, Split(degree), batched_tokens=batched)


def hybrid(full: int, sliding: int, *, kv_heads: int, head_dim: int, window: int = 1024) -> ModelFacts:
    """A model of gemma-3's shape: full and sliding layers of one KV width."""
    groups = (AttentionLayers(full, kv_heads, head_dim), AttentionLayers(sliding, kv_heads, head_dim, window))
    return replace(model(LLAMA_8B), layers=full + sliding, attention=groups)


def test_llama_2_7b_costs_half_a_mebibyte_a_token_and_two_gibibytes_at_4096() -> None:
    seen = layout(LLAMA_2)
    assert seen.bytes_per_token == MIB // 2
    assert seen.blocks_of_request(4096) * seen.block_bytes == 2 * GIB


@pytest.mark.parametrize(
    ("requests", "tokens", "precision", "gigabytes"),
    [
        (8, 8_192, KvPrecision.FP16, 21.5),
        (8, 32_768, KvPrecision.FP16, 85.9),
        (16, 16_384, KvPrecision.FP8, 43.0),
    ],
)
def test_llama_3_70b_at_loads_that_people_quote(
    requests: int, tokens: int, precision: KvPrecision, gigabytes: float
) -> None:
    seen = layout(LLAMA_3_70B, kv=precision)
    total = needed_blocks(ServingShape(tokens, requests), seen) * seen.block_bytes
    assert total / 1e9 == pytest.approx(gigabytes, abs=0.06)


def test_llama_3_8b_takes_512_mebibytes_for_4096_tokens() -> None:
    seen = layout(LLAMA_8B)
    assert seen.blocks_of_request(4096) * seen.block_bytes == 512 * MIB


@pytest.mark.parametrize(("degree", "bytes_per_token"), [(1, 327_680), (2, 163_840), (8, 40_960), (16, 40_960)])
def test_the_bytes_of_a_rank_stop_shrinking_where_the_kv_heads_run_out(degree: int, bytes_per_token: int) -> None:
    assert layout(LLAMA_70B, degree).bytes_per_token == bytes_per_token


def test_a_length_is_rounded_up_to_whole_blocks() -> None:
    seen = layout(LLAMA_8B)
    assert [seen.blocks_of_request(tokens) for tokens in (1, 16, 17, 32)] == [1, 1, 2, 2]


def test_one_block_is_kept_unused_both_ways() -> None:
    seen = layout(LLAMA_8B)
    assert seen.bytes_for(10) == 11 * seen.block_bytes
    assert seen.blocks_in(11 * seen.block_bytes) == 10
    assert seen.blocks_in(seen.block_bytes - 1) == 0


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
    assert seen.block_bytes * len(seen.windows) // BLOCK_TOKENS == bytes_per_token


def test_the_windows_of_gpt_oss_hold_the_tokens_of_two_running_steps() -> None:
    """18 full and 18 sliding layers, 128 tokens wide: 1,033 blocks beside the 8,192 of a request at 128 Ki."""
    seen = layout(GPT_OSS, batched=8192)
    assert seen.windows == (None, 128)
    assert seen.block_bytes == 589_824
    assert seen.blocks_of_request(131_072) == 8_192 + 1_033


def test_a_short_request_never_takes_more_window_than_it_has_tokens() -> None:
    assert layout(GPT_OSS, batched=8192).blocks_of_request(160) == 10 + 10 + 1


def test_nearly_equal_kinds_form_one_group_each() -> None:
    """Within a factor of 1.5 the larger number is the group's, which pads less."""
    assert layout(hybrid(10, 12, kv_heads=8, head_dim=128)).windows == (None, 1024)
    assert layout(hybrid(10, 15, kv_heads=8, head_dim=128)).windows == (None, 1024, 1024)


def test_the_order_of_the_layers_is_no_part_of_the_layout() -> None:
    facts = model(GPT_OSS)
    assert layout(replace(facts, attention=facts.attention[::-1])) == layout(facts)


def test_layers_of_different_kv_width_have_no_law() -> None:
    facts = replace(model(LLAMA_8B), attention=(AttentionLayers(16, 8, 128), AttentionLayers(16, 8, 64)))
    with pytest.raises(UnsupportedModel, match="different KV widths"):
        layout(facts)


def test_capacity_is_told_as_the_engine_tells_it() -> None:
    """16 GiB of KV cache for Qwen2.5-7B are 299,584 tokens in vLLM's log (pull request 44594); one block is unused."""
    seen = layout("Qwen/Qwen2.5-7B-Instruct")
    assert seen.capacity_tokens(16 * GIB, 16) == 299_584 - BLOCK_TOKENS
