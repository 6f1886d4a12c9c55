"""DeepSeek-V4.1 and Qwen4-Exp: every byte of a rank against vLLM's own modules, and what stays in host memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.caches import RingCache, StateCache
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.public_words import Reason
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.weights.allocator import step_buffer_bytes
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.kinds import residual_streams
from plimsoll.memory.weights import stage_weights
from plimsoll.placement.options.divisibility import split_refusal
from tests.support.tables import every_case

DATA: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "ngram_models.json").read_text())
DEEPSEEK, QWEN = "deepseek-v4.1", "qwen4-exp"
STEP = 8_192
TABLES = ("engram_layer_ids", "engram_num_embeddings", "ple_layer_ids")


def facts(name: str, text: dict[str, object] | None = None, *, quantized: bool = True) -> ModelFacts:
    """The model, with some fields of its language model changed."""
    config = {key: value for key, value in DATA["configs"][name].items() if quantized or key != "quantization_config"}
    config["text_config"] = {**config["text_config"], **(text or {})}
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE)


@every_case("row", DATA["rows"], ids=lambda row: "-".join(str(value) for value in row.values()))
def test_a_rank_holds_what_the_engines_modules_hold(row: dict[str, Any]) -> None:
    model = facts(row["model"], quantized=row["quantized"])
    split = Split(row["tp"], row["pp"], expert_parallel=row["ep"])
    held = stage_weights(model, model.checkpoint.precision, split, row["stage"])
    assert held.parameters_bytes == row["bytes"]


def test_rotary_tables_are_the_engines() -> None:
    """Buffers of the same modules: two 32-bit tables of 1,048,576 positions, for windows and for compressed keys."""
    assert facts(DEEPSEEK).rotary_bytes == 536_870_912


def test_what_the_indexers_pick_is_set_aside_for_the_largest_step() -> None:
    """Of 841,023,960 bytes of Qwen4-Exp's buffers all but 34 MB, which are rotary tables."""
    model = facts(QWEN)
    assert step_buffer_bytes(model, STEP) == 12 * 2_052 * 4 * STEP + 16 * 8 * STEP
    assert step_buffer_bytes(model, STEP) + model.rotary_bytes == pytest.approx(841_023_960, rel=0.005)
    assert step_buffer_bytes(facts(DEEPSEEK), STEP) == (2_560 * 4 + 2 * (6_144 + 192)) * STEP


@pytest.mark.parametrize(("name", "gib"), [(DEEPSEEK, 189), (QWEN, 95)])
def test_the_reader_is_told_of_the_tables_in_host_memory(name: str, gib: int) -> None:
    """768,022,850 rows of 264 bytes; 320 million of 320, in prime numbers of rows a head."""
    (remark,) = facts(name).remarks
    assert f"{gib} GiB of n-gram embeddings" in remark
    assert "--engram-config" in remark
    assert facts(name, {key: [] for key in TABLES}).remarks == ()


def test_a_table_of_8_bits_takes_half() -> None:
    """47.7 GiB, as a loader of the published FP8 checkpoint says."""
    (remark,) = facts(QWEN, {"ple_embedding_dtype": "float8_e4m3fn"}).remarks
    assert "48 GiB" in remark


def test_streams_and_states_are_counted() -> None:
    assert residual_streams(facts(QWEN)) == residual_streams(facts(DEEPSEEK)) == 4
    states = [cache for cache in facts(QWEN).caches() if isinstance(cache, StateCache)]
    assert {cache.whole for cache in states} == {True, False}
    rings = {cache for cache in facts(DEEPSEEK).caches() if isinstance(cache, RingCache)}
    assert rings == {RingCache(4_096, 2, least_tokens=8)}


@pytest.mark.parametrize(
    ("name", "stages", "refused"),
    [(DEEPSEEK, 2, None), (DEEPSEEK, 4, (8, 13)), (QWEN, 2, (0, 47)), (QWEN, 1, None)],
)
def test_layers_that_share_what_they_keep_stay_on_one_stage(
    name: str, stages: int, refused: tuple[int, int] | None
) -> None:
    model = facts(name)
    said = split_refusal(model, model.checkpoint.precision, "h100", Split(1, stages))
    if refused is None:
        assert said is None
        return
    assert said is not None
    assert said.reason is Reason.STAGES_CUT_SHARED_LAYERS
    assert (said.number("first"), said.number("last")) == refused


def test_borrowed_keys_and_values_keep_layers_together() -> None:
    """Gemma 4 E2B: vLLM 0.32 builds no second stage of two, whose layer 18 looks for the keys of layer 13."""
    types = (["sliding_attention"] * 4 + ["full_attention"]) * 7
    text = {
        "model_type": "gemma4_text",
        "hidden_size": 1536,
        "intermediate_size": 6144,
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "global_head_dim": 512,
        "vocab_size": 262144,
        "num_kv_shared_layers": 20,
        "layer_types": types,
        "sliding_window": 512,
        "max_position_embeddings": 131072,
    }
    config = {"architectures": ["Gemma4ForCausalLM"], **text}
    model = read_model_facts("gemma", config, revision=None, source=FactsSource.INLINE)
    assert model.inseparable == ((13, 35),)


@every_case(
    ("name", "text", "field"),
    [
        (DEEPSEEK, {"compress_ratios": [4] * 43}, "compress_ratios"),
        (DEEPSEEK, {"compress_ratios": [1, 2]}, "compress_ratios"),
        (DEEPSEEK, {"kv_source_layer_ids": ["2"]}, "kv_source_layer_ids"),
        (DEEPSEEK, {"engram_num_embeddings": [-1]}, "engram_num_embeddings"),
        (QWEN, {"ple_layer_ids": 2}, "ple_layer_ids"),
        (QWEN, {"indexer_compress_ratio": 0}, "indexer_compress_ratio"),
        (QWEN, {"hc_lowrank": None}, "hc_lowrank"),
    ],
)
def test_a_field_that_cannot_be_is_named(name: str, text: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        facts(name, text)


def test_tables_are_no_parameters_of_a_gpu() -> None:
    """On one GPU 279 GiB of weights stay, of 468 GiB that the checkpoint has."""
    model = facts(DEEPSEEK)
    held = stage_weights(model, model.checkpoint.precision, Split(1)).parameters_bytes
    assert held / GIB == pytest.approx(279.2, abs=0.1)
