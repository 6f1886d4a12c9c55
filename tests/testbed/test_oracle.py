"""What the engine is asked about a model, and with which ``config.json``."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.engine.oracle.config_folder import engine_config, has_experts, is_quantized
from testbed.engine.oracle.grid import GIB, KV_SIZES, SERVERS, cache_questions, weight_questions
from testbed.engine.oracle.heaviest import heaviest_ranks
from testbed.engine.oracle.questions import Question, Server

DENSE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "auto_map": {"AutoConfig": "x.Y"}}

NESTED = {
    "model_type": "kimi_k25",
    "text_config": {"n_routed_experts": 8, "auto_map": {}, "quantization_config": {"quant_method": "fp8"}},
}


def test_quantization_goes_out_at_any_depth_and_remote_code_always() -> None:
    assert engine_config(DENSE, quantized=True) == {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    assert engine_config(NESTED, quantized=False)["text_config"] == {"n_routed_experts": 8}
    kept = engine_config(NESTED, quantized=True)["text_config"]
    assert kept == {"n_routed_experts": 8, "quantization_config": {"quant_method": "fp8"}}


def test_quantization_and_experts_are_found_at_any_depth() -> None:
    assert is_quantized(NESTED)
    assert has_experts(NESTED)
    assert not is_quantized(DENSE)
    assert not has_experts(DENSE)
    assert not is_quantized({"quantization_config": None})
    assert not has_experts({"num_experts": 1})


def test_the_first_names_of_phi_become_those_of_transformers() -> None:
    published = {"model_type": "phi-msft", "n_embd": 2560, "n_layer": 32, "n_head": 32, "n_head_kv": None}
    config = engine_config(published | {"n_inner": None, "n_positions": 2048, "rotary_dim": 32}, quantized=False)
    assert (config["model_type"], config["hidden_size"], config["intermediate_size"]) == ("phi", 2560, 10240)
    assert (config["num_key_value_heads"], config["partial_rotary_factor"]) == (32, 0.4)
    assert not [key for key in config if key.startswith("n_")]


def test_a_dense_model_is_asked_for_each_size_and_the_ends_of_each_pipeline(tmp_path: Path) -> None:
    questions = list(weight_questions("dense", DENSE, tmp_path / "dense", sizes=(1, 4), stages=(1, 2)))
    assert [(q.tp, q.pp, q.stage, q.ep) for q in questions] == [
        (1, 1, 0, False),
        (4, 1, 0, False),
        (1, 2, 0, False),
        (1, 2, 1, False),
    ]
    assert {q.folder for q in questions} == {str(tmp_path / "dense" / "plain")}
    assert "auto_map" not in json.loads((tmp_path / "dense" / "plain" / "config.json").read_text())


def test_a_quantized_mixture_is_also_asked_for_as_published_and_with_whole_experts(tmp_path: Path) -> None:
    questions = list(weight_questions("moe", NESTED, tmp_path / "moe", sizes=(1, 2)))
    assert [(q.quantized, q.tp, q.ep) for q in questions] == [
        (False, 1, False),
        (False, 2, False),
        (False, 2, True),
        (True, 1, False),
        (True, 2, False),
        (True, 2, True),
    ]


def test_the_cache_is_asked_for_in_every_server(tmp_path: Path) -> None:
    questions = list(cache_questions("dense", DENSE, tmp_path / "dense"))
    assert [(q.tp, q.server) for q in questions] == [(tp, server) for tp in KV_SIZES for server in SERVERS]


def test_a_question_survives_the_way_into_the_engine() -> None:
    for server in (None, Server(kv_dtype="fp8", max_model_len=4096, available_bytes=(GIB, 2 * GIB))):
        question = Question(config="a", folder="/models/a", tp=4, pp=2, ep=True, stage=1, server=server)
        assert Question.from_json(json.loads(json.dumps(question.as_json()))) == question


def test_of_a_pipeline_the_heaviest_stage_stays_and_a_refusal_wins() -> None:
    split = {"config": "a", "tp": 1, "ep": False, "quantized": False}
    alone = [split | {"pp": 1, "bytes": 9}, split | {"pp": 1, "max_model_len": 4096}]
    stages = [split | {"pp": 2, "bytes": 5}, split | {"pp": 2, "bytes": 6}]
    refused = [split | {"pp": 3, "bytes": 5}, split | {"pp": 3, "error": "no"}]
    assert list(heaviest_ranks([*alone, *stages, *refused])) == [*alone, stages[1], refused[1]]
