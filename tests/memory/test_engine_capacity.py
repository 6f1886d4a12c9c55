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

from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import KvPrecision
from plimsoll.engines.vllm.memory.kv_cache import KvLayout, kv_layout
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.stages import stage_caches
from tests.memory.sums import blocks_in, max_concurrency

Row = dict[str, Any]

SURVEY = Path(__file__).parents[2] / "benchmarks" / "accuracy" / "data"
MADE = json.loads((Path(__file__).parent / "data" / "made_caches.json").read_text())
PRECISIONS = {"auto": KvPrecision.BF16, "fp8": KvPrecision.FP8, "fp8_ds_mla": KvPrecision.FP8}


def _surveyed() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for line in (SURVEY / "kv_oracle.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows[row["config"]].append(row)
    return rows


ROWS = _surveyed()


def _facts(name: str, config: dict[str, Any]) -> ModelFacts:
    """Like the engine that was asked: without the checkpoint's quantization, which changes no cache."""
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    return read_model_facts(name, plain, revision=None, source=FactsSource.INLINE)


def _layout(facts: ModelFacts, row: Row) -> KvLayout:
    return kv_layout(
        stage_caches(facts, 0, row["pp"]),
        PRECISIONS[row["kv_dtype"]],
        Split(row["tp"], row["pp"]),
        batched_tokens=row["max_num_batched_tokens"],
        prefix_caching=row["prefix_caching"],
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


@pytest.mark.parametrize("name", sorted(ROWS))
def test_blocks_and_tokens_are_the_engines(name: str) -> None:
    config = json.loads((SURVEY / "model-configs" / f"{name}.json").read_text())
    assert list(_differences(_facts(name, config), ROWS[name])) == []


@pytest.mark.parametrize("made", MADE, ids=lambda made: made["name"])
def test_so_are_those_of_made_configurations(made: dict[str, Any]) -> None:
    assert list(_differences(_facts(made["name"], made["config"]), made["rows"])) == []
