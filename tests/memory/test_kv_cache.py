"""Bytes and blocks of the KV cache, against figures that people know and starts that were measured."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, CrossCache, IndexerCache, LatentCache
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.requests.serving import ServingShape
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, kv_layout
from plimsoll.engines.vllm.memory.kv_cache.blocks import BLOCK_TOKENS
from plimsoll.memory.load import needed_blocks
from tests.memory.sums import blocks_in, max_concurrency
from tests.support.tables import every_case

Caches = tuple[tuple[CacheSpec, int], ...]


def full(layers: int, kv_heads: int, head_dim: int) -> Caches:
    return ((AttentionCache(kv_heads, head_dim, head_dim), layers),)


def hybrid(full_layers: int, sliding: int, *, kv_heads: int, head_dim: int, window: int = 1024) -> Caches:
    """A model of gemma-3's shape: full and sliding layers of one KV width."""
    local = AttentionCache(kv_heads, head_dim, head_dim, window_tokens=window)
    return (*full(full_layers, kv_heads, head_dim), (local, sliding))


def layout(
    caches: Caches, degree: int = 1, kv: KvPrecision = KvPrecision.BF16, *, batched: int = 2048, dtype_bytes: int = 2
) -> KvLayout:
    return kv_layout(caches, kv, Split(degree), batched_tokens=batched, dtype_bytes=dtype_bytes)


LLAMA_2_7B = full(32, 32, 128)
LLAMA_8B = full(32, 8, 128)
LLAMA_70B = full(80, 8, 128)
QWEN_2_5_7B = full(28, 4, 128)
GPT_OSS_20B = hybrid(12, 12, kv_heads=8, head_dim=64, window=128)
GPT_OSS_120B = hybrid(18, 18, kv_heads=8, head_dim=64, window=128)
DEEPSEEK_V3 = ((LatentCache(512, 64), 61),)
DEEPSEEK_V2_LITE = ((LatentCache(512, 64), 27),)
DEEPSEEK_V3_2 = ((LatentCache(512, 64, sparse=True), 61), (IndexerCache(128), 61))

STARTED: dict[str, Caches] = {
    "Meta-Llama-3.1-8B": LLAMA_8B,
    "Llama-3.1-8B": LLAMA_8B,
    "Llama-3.3-70B": LLAMA_70B,
    "Qwen2.5-7B": QWEN_2_5_7B,
    "CodeLlama-7b": LLAMA_2_7B,
    "granite-3.3-8b": full(40, 8, 128),
    "Qwen1.5-MoE": full(24, 16, 128),
    "Qwen3-8B": full(36, 8, 128),
    "gpt-oss-20b": GPT_OSS_20B,
}
"""Caches of the models in the measured starts, by how their names begin."""


def measured_starts() -> list[Any]:
    document = json.loads(Path(__file__).with_name("data").joinpath("h100_vllm_0_19.json").read_text(encoding="utf-8"))
    runs = [run for run in document["runs"] if run["kv_tokens"]]
    return [pytest.param(run, id=f"{run['model'].split('/')[1]}-{number}") for number, run in enumerate(runs)]


@every_case("run", measured_starts())
def test_measured_memory_gives_the_measured_concurrency(run: dict[str, Any]) -> None:
    """vLLM 0.19.0 on H100 80GB. Its log rounds memory to 0.01 GiB and concurrency to 0.01 requests."""
    name = run["model"].split("/")[1]
    (caches,) = [caches for start, caches in STARTED.items() if name.startswith(start)]
    seen = layout(
        caches,
        run["tensor_parallel"],
        KvPrecision.FP8 if run["kv_dtype"] == "fp8" else KvPrecision.BF16,
        batched=8192,
        dtype_bytes=4 if run["dtype"] == "float32" else 2,
    )
    available = int(run["kv_cache_gib"] * GIB)
    concurrency = float(max_concurrency(seen, available, run["context"]))
    assert concurrency == pytest.approx(run["concurrency_at_full_length"], rel=1e-3)
    if caches != GPT_OSS_20B:  # that release told a hybrid model's tokens by another formula
        assert seen.capacity_tokens(available, run["context"]) == pytest.approx(run["kv_tokens"], rel=1e-3)


@pytest.mark.parametrize(
    ("caches", "gib", "blocks", "concurrency"),
    [
        pytest.param(DEEPSEEK_V2_LITE, 43.61, 94_097, 183.78, id="deepseek-v2-lite"),
        pytest.param(hybrid(8, 40, kv_heads=8, head_dim=256), 47.72, 48_867, 15.88, id="gemma-3-12b"),
        pytest.param(hybrid(5, 29, kv_heads=4, head_dim=256), 62.51, 204_817, 57.05, id="gemma-3-4b"),
        pytest.param(GPT_OSS_20B, 58.47, None, 155.75, id="gpt-oss-20b"),
    ],
)
def test_measured_starts_of_latent_and_sliding_attention(
    caches: Caches, gib: float, blocks: int | None, concurrency: float
) -> None:
    """vLLM 0.19.0 on H100 80GB, 8,192 tokens (llm-d-planner, pull request 205)."""
    seen = layout(caches, batched=8192)
    if blocks is not None:
        assert seen.pool_blocks(int(gib * GIB)) == pytest.approx(blocks, rel=1e-3)
    assert float(max_concurrency(seen, int(gib * GIB), 8192)) == pytest.approx(concurrency, rel=1e-3)


def test_a_32_bit_model_keeps_its_cache_in_32_bits() -> None:
    """Llama-3.1-8B with ``--dtype float32``: 175,296 tokens in 42.8 GiB (vLLM 0.19.0)."""
    seen = layout(LLAMA_8B, dtype_bytes=4)
    assert seen.bytes_per_token == 2 * layout(LLAMA_8B).bytes_per_token
    assert seen.capacity_tokens(int(42.8 * GIB), 8192) == pytest.approx(175_296, rel=1e-4)


