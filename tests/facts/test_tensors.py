"""Weights from a checkpoint's tensors: what vLLM's modules hold, with the class's row hidden."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import Evidence, FactsSource, ModelFacts, Sharding, Weight
from plimsoll.domain.models.precision import Precision
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.refusals import count_parameters
from plimsoll.facts.models.tensors import Tensor
from plimsoll.facts.models.tensors.tensor import of_any_expert
from plimsoll.memory.weights import rank_shape, stage_weights
from tests.facts.checkpoints import CLASSES, ROWS, packed, row_of, tensors_of
from tests.support.tables import every_case
from tests.support.work import measured_effort

pytestmark = pytest.mark.lengthy

RANKS = [(row, int(degree)) for row in ROWS for degree in row["bytes"]]

WITHIN = 0.002
WITHIN_BY_MODEL = {"Qwen/Qwen2-VL-7B-Instruct": 0.016}
"""The projector's layers have numbers for names and lie whole on every rank; the engine divides them."""

WITHIN_PACKED = 0.01

LLAMA = row_of("meta-llama/Llama-3.1-8B-Instruct")
EXPERTS = row_of("Qwen/Qwen3-30B-A3B-FP8")

UNDIVIDED = ("BioGptForCausalLM", "GPTBigCodeForCausalLM", "PersimmonForCausalLM")
"""Served by the engine without a plan for tensor parallelism: whole on every rank, which no tensor tells."""

ERRS = {
    **dict.fromkeys(("Gemma3nForCausalLM", "Gemma4ForCausalLM"), 0.055),
    **dict.fromkeys(
        (
            *("ApertusForCausalLM", "AXK1ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"),
            *("GlmMoeDsaForCausalLM", "HYV4ForCausalLM", "LagunaForCausalLM", "MiMoV2FlashForCausalLM"),
            *("MiniMaxM2ForCausalLM", "PhiForCausalLM"),
        ),
        1e-4,
    ),
}
"""What the parameters of a rank err by at most; those of all other classes are the engine's to the unit.

Projections around the layers of Gemma lie whole on every rank; of the others it is norms and biases.
"""

OTHER_CACHES = {"compress_ratios"}
"""Fields of caches that no tensor shows: an unknown class with one of them is refused."""

METHODS: dict[str, dict[str, Any]] = {
    "fp8": {"weight_block_size": [128, 128], "activation_scheme": "dynamic"},
    "awq": {"bits": 4, "group_size": 128, "zero_point": True},
    "gptq": {"bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    "compressed-tensors": {
        "format": "pack-quantized",
        "ignore": ["lm_head", "re:.*gate$"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128},
            }
        },
    },
    "modelopt": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head", "*gate"]},
    "bitsandbytes": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
}


def _read(config: dict[str, Any], tensors: list[Tensor] | None = None) -> ModelFacts:
    return read_model_facts("org/model", config, revision=None, source=FactsSource.INLINE, tensors=tensors)


@cache
def _taken_over(model: str) -> ModelFacts:
    return _unseen(row_of(model))


def _unseen(row: dict[str, Any], tensors: list[Tensor] | None = None, **changes: object) -> ModelFacts:
    """The model as one of a class that nobody has described."""
    return _read({**row["config"], "architectures": ["UnseenForCausalLM"], **changes}, tensors or tensors_of(row))


def _elements(facts: ModelFacts, degree: int) -> int:
    kinds = [_sum(kind.weights, degree) for kind in facts.kinds]
    return _sum((*facts.embedding, *facts.head), degree) + sum(kinds[kind] for kind in facts.order)


def _sum(weights: Iterable[Weight], degree: int) -> int:
    return sum(math.prod(rank_shape(weight, Split(degree))) for weight in weights)


def _bytes(facts: ModelFacts, degree: int, precision: Precision | None = None) -> int:
    return stage_weights(facts, precision or facts.checkpoint.precision, Split(degree)).parameters_bytes


def _class(row: dict[str, Any]) -> str:
    return str(row["config"]["architectures"][0])


def _of_four_layers(row: dict[str, Any]) -> dict[str, Any]:
    """The model with its first layers alone: what is packed in one layer is packed alike in the others."""
    tensors = [
        [pattern, dtype, shape, [[[first, min(last, 3)] for first, last in ranges[0]], *ranges[1:]] if ranges else []]
        for pattern, dtype, shape, ranges in row["tensors"]
    ]
    return {**row, "config": {**row["config"], "num_hidden_layers": 4}, "tensors": tensors}


def _named(value: object) -> str:
    return value["model"] if isinstance(value, dict) else f"tp{value}"


