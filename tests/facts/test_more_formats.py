"""AutoRound's and torchao's checkpoints, and the formats that the engine does not read itself.

The bytes are those of vLLM 0.32's own modules of Qwen3-8B (``python -m testbed.engine.oracle``); for torchao with
torchao 0.18 installed and its tensors counted one by one.
"""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.memory.weights import stage_weights
from tests.support.model_configs import config_of, facts_from
from tests.support.tables import every_case

PER_ROW = {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}
INT8 = {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {"group_size": None, "granularity": PER_ROW}}
FLOAT8 = {"_type": "Float8WeightOnlyConfig", "_version": 2, "_data": {"granularity": PER_ROW}}
FLOAT8_STEPS = {"_type": "Float8DynamicActivationFloat8WeightConfig", "_version": 2, "_data": {}}
INT4 = {"_type": "Int4WeightOnlyConfig", "_version": 2, "_data": {"group_size": 128}}

EIGHT_BITS_DOWN = {f"model.layers.{layer}.mlp.down_proj": {"bits": 8} for layer in range(36)}
EVEN_ATTENTION_PLAIN = {
    f"model.layers.{layer}.self_attn.{part}_proj": {"bits": 16, "data_type": "float"}
    for layer in range(0, 36, 2)
    for part in "qkv"
}


def qwen3_8b(section: dict[str, Any] | None, name: str = "own/model", **more: Any) -> ModelFacts:
    quantization = {"quantization_config": section} if section is not None else {}
    return facts_from(name, config_of("Qwen__Qwen3-8B") | more | quantization)


def auto_round(**more: Any) -> dict[str, Any]:
    return {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "data_type": "int"} | more


def torchao(default: Any, **more: Any) -> dict[str, Any]:
    return {"quant_method": "torchao", "quant_type": {"default": default}, "modules_to_not_convert": ["lm_head"]} | more


def by_name(**modules: Any) -> dict[str, Any]:
    return torchao({"_type": "ModuleFqnToConfig", "_version": 1, "_data": {"module_fqn_to_config": modules}})


FP8_BLOCKS = auto_round(bits=8, data_type="fp", group_size=[128, 128], packing_format="auto_round:fp8")
MX = {"data_type": "mx_fp", "group_size": 32, "packing_format": "auto_round:llm_compressor"}


@every_case(
    ("section", "whole", "quarter"),
    [
        (auto_round(packing_format="auto_round:auto_gptq"), 6_098_479_104, 1_525_082_112),
        (auto_round(block_name_to_quantize="model.layers"), 6_098_479_104, 1_525_082_112),
        (auto_round(packing_format="auto_round:auto_awq"), 6_098_479_104, 1_525_082_112),
        (auto_round(packing_format="auto_round:auto_awq", sym=False), 6_098_479_104, 1_525_082_112),
        (
            auto_round(extra_config={**EIGHT_BITS_DOWN, **EVEN_ATTENTION_PLAIN, "lm_head": {"bits": 8}}),
            7_074_412_544,
            1_769_065_472,
        ),
        (
            auto_round(
                extra_config={
                    r".*self_attn\.o_proj.*": {"bits": 16},
                    r"layers\.[0-9]\.mlp\.down": {"bits": 8, "group_size": 32},
                }
            ),
            7_281_666_048,
            1_820_878_848,
        ),
        (FP8_BLOCKS, 9_437_399_040, 2_359_812_096),
        (auto_round(**MX), 6_179_874_816, 1_545_431_040),
        (auto_round(bits=8, **MX), 9_652_758_528, 2_413_651_968),
        (torchao(INT8), 9_442_707_456, 2_362_245_120),
        (torchao(FLOAT8), 9_441_306_624, 2_361_673_728),
        (
            by_name(**{"_default": INT8, r"re:.*self_attn\.o_proj": None, "model.layers.3.mlp.down_proj": None}),
            10_096_261_120,
            2_525_065_216,
        ),
    ],
)
def test_weights_are_the_engines(section: dict[str, Any], whole: int, quarter: int) -> None:
    facts = qwen3_8b(section)
    for ranks, expected in ((1, whole), (4, quarter)):
        found = stage_weights(facts, facts.checkpoint.precision, Split(tensor_parallel=ranks), 0)
        assert found.parameters_bytes == expected