def test_capacity_is_told_as_the_engine_tells_it() -> None:
    """16 GiB of KV cache for Qwen2.5-7B are 299,584 tokens in vLLM's log (pull request 44594), null block included."""
    seen = layout(QWEN_2_5_7B)
    assert seen.capacity_tokens(16 * GIB, 16) == 299_584
    assert blocks_in(seen, 16 * GIB) * BLOCK_TOKENS == 299_584 - BLOCK_TOKENS


def test_llama_2_7b_costs_half_a_mebibyte_a_token_and_two_gibibytes_at_4096() -> None:
    seen = layout(LLAMA_2_7B)
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
    seen = layout(LLAMA_70B, kv=precision)
    total = needed_blocks(ServingShape(tokens, requests), seen) * seen.block_bytes
    assert total / 1e9 == pytest.approx(gigabytes, abs=0.06)


@pytest.mark.parametrize(("degree", "bytes_per_token"), [(1, 327_680), (2, 163_840), (8, 40_960), (16, 40_960)])
def test_the_bytes_of_a_rank_stop_shrinking_where_the_kv_heads_run_out(degree: int, bytes_per_token: int) -> None:
    assert layout(LLAMA_70B, degree).bytes_per_token == bytes_per_token


@pytest.mark.parametrize("degree", [1, 2, 8])
def test_latent_attention_costs_every_rank_the_same(degree: int) -> None:
    assert layout(DEEPSEEK_V3, degree).bytes_per_token == 70_272
    assert layout(DEEPSEEK_V3, degree, KvPrecision.FP8).bytes_per_token == 70_272 // 2


def test_sparse_attention_keeps_rows_with_scales_and_an_indexer_beside_them() -> None:
    assert layout(DEEPSEEK_V3_2, kv=KvPrecision.FP8).bytes_per_token == 61 * (656 + 132)
    assert layout(DEEPSEEK_V3_2).bytes_per_token == 61 * (2 * 576 + 132)
    assert layout(DEEPSEEK_V3_2).block_tokens == 64


@pytest.mark.parametrize(
    ("precision", "vector"),
    [(KvPrecision.INT8, 128 + 4), (KvPrecision.FP8_SCALED, 128 + 4), (KvPrecision.INT4, 64 + 4)],
)
def test_every_key_and_value_may_have_a_scale_of_four_bytes(precision: KvPrecision, vector: int) -> None:
    assert layout(LLAMA_8B, kv=precision).bytes_per_token == 32 * 8 * 2 * vector


def test_nvfp4_takes_nine_sixteenths_of_a_byte_a_value() -> None:
    assert layout(LLAMA_8B, kv=KvPrecision.NVFP4).bytes_per_token == 32 * 8 * 2 * 128 * 9 // 16


def test_keys_and_values_may_differ_in_width() -> None:
    assert layout(((AttentionCache(4, 192, 128), 9),)).bytes_per_token == 9 * 4 * (192 + 128) * 2


@pytest.mark.parametrize(
    ("ranks", "tokens"), [(1, 715_072), (8, 5_721_088)], ids=["without-context-parallel", "context-parallel-8"]
)
def test_context_parallelism_multiplies_the_tokens(ranks: int, tokens: int) -> None:
    """Kimi-K2-Thinking, TP 8, 46.8 GiB a GPU (vLLM's recipes)."""
    split = Split(8, context_parallel=ranks)
    seen = kv_layout(DEEPSEEK_V3, KvPrecision.BF16, split, batched_tokens=8192)
    assert seen.capacity_tokens(int(46.8 * GIB), 131_072) == pytest.approx(tokens, rel=1e-3)


def test_context_parallelism_knows_no_windows() -> None:
    with pytest.raises(UnsupportedModel, match=r"gpt: no memory law for context parallelism with sliding windows"):
        kv_layout(GPT_OSS_20B, KvPrecision.BF16, Split(8, context_parallel=2), batched_tokens=2048, model="gpt")


def test_an_encoders_output_is_charged_by_the_batch_whatever_the_request() -> None:
    """Whisper: the engine's encoder budget is ``--max-num-batched-tokens``, and never less than an item takes."""
    caches = (*full(32, 20, 64), (CrossCache(20, 64, 1500), 32))
    assert layout(caches, batched=8192).blocks_of_request(448) == 28 + 512
    assert layout(caches, batched=448).blocks_of_request(448) == 28 + 94


def test_a_length_is_rounded_up_to_whole_blocks() -> None:
    seen = layout(LLAMA_8B)
    assert [seen.blocks_of_request(tokens) for tokens in (1, 16, 17, 32)] == [1, 1, 2, 2]


def test_one_block_is_kept_unused_both_ways() -> None:
    seen = layout(LLAMA_8B)
    assert seen.bytes_for(10) == 11 * seen.block_bytes
    assert blocks_in(seen, 11 * seen.block_bytes) == 10
    assert blocks_in(seen, seen.block_bytes - 1) == 0


def test_nothing_fits_in_less_than_no_memory() -> None:
    seen = layout(LLAMA_8B)
    assert (blocks_in(seen, -GIB), seen.capacity_tokens(-GIB, 4096)) == (0, 0)


def test_a_model_without_caches_needs_none() -> None:
    seen = layout(())
    assert (seen.blocks_of_request(512), seen.bytes_for(100), seen.capacity_tokens(GIB, 512)) == (0, 0, 0)
    assert max_concurrency(seen, GIB, 512) == Fraction()
