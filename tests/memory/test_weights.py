"""Weights of one rank against what engines loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import FactsSource
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import GIB
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.weights import stage_weights, weights_bytes
from tests.memory.measured import RUNS, Run
from tests.support.planning import LLAMA_8B, LLAMA_70B, model
from tests.support.tables import every_case

NOT_MARLIN = "openai/gpt-oss-20b"
"""On an H100 its experts run with Triton's kernels, which pad less than Marlin's: 7.01 GiB at TP 2, 1.2 % below."""


@every_case("run", RUNS, ids=lambda run: run.label)
def test_the_weights_are_those_that_the_engine_loaded_within_half_a_percent(run: Run) -> None:
    computed = weights_bytes(model(run.model), run.precision, Split(run.tensor_parallel)) / GIB
    assert computed == pytest.approx(run.weights_gib, rel=0.0125 if run.model == NOT_MARLIN else 0.005)


@every_case(
    ("name", "precision", "degree", "gib"),
    [
        (LLAMA_8B, Precision.BF16, 1, 14.99),
        (LLAMA_8B, Precision.BF16, 2, 7.51),
        (LLAMA_8B, Precision.BF16, 4, 3.77),
        (LLAMA_8B, Precision.FP8, 1, 8.49),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", Precision.FP8, 1, 67.72),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", Precision.FP8, 2, 33.88),
        ("Qwen/Qwen3-8B", Precision.BF16, 1, 15.27),
        ("openai/gpt-oss-20b", Precision.MXFP4, 1, 13.7025),
        ("openai/gpt-oss-120b", Precision.MXFP4, 1, 65.9651),
        ("openai/gpt-oss-120b", Precision.MXFP4, 4, 17.2217),
        ("codellama/CodeLlama-7b-hf", Precision.BF16, 1, 12.56),
        ("RedHatAI/Qwen2.5-7B-Instruct-FP8-dynamic", Precision.FP8, 1, 8.14),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", Precision.GPTQ, 1, 5.38),
    ],
)
def test_known_figures(name: str, precision: Precision, degree: int, gib: float) -> None:
    """vLLM 0.19.0 on H100 (llm-d-planner pull request 205); Llama-3.3-70B at TP 1 from llm-d's published table.

    gpt-oss with Marlin's kernels: start-up logs of 0.12 and 0.10 on A100, vllm#23278 for the 120b on one GPU.
    """
    assert weights_bytes(model(name), precision, Split(degree)) / GIB == pytest.approx(gib, rel=0.005)


def test_a_16_bit_8b_costs_two_bytes_a_parameter() -> None:
    facts = model(LLAMA_8B)
    assert stage_weights(facts, Precision.BF16, Split(1)).parameters_bytes == 2 * 8_030_261_248
    assert weights_bytes(facts, Precision.BF16, Split(1)) == 2 * 8_030_261_248 + 131_072 * 128 * 2


@pytest.mark.parametrize("degree", [2, 4, 8])
def test_ranks_together_hold_the_model_and_the_replicated_norms_once_each(degree: int) -> None:
    facts = model(LLAMA_70B)
    whole = weights_bytes(facts, Precision.BF16, Split(1))
    copied = 2 * (2 * facts.layers + 1) * facts.hidden + facts.rotary_bytes
    assert degree * weights_bytes(facts, Precision.BF16, Split(degree)) == whole + (degree - 1) * copied


def test_beyond_the_kv_heads_key_and_value_weights_are_copied() -> None:
    facts = model(LLAMA_70B)  # 8 KV heads
    key_and_value = 2 * 2 * facts.layers * facts.kv_heads * 128 * facts.hidden
    at_8, at_16 = (weights_bytes(facts, Precision.BF16, Split(degree)) for degree in (8, 16))
    kept = key_and_value // 8 + 2 * (2 * facts.layers + 1) * facts.hidden + facts.rotary_bytes
    assert at_16 - kept == pytest.approx((at_8 - kept) / 2, abs=64)


def test_fewer_bits_are_fewer_bytes_and_embeddings_stay_in_16_bits() -> None:
    facts = model(LLAMA_8B)
    sizes = [
        weights_bytes(facts, precision, Split(1))
        for precision in (Precision.FP32, Precision.BF16, Precision.FP8, Precision.NVFP4, Precision.AWQ)
    ]
    assert sizes == sorted(sizes, reverse=True)
    tables = 2 * 2 * facts.vocabulary * facts.hidden
    assert sizes[-1] > tables + (facts.parameters or 0) // 2 - facts.vocabulary * facts.hidden


def test_padded_mxfp4_experts_are_larger_than_the_checkpoint_and_more_so_when_cut() -> None:
    """vLLM rounds the per-rank expert shape up for its kernels: 65.97 GiB were loaded on one GPU (Marlin, 0.12)."""
    facts = model("openai/gpt-oss-120b")
    whole = weights_bytes(facts, Precision.MXFP4, Split(1))
    assert whole / GIB == pytest.approx(65.97, rel=0.02)
    assert 4 * weights_bytes(facts, Precision.MXFP4, Split(4)) > 1.03 * whole


SURVEYED = Path(__file__).parents[2] / "benchmarks" / "accuracy" / "data" / "model-configs"


@every_case(
    ("name", "degree", "stages"),
    [
        ("Qwen__Qwen2.5-VL-7B-Instruct", 1, (8_968_713_216, 8_968_720_384)),
        ("Qwen__Qwen2.5-VL-7B-Instruct", 2, (4_486_130_944, 4_486_138_112)),
        ("Qwen__Qwen3.5-27B", 1, (27_817_455_840, 30_360_262_880)),
        ("Qwen__Qwen3.5-27B", 2, (13_913_681_648, 15_185_090_288)),
        ("google__gemma-3-4b-it", 1, (5_391_150_816, 5_391_150_816)),
        ("moonshotai__Kimi-K2.5", 2, (514_536_291_696, 514_023_650_672)),
        ("llava-hf__llava-1.5-7b-hf", 2, (3_682_829_312, 3_682_837_504)),
        ("Qwen__Qwen3-VL-235B-A22B-Instruct", 1, (237_491_075_040, 237_491_075_040)),
    ],
)
def test_every_stage_loads_the_tower(name: str, degree: int, stages: tuple[int, int]) -> None:
    """Bytes of vLLM 0.32.0's own modules in 16 bits, on either of two stages."""
    config = json.loads((SURVEYED / f"{name}.json").read_text())
    config.pop("quantization_config", None)
    config.get("text_config", {}).pop("quantization_config", None)
    facts = read_model_facts(name, config, revision=None, source=FactsSource.INLINE)
    held = [stage_weights(facts, Precision.BF16, Split(degree, 2), stage).parameters_bytes for stage in (0, 1)]
    assert held == pytest.approx(stages, rel=1e-6)