@every_case(
    ("section", "precision", "least"),
    [
        (auto_round(), Precision.GPTQ, None),
        (auto_round(packing_format="auto_round:auto_awq"), Precision.AWQ, None),
        (FP8_BLOCKS, Precision.FP8, None),
        (torchao(INT8), Precision.INT8, None),
        (torchao(FLOAT8), Precision.FP8, None),
        (torchao(FLOAT8_STEPS), Precision.FP8, (8, 9)),
        (torchao(INT4), Precision.GPTQ, (8, 0)),
    ],
)
def test_the_precision_of_most_weights_is_named(
    section: dict[str, Any], precision: Precision, least: tuple[int, int] | None
) -> None:
    checkpoint = qwen3_8b(section).checkpoint
    assert (checkpoint.precision, checkpoint.min_capability) == (precision, least)


def test_torchao_s_four_bits_have_two_numbers_of_16_bits_for_a_group() -> None:
    facts = qwen3_8b(torchao(INT4))
    query = next(weight for weight in facts.kinds[0].weights if weight.name.endswith("q_proj"))
    assert query.storage.bytes_of(4096, 4096) == 4096 * 4096 // 2 + 4096 * 4096 // 128 * 4


def test_blocks_that_are_not_named_stay_in_16_bits() -> None:
    first = qwen3_8b(auto_round(block_name_to_quantize=["model.layers.0", "model.layers.1"]))
    stored = [
        next(weight.storage.precision for weight in first.kinds[kind].weights if weight.name.endswith("o_proj"))
        for kind in first.order
    ]
    assert stored == [Precision.GPTQ] * 2 + [Precision.BF16] * 34


def test_blocks_may_be_one_text_with_commas_or_lists_of_lists() -> None:
    plain = qwen3_8b(auto_round(block_name_to_quantize="model.layers"))
    for blocks in ("model.visual.blocks, model.layers", [["model.layers"]], ["model.layers."]):
        assert qwen3_8b(auto_round(to_quant_block_names=blocks)).kinds == plain.kinds


