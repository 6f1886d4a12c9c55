"""How checkpoints say that they are quantized, and which of them are refused."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.model import CheckpointFacts
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.facts.fields import Fields
from plimsoll.facts.quantization import checkpoint_facts

LAYERS = 3
DYNAMIC = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}


def stored(section: dict[str, Any] | None, *, experts: bool = False) -> CheckpointFacts:
    config = {"torch_dtype": "bfloat16", "quantization_config": section}
    return checkpoint_facts("org/model", Fields(config), layers=LAYERS, has_experts=experts)


def compressed(weights: dict[str, Any], activations: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"], **more}


def test_no_quantization_stores_in_the_dtype() -> None:
    assert stored(None) == CheckpointFacts(Precision.BF16, Precision.BF16)


@pytest.mark.parametrize(
    ("section", "precision", "group_size"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, Precision.FP8, None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Precision.FP8, 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": None}, Precision.AWQ, 128),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, Precision.AWQ, 64),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}, Precision.GPTQ, 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, Precision.GPTQ, None),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]}, Precision.FP8, None),
        ({"producer": {"name": "modelopt"}, "quant_algo": "NVFP4", "group_size": 16}, Precision.NVFP4, 16),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}, DYNAMIC), Precision.FP8, None),
        (
            compressed({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}, DYNAMIC),
            Precision.FP8,
            128,
        ),
        (compressed({"num_bits": 8, "type": "int"}, {"num_bits": 8, "type": "int"}), Precision.INT8, None),
        (compressed({"num_bits": 4, "type": "int", "group_size": 128}, None), Precision.GPTQ, 128),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}, None), Precision.NVFP4, 16),
        (compressed({"num_bits": 4, "type": "float", "group_size": 32}, None), Precision.MXFP4, 32),
    ],
)
def test_methods_are_read(section: dict[str, Any], precision: Precision, group_size: int | None) -> None:
    facts = stored(section)
    assert (facts.precision, facts.group_size, facts.dtype) == (precision, group_size, Precision.BF16)
    assert facts.quantizes_attention


def test_mxfp4_quantizes_experts_only() -> None:
    facts = stored({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, experts=True)
    assert facts == CheckpointFacts(Precision.MXFP4, Precision.BF16, group_size=32, quantizes_attention=False)
    with pytest.raises(UnsupportedModel, match="dense model"):
        stored({"quant_method": "mxfp4"})


@pytest.mark.parametrize(
    ("section", "kv_precision"),
    [
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, KvPrecision.FP8),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": "FP8"}, KvPrecision.FP8),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
            KvPrecision.FP8,
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": None}, None),
        (
            compressed({"num_bits": 8, "type": "float"}, DYNAMIC, kv_cache_scheme={"num_bits": 8, "type": "float"}),
            KvPrecision.FP8,
        ),
        (compressed({"num_bits": 8, "type": "float"}, DYNAMIC, kv_cache_scheme=None), None),
        ({"quant_method": "fp8", "kv_cache_scheme": "static"}, None),
    ],
)
def test_the_kv_cache_scheme_is_read(section: dict[str, Any], kv_precision: KvPrecision | None) -> None:
    assert stored(section).kv_precision is kv_precision


@pytest.mark.parametrize(
    ("ignored", "attention", "lm_head"),
    [
        ([], True, True),
        (["lm_head"], True, False),
        (["re:.*lm_head"], True, False),
        (["lm_head", "model.layers.0.mlp.gate", "model.layers.2.input_layernorm"], True, False),
        (["re:.*self_attn.*", "lm_head"], False, False),
        (["model.layers.*.self_attn", "lm_head"], False, False),
        ([f"model.layers.{layer}.self_attn*" for layer in range(LAYERS)], False, True),
        ([f"model.layers.{layer}.self_attn.{part}_proj" for layer in range(LAYERS) for part in "qkvo"], False, True),
        (["re:.*router", "re:.*shared_expert_gate$", "model.embed_tokens"], True, True),
    ],
)
def test_the_list_of_exceptions_is_understood(ignored: list[str], *, attention: bool, lm_head: bool) -> None:
    facts = stored(compressed({"num_bits": 8, "type": "float"}, DYNAMIC) | {"ignore": ignored})
    assert (facts.quantizes_attention, facts.quantizes_lm_head) == (attention, lm_head)


@pytest.mark.parametrize(
    ("ignored", "missing"),
    [
        (["model.layers.0.self_attn.q_proj"], "some attention layers"),
        (["re:.*q_proj"], "some attention layers"),
        (["model.layers.*.self_attn.kv_proj"], "kv_proj"),
        (["model.layers.0.mlp.down_proj"], "some MLP layers"),
        (["model.layers.0"], "model.layers.0"),
        (["re:(a+)+$"], "unquantized"),
        (["."], "unquantized"),
    ],
)
def test_exceptions_that_the_facts_cannot_tell_apart_are_refused(ignored: list[str], missing: str) -> None:
    with pytest.raises(UnsupportedModel, match="unquantized") as refusal:
        stored(compressed({"num_bits": 8, "type": "float"}, DYNAMIC) | {"ignore": ignored})
    assert missing in refusal.value.missing


@pytest.mark.parametrize(
    ("section", "missing"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
        ({"quant_method": "fbgemm_fp8"}, "fbgemm_fp8"),
        ({}, "quant_method"),
        ({"quant_method": "fp8", "quant_algo": "MIXED_PRECISION"}, "several precisions"),
        ({"quant_method": "fp8", "weight_block_size": [1, 128]}, "not square"),
        ({"quant_method": "gptq", "bits": 8}, "8-bit GPTQ"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*attn.*": {}}}, "dynamic"),
        ({"quant_method": "awq", "bits": 3}, "3-bit AWQ"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "MIXED_PRECISION"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"}, "KV cache"),
        (compressed({"num_bits": 4, "type": "int"}, DYNAMIC), "4-bit int weights with 8-bit activations"),
        (compressed({"num_bits": 8, "type": "int"}, None), "8-bit int weights with 16-bit activations"),
        (compressed({"num_bits": 8}, None, sparsity_config={"format": "sparse-24-bitmask"}), "sparse"),
        ({"quant_method": "compressed-tensors"}, "several precisions"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"targets": ["re:.*down_proj"]}}},
            "chosen modules",
        ),
    ],
)
def test_what_has_no_memory_law_is_named(section: dict[str, Any], missing: str) -> None:
    with pytest.raises(UnsupportedModel) as refusal:
        stored(section)
    assert missing in refusal.value.missing


def test_an_ill_typed_field_is_named_with_its_section() -> None:
    with pytest.raises(InvalidInput) as refusal:
        stored({"quant_method": "gptq", "bits": "4"})
    assert refusal.value.field == "config.json: quantization_config: bits"


@settings(max_examples=150, deadline=None)
@given(ignored=st.lists(st.text(alphabet="model.layers0123*re:^$()[]+\\_qkvproj", max_size=30), max_size=5))
def test_any_list_of_exceptions_is_understood_or_refused(ignored: list[str]) -> None:
    facts: CheckpointFacts | None = None
    with contextlib.suppress(UnsupportedModel):
        facts = stored({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ignored})
    assert facts is None or facts.precision is Precision.FP8