@every_case(("row", "degree"), RANKS, ids=_named, most=30)
def test_a_rank_of_an_unknown_class_holds_what_the_engine_s_modules_hold(row: dict[str, Any], degree: int) -> None:
    facts = _taken_over(row["model"])
    assert facts.evidence is Evidence.TENSORS
    expected = row["bytes"][str(degree)]
    assert _bytes(facts, degree, Precision.BF16) == pytest.approx(
        expected, rel=WITHIN_BY_MODEL.get(row["model"], WITHIN)
    )


def test_nearly_all_ranks_agree_within_one_in_ten_thousand() -> None:
    errors = [
        abs(_bytes(_taken_over(row["model"]), degree, Precision.BF16) / row["bytes"][str(degree)] - 1)
        for row, degree in RANKS
    ]
    assert statistics.median(errors) < 1e-6
    assert sum(error < 1e-4 for error in errors) >= 0.8 * len(errors)


@every_case(
    "row",
    [row for row in CLASSES if not OTHER_CACHES & row["config"].keys()],
    ids=_class,
    most=6,
    always=["Gemma3nForCausalLM", "DeepseekV2ForCausalLM", "GPTBigCodeForCausalLM"],
)
def test_the_tensors_of_every_class_that_transformers_has_divide_as_in_the_engine(row: dict[str, Any]) -> None:
    """Most of them unseen when the rules were written."""
    facts = _unseen(row, transformers_version="5.0.0")
    for degree, expected in row["parameters"].items():
        if degree == "1" or _class(row) not in UNDIVIDED:
            assert _elements(facts, int(degree)) == pytest.approx(expected, rel=ERRS.get(_class(row), 0), abs=0)


@every_case("row", map(_of_four_layers, (LLAMA, EXPERTS, row_of("deepseek-ai/DeepSeek-V2-Lite"))), ids=_named)
@every_case("method", METHODS)
def test_packed_weights_count_as_stored(row: dict[str, Any], method: str) -> None:
    quantization = {"quant_method": method, **METHODS[method]}
    tensors = packed(tensors_of(row), method)
    unseen = _unseen(row, tensors, quantization_config=quantization)
    known = _read({**row["config"], "quantization_config": quantization}, tensors)
    assert (unseen.parameters, known.remarks) == (None, ())
    for degree in (1, 2, 4, 8):
        assert _bytes(unseen, degree) == pytest.approx(_bytes(known, degree), rel=WITHIN_PACKED)


@every_case("row", ROWS, ids=_named, most=4, always=["Qwen/Qwen3-30B-A3B-FP8"])
def test_the_tensors_of_known_classes_agree_with_their_rows(row: dict[str, Any]) -> None:
    facts = _read(row["config"], tensors_of(row))
    assert (facts.evidence, facts.remarks) == (Evidence.KNOWN, ())
    assert facts.parameters == pytest.approx(count_parameters(facts), rel=0.003)


def test_a_known_class_keeps_its_weights_and_says_where_the_checkpoint_differs() -> None:
    wider = [
        Tensor(tensor.name, tensor.dtype, (2 * tensor.shape[0], *tensor.shape[1:]))
        if "up_proj" in tensor.name
        else tensor
        for tensor in tensors_of(LLAMA)
    ]
    facts = _read(LLAMA["config"], wider)
    assert facts.kinds == _read(LLAMA["config"]).kinds
    assert "stores 18.46 GiB" in facts.remarks[0]
    assert "most of the difference is in the layers" in facts.remarks[0]


def test_experts_are_experts_whether_numbered_or_stacked() -> None:
    numbered = _unseen(EXPERTS).kinds[0]
    stacked = _unseen(row_of("openai/gpt-oss-20b")).kinds[0]
    for kind, count in ((numbered, 128), (stacked, 32)):
        experts = [
            weight for weight in kind.weights if weight.sharding.value.startswith("expert") and weight.inputs > 1
        ]
        assert [weight.count for weight in experts] == [count] * 3
        assert {weight.sharding for weight in experts} == {Sharding.EXPERT_INPUTS, Sharding.EXPERT_OUTPUTS}


@every_case(
    ("name", "other"),
    [
        ("mlp.experts.17.up_proj.weight", "mlp.experts.0.up_proj.weight"),
        ("experts.17.w1.weight_scale", "experts.0.w1.weight_scale"),
        ("mlp.shared_experts.17.up_proj.weight", "mlp.shared_experts.17.up_proj.weight"),
        ("mlp.blocks.17.up_proj.weight", "mlp.blocks.17.up_proj.weight"),
        ("mlp.experts.17", "mlp.experts.17"),
    ],
)
def test_only_the_number_of_a_routed_expert_says_nothing(name: str, other: str) -> None:
    assert of_any_expert(name) == other


def test_what_the_engine_does_not_load_is_left_out() -> None:
    extra = [
        Tensor("model.layers.32.mlp.up_proj.weight", "BF16", (14336, 4096)),
        Tensor("mtp.layers.0.mlp.up_proj.weight", "BF16", (14336, 4096)),
        Tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", (64,)),
    ]
    assert _unseen(LLAMA, [*tensors_of(LLAMA), *extra]) == _unseen(LLAMA)


