"""Pages of different size side by side in one block, release by release: DeepSeek-V4 against figures that were told.

Compressed keys, windows and waiting states of DeepSeek-V4-Flash (43 layers) and DeepSeek-V4-Pro (61).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.caches import CacheSpec, RowCache
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import SCALED_BY_TOKEN, TURBOQUANT, KvPrecision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, Packing, kv_layout
from plimsoll.engines.vllm.memory.kv_cache.kv_law import kv_law_for
from plimsoll.engines.vllm.memory.step.forward import sparse_workspace_bytes
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.stages import counted, other_caches, stage_caches

CONFIGS = Path(__file__).parents[2] / "benchmarks" / "accuracy" / "data" / "model-configs"
FLASH, PRO = "deepseek-ai__DeepSeek-V4-Flash", "nvidia__DeepSeek-V4-Pro-NVFP4"


def facts(name: str) -> ModelFacts:
    config = json.loads((CONFIGS / f"{name}.json").read_text())
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE)


def layout(name: str, packing: Packing = Packing.DENSE, *, batches: int = 1, batched: int = 8192) -> KvLayout:
    return kv_layout(
        stage_caches(facts(name), 0, 1),
        KvPrecision.FP8,
        Split(2),
        batched_tokens=batched,
        concurrent_batches=batches,
        packing=packing,
    )


def test_a_server_of_0_22_says_what_a_request_needs() -> None:
    # vLLM issue 44376: 30,000 tokens, batches of 16,384, 5.44 GiB free.
    cut = layout(FLASH, Packing.TUPLES, batched=16_384)
    assert round(cut.blocks_of_request(30_000) * cut.block_bytes / GIB, 2) == 6.66
    assert cut.blocks_of_request(13_528) <= 5.445 * GIB // cut.block_bytes < cut.blocks_of_request(13_800)


def test_counting_page_sizes_won_what_its_author_measured() -> None:
    # vLLM pull request 44454: 333,437 tokens where 329,601 were.
    won = layout(FLASH, Packing.TUPLES).block_bytes / layout(FLASH, Packing.PAGE_SIZES).block_bytes
    assert won == pytest.approx(333_437 / 329_601, abs=1e-4)


def test_blocks_of_a_server_with_page_sizes_side_by_side() -> None:
    # vLLM pull request 48993: DeepSeek-V4-Pro on GB200, 19,015 blocks of 1,473,408 bytes in 26.09 GiB.
    cut = layout(PRO, Packing.PAGE_SIZES)
    assert cut.block_bytes == 1_473_408
    assert cut.pool_blocks(int(26.09 * GIB)) == pytest.approx(19_015, abs=4)


def test_dense_blocks_have_room_for_the_widest_group() -> None:
    assert [layout(name).block_bytes for name in (FLASH, PRO)] == [1_002_240, 1_435_968]


@pytest.mark.parametrize(
    ("version", "packing"),
    [
        ((0, 22), Packing.TUPLES),
        ((0, 23), Packing.PAGE_SIZES),
        ((0, 26), Packing.PAGE_SIZES),
        ((0, 27), Packing.DENSE),
        ((0, 32), Packing.DENSE),
    ],
)
def test_each_release_has_its_packing(version: tuple[int, int], packing: Packing) -> None:
    assert kv_law_for(EngineVersion(*version)).packing is packing


def test_the_cache_format_asked_for_changes_nothing() -> None:
    caches = stage_caches(facts(FLASH), 0, 1)
    known = [precision for precision in KvPrecision if precision not in (*SCALED_BY_TOKEN, *TURBOQUANT)]
    cuts = {kv_layout(caches, precision, Split(1), batched_tokens=2048) for precision in known}
    assert len(cuts) == 1


def test_two_steps_in_flight_nearly_double_what_a_short_request_holds() -> None:
    one, two = layout(FLASH, batches=1), layout(FLASH, batches=2)
    assert two.blocks_of_request(1_000_000) - one.blocks_of_request(1_000_000) == 8192 // 64 * 2 + 8192 // 4 + 8192 // 8


def test_a_token_takes_its_share_of_compressed_keys() -> None:
    # 21 layers keep a key of 584 and one of 132 bytes for 4 tokens (3,759 bytes), 20 one of 584 for 128 (91.25).
    assert layout(FLASH).bytes_per_token == 3_851


def test_the_predictor_has_a_window_alone() -> None:
    (layer,) = facts(FLASH).predictor
    (cache,) = layer.caches
    assert isinstance(cache, RowCache)
    assert (cache.row_bytes, cache.tokens_per_row, cache.window_tokens) == (584, 1, 128)


def test_a_stage_makes_room_for_its_own_layers() -> None:
    model = facts(FLASH)
    stages = [
        kv_layout(
            stage_caches(model, stage, 2),
            KvPrecision.FP8,
            Split(1, 2),
            batched_tokens=2048,
            others=other_caches(model, stage, 2),
        )
        for stage in range(2)
    ]
    whole = layout(FLASH)
    assert all(stage.block_bytes < whole.block_bytes for stage in stages)
    assert whole.block_bytes <= sum(stage.block_bytes for stage in stages) < 1.1 * whole.block_bytes
    assert stages[0].groups == stages[1].groups


def test_windows_without_a_repeating_pattern_are_cut_to_the_room_of_the_others() -> None:
    window = RowCache(1000, 64, window_tokens=128, packed=True)
    full = RowCache(1000, 256, packed=True)
    caches: list[CacheSpec] = [*[window] * 10, full]
    cut = kv_layout(counted(caches), KvPrecision.BF16, Split(1), batched_tokens=2048)
    # A full page holds 256 rows, a window's 64: four windows fit in its block, so ten make three groups.
    assert cut.block_bytes == 256_000
    assert [group.count for group in cut.groups] == [3, 1]


def test_the_indexer_gathers_one_key_for_four_tokens() -> None:
    # vLLM's ``get_max_prefill_buffer_size`` over the ratio: 40 rows of 132 bytes a token of context.
    assert sparse_workspace_bytes(facts(FLASH), context_tokens=163_840, trims=True) == 163_840 * 40 // 4 * 132
