"""The whole way from a ``config.json`` to the engine's block pool: every answer of vLLM 0.32, to the unit.

The answers are vLLM's own (``testbed.engine.oracle --cache``): what it says for a claimed H100, by model, tensor
parallelism, cache format, context and memory.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import SCALED_BY_TOKEN, TURBOQUANT, KvPrecision
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, kv_layout
from plimsoll.engines.vllm.memory.kv_cache.turboquant import turboquant_block, with_native_ends
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.stages import stage_caches
from tests.memory.sums import blocks_in, max_concurrency
from tests.support.model_configs import facts_of
from tests.support.tables import every_case

Row = dict[str, Any]

SURVEY = Path(__file__).parents[2] / "benchmarks" / "accuracy" / "data"
MADE = json.loads((Path(__file__).parent / "data" / "made_caches.json").read_text())
PRECISIONS = {
    "auto": KvPrecision.BF16,
    "fp8": KvPrecision.FP8,
    "fp8_ds_mla": KvPrecision.FP8,
    "int8_per_token_head": KvPrecision.INT8,
    "int4_per_token_head": KvPrecision.INT4,
    "fp8_per_token_head": KvPrecision.FP8_SCALED,
    **{each.value: each for each in TURBOQUANT},
}


def _surveyed(file: Path) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for line in file.read_text().splitlines():
        row = json.loads(line)
        rows[row["config"]].append(row)
    return rows


ROWS = _surveyed(SURVEY / "kv_oracle.jsonl")
FORMATS = _surveyed(Path(__file__).parent / "data" / "kv_formats.jsonl")
"""Caches with a scale for every token and head, and TurboQuant's: a context of 4,096 tokens, one and four ranks."""


def _facts(name: str, config: dict[str, Any]) -> ModelFacts:
    """Like the engine that was asked: without the checkpoint's quantization, which changes no cache."""
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    return read_model_facts(name, plain, revision=None, source=FactsSource.INLINE)


def _layout(facts: ModelFacts, row: Row) -> KvLayout:
    precision = PRECISIONS[row["kv_dtype"]]
    return kv_layout(
        stage_caches(with_native_ends(facts, precision), 0, row["pp"]),
        precision,
        Split(row["tp"], row["pp"]),
        batched_tokens=row["max_num_batched_tokens"],
        prefix_caching=row["prefix_caching"],
        block_tokens=turboquant_block(facts, precision),
        model=facts.name,
    )


def _differences(facts: ModelFacts, rows: list[Row]) -> Iterator[str]:
    for row in rows:
        layout, available, context = _layout(facts, row), row["available_bytes"], row["max_model_len"]
        case = f"tp {row['tp']}, {row['kv_dtype']}, {context} tokens, {available} bytes"
        if layout.block_tokens != row["block_size"]:
            yield f"{case}: block of {layout.block_tokens} tokens, the engine's {row['block_size']}"
        if "too_small" in row:
            if blocks_in(layout, available) >= layout.blocks_of_request(context):
                yield f"{case}: fits, the engine: {row['too_small']}"
            continue
        found = (layout.block_bytes, layout.pool_blocks(available), layout.capacity_tokens(available, context))
        told = (row["bytes_per_block"], row["num_blocks"], row["kv_cache_size_tokens"])
        if found != told:
            yield f"{case}: bytes of a block, blocks, tokens are {found}, the engine's {told}"
        if float(max_concurrency(layout, available, context)) != row["max_concurrency"]:
            yield f"{case}: concurrency is not the engine's {row['max_concurrency']}"


def test_the_survey_covers_all_kinds_of_group() -> None:
    specs = {
        spec["spec"]
        for rows in ROWS.values()
        for row in rows
        for group in row.get("groups", ())
        for spec in _specs(group)
    }
    assert specs >= {
        "FullAttentionSpec",
        "SlidingWindowSpec",
        "MLAAttentionSpec",
        "SlidingWindowMLASpec",
        "MambaSpec",
    }
    assert len(ROWS) > 140


def _specs(group: dict[str, Any]) -> list[dict[str, Any]]:
    return [group, *group.get("specs", ())]


@every_case("name", sorted(ROWS))
def test_blocks_and_tokens_are_the_engines(name: str) -> None:
    config = json.loads((SURVEY / "model-configs" / f"{name}.json").read_text())
    assert list(_differences(_facts(name, config), ROWS[name])) == []


@every_case("name", sorted(FORMATS))
def test_so_are_those_of_smaller_caches(name: str) -> None:
    assert list(_differences(facts_of(name), FORMATS[name])) == []


def test_every_smaller_format_is_asked_for_with_full_attention_and_with_states() -> None:
    for name in ("Qwen__Qwen3-8B", "Qwen__Qwen3-Next-80B-A3B-Instruct"):
        asked = {PRECISIONS[row["kv_dtype"]] for row in FORMATS[name]}
        assert asked == {*SCALED_BY_TOKEN, *TURBOQUANT}


@every_case(
    ("name", "missing"),
    [
        ("deepseek-ai__DeepSeek-V2-Lite", "latent (or cross )?attention"),
        ("zai-org__GLM-5.2", "latent (or cross )?attention"),
        ("moonshotai__Kimi-K3", "latent (or cross )?attention"),
        ("deepseek-ai__DeepSeek-V4-Flash", "rows whose format the kernels fix"),
        ("MiniMaxAI__MiniMax-M3", "rows whose format the kernels fix"),
        ("XiaomiMiMo__MiMo-V2-Flash", "values that are not as wide as keys"),
    ],
)
@every_case("precision", [*SCALED_BY_TOKEN, *TURBOQUANT])
def test_models_whose_kernels_read_no_such_cache_are_refused(name: str, missing: str, precision: KvPrecision) -> None:
    """The engine finds no backend for the first three; the others' kernels raise, or keep formats of their own."""
    facts = facts_of(name)
    with pytest.raises(UnsupportedModel, match=f"the {precision} KV cache of .*{missing}"):
        kv_layout(stage_caches(facts, 0, 1), precision, Split(1), batched_tokens=8192, model=facts.name)


@pytest.mark.parametrize("made", MADE, ids=lambda made: made["name"])
def test_so_are_those_of_made_configurations(made: dict[str, Any]) -> None:
    assert list(_differences(_facts(made["name"], made["config"]), made["rows"])) == []