@pytest.mark.parametrize(
    ("tie", "stored", "tied"), [(True, True, True), (False, True, False), (None, True, False), (None, False, True)]
)
def test_a_tied_output_projection_counts_once(tie: bool | None, stored: bool, tied: bool) -> None:  # noqa: FBT001
    tensors = [tensor for tensor in tensors_of(LLAMA) if stored or tensor.name != "lm_head.weight"]
    facts = _unseen(LLAMA, tensors, tie_word_embeddings=tie)
    assert (facts.tied_embeddings, any(weight.name == "lm_head" for weight in facts.head)) == (tied, not tied)


def test_a_tower_that_no_field_describes_is_read_from_its_tensors() -> None:
    row = row_of("google/gemma-3-4b-it")
    config = {**row["config"], "architectures": ["UnseenForConditionalGeneration"], "vision_config": {"num_heads": 16}}
    with pytest.raises(UnsupportedModel, match="its tower is unknown"):
        _read(config)
    encoder = _read(config, tensors_of(row)).encoder
    assert encoder is not None
    assert (encoder.layers, encoder.hidden, encoder.intermediate) == (27, 1152, 4304)
    assert sum(weight.parameters for weight in encoder.weights) == pytest.approx(419e6, rel=0.01)


@pytest.mark.parametrize(
    "tensors",
    [
        [Tensor("x", "BF16", (2,))],
        [Tensor("model.layers.3.w", "BF16", (2,))],
        [Tensor("model.layers.31.w", "BF16", (2**40, 2**40))],
        [Tensor("model.layers.31.w", "BF16", (-1, 2))],
    ],
    ids=["no layers", "too few", "absurd", "negative"],
)
def test_a_list_that_is_no_use_leaves_the_configuration_s_weights(tensors: list[Tensor]) -> None:
    facts = _unseen(LLAMA, tensors)
    assert facts.evidence is Evidence.GENERIC
    assert "do not show the 32 layers" in facts.remarks[0]
    assert count_parameters(facts) == count_parameters(_read(LLAMA["config"]))


def test_a_hundred_thousand_tensors_are_read_with_an_effort_that_grows_with_their_number_alone() -> None:
    """A comparison of each with each, even the fastest, would take ten times the bound."""
    many = [
        Tensor(f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight", "BF16", (64, 64))
        for layer in range(32)
        for expert in range(1050)
        for name in ("gate_proj", "up_proj", "down_proj")
    ]
    with measured_effort() as spent:
        assert _unseen(LLAMA, [*tensors_of(LLAMA), *many]).evidence is Evidence.TENSORS
    assert spent.amount < 4000


_PARTS = st.sampled_from(
    (
        *("model", "layers", "h", "0", "1", "31", "7", "mlp", "experts", "gate", "up_proj", "down_proj", "qkv_proj"),
        *("k_proj", "c_attn", "conv1d", "weight", "bias", "qweight", "scales", "weight_scale", "g_idx", "_blocks"),
        *("weight.absmax", "embed_tokens", "lm_head", "vision_tower", "norm", "A_log", "mtp", "model.layers.3"),
    )
)
_NAMES = st.lists(_PARTS | st.text(max_size=5), max_size=8).map(".".join)
_DTYPES = st.sampled_from(["BF16", "F32", "F16", "I32", "U8", "F8_E4M3", "F4", "I64", "BOOL", "C64"]) | st.text(
    max_size=8
)
_TENSORS = st.builds(Tensor, _NAMES, _DTYPES, st.lists(st.integers(0, 500), max_size=4).map(tuple))
_WILD = st.builds(Tensor, _NAMES, _DTYPES, st.lists(st.integers(), max_size=4).map(tuple))


@given(st.lists(_TENSORS, max_size=30) | st.lists(_WILD, max_size=3))
def test_no_list_of_tensors_makes_it_fail(tensors: list[Tensor]) -> None:
    anchored = [*tensors, Tensor("model.layers.31.mlp.up_proj.weight", "BF16", (4, 4))]
    for facts in (_unseen(LLAMA, anchored), _read(LLAMA["config"], anchored)):
        for degree in (1, 3, 8):
            assert 0 <= _bytes(facts, degree) <= 2 * 10**15


@given(st.lists(_TENSORS, max_size=10), st.sampled_from(sorted(METHODS)))
def test_no_list_of_packed_tensors_makes_it_fail(tensors: list[Tensor], method: str) -> None:
    anchored = [*tensors, Tensor("model.layers.31.mlp.up_proj.weight", "BF16", (4, 4))]
    facts = _unseen(
        EXPERTS, anchored, quantization_config={"quant_method": method, **METHODS[method]}, num_hidden_layers=32
    )
    assert 0 <= _bytes(facts, 4) <= 2 * 10**15