@every_case(
    ("section", "missing"),
    [
        (auto_round(bits=2), "AutoRound's 2-bit 'int' weights"),
        (auto_round(bits=3), "3-bit"),
        (auto_round(sym=False), "asymmetric 4-bit 'int' weights in the packing 'auto_round:auto_gptq'"),
        (auto_round(bits=8, packing_format="auto_round:auto_awq"), "8-bit"),
        (auto_round(packing_format="auto_round"), "packing 'auto_round'"),
        (auto_round(data_type="nv_fp"), "'nv_fp' weights"),
        (auto_round(extra_config={"model.layers.0.mlp.down_proj": {"bits": 5}}), "5-bit"),
        (auto_round(quant_method="intel/auto-round"), "the engine knows it as 'auto-round'"),
        (auto_round(quant_method="auto_round"), "the engine knows it as 'auto-round'"),
        ({"quant_method": "hqq", "quant_config": {}}, "up to release 0.14 and no longer since 0.16"),
        ({"quant_method": "gguf"}, "since 0.24 the plugin vllm-gguf-plugin does"),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, "quant_type.default"),
        (torchao({"_type": "IntxWeightOnlyConfig", "_data": {}}), "IntxWeightOnlyConfig"),
        (torchao({**INT8, "_data": {"group_size": 32}}), "Int8WeightOnlyConfig"),
        (by_name(), "without a format"),
        (by_name(**{"model.layers.0.mlp.down_proj": None}), "without a format"),
    ],
)
def test_what_the_engine_has_no_kernel_for_is_refused_by_name(section: dict[str, Any], missing: str) -> None:
    with pytest.raises(UnsupportedModel, match=missing.replace("(", r"\(")):
        qwen3_8b(section)


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"quant_method": "auto-round"}, "quantization_config: bits"),
        (auto_round(to_quant_block_names=[7]), "to_quant_block_names"),
        (auto_round(extra_config=[1]), "extra_config"),
        (torchao(INT8, modules_to_not_convert="lm_head"), "modules_to_not_convert"),
    ],
)
def test_an_ill_typed_field_is_named(section: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        qwen3_8b(section)


def test_torchao_s_checkpoints_need_another_image_and_auto_round_s_do_not() -> None:
    (remark,) = qwen3_8b(torchao(INT8)).remarks
    assert "spec.engine.image" in remark
    assert qwen3_8b(auto_round()).remarks == ()


@pytest.mark.parametrize(
    "name", ["unsloth/Qwen3-8B-GGUF", "unsloth/Qwen3-8B-GGUF:Q4_K_M", "/models/qwen3-8b.gguf", "own/qwen-gguf-q8"]
)
def test_gguf_files_are_refused_with_the_releases_that_read_them(name: str) -> None:
    with pytest.raises(
        UnsupportedModel, match=r"itself up to release 0\.23.* not hold\. Take the model in safetensors"
    ):
        qwen3_8b(None, name)


@pytest.mark.parametrize("name", ["unsloth/Qwen3-8B", "own/guff", "own/ggufless", "GGUF/Qwen3-8B"])
def test_a_name_without_the_word_gguf_is_read(name: str) -> None:
    assert qwen3_8b(None, name).remarks == ()


def test_llama_3_2_vision_is_refused_with_the_releases_that_served_it() -> None:
    with pytest.raises(UnsupportedModel, match=r"up to release 0\.10\.2.*since 0\.11"):
        qwen3_8b(None, architectures=["MllamaForConditionalGeneration"])


@every_case(
    ("name", "word"),
    [
        ("own/Qwen3-8B-NVFP4", "NVFP4"),
        ("own/Qwen3-8B-FP8", "FP8"),
        ("own/Qwen3-8B-fp8-dynamic", "fp8"),
        ("own/qwen3-8b-awq", "awq"),
        ("own/Qwen3-8B_GPTQ", "GPTQ"),
        ("own/Qwen3-8B.w4a16", "w4a16"),
        ("own/Qwen3-8B-quantized.w8a8", "w8a8"),
        ("own/Qwen3-8B-INT4-AutoRound", "INT4"),
        ("/models/Qwen3-8B-FP8/config.json", "FP8"),
    ],
)
def test_a_name_that_promises_a_format_which_is_not_there_is_remarked(name: str, word: str) -> None:
    (remark,) = qwen3_8b(None, name).remarks
    assert remark.startswith(f"The name {name} says {word}, but its configuration has no quantization_config")
    assert "counted in bf16" in remark


@every_case(
    "name",
    [
        "own/Qwen3-8B",
        "FP8/Qwen3-8B",
        "own/Qwen3-8B-FP8-KV",
        "own/Qwen3-8B-kv-fp8",
        "own/Qwen3-8B-fp8kv",
        "own/Qwen3-8B-KVCache-INT8",
        "own/Qwen3-8B-FP8-to-BF16",
        "own/Qwen3-8B-qat-int4-unquantized",
        "own/Qwen3-8B-FP8-speculator.eagle3",
        "own/awqward",
    ],
)
def test_a_name_whose_words_mean_something_else_is_not(name: str) -> None:
    assert qwen3_8b(None, name).remarks == ()


@pytest.mark.parametrize(
    ("name", "section"),
    [
        ("own/Qwen3-8B-FP8", {"quant_method": "fp8"}),
        ("own/Qwen3-8B-int4-AutoRound", auto_round()),
        ("own/Qwen3-8B-NVFP4", {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}),
    ],
)
def test_a_name_whose_format_is_there_is_not(name: str, section: dict[str, Any]) -> None:
    assert qwen3_8b(section, name).remarks == ()


def test_a_quantization_without_a_method_has_its_own_remark_alone() -> None:
    (remark,) = qwen3_8b({"bits": 4}, "own/Qwen3-8B-AWQ").remarks
    assert "names no quant_method" in remark
