"""The working of an estimate: its lines add up to its totals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.engine_options import CpuOffload, LoraSlots, WeightStreaming
from plimsoll.domain.observations import Correction
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.serving import Request, ServingShape, Speculation
from plimsoll.domain.units import GIB, MIB
from plimsoll.memory.estimate import estimate
from plimsoll.memory.steps import Step
from plimsoll.memory.working import working
from plimsoll.placement.settings import engine_settings
from tests.support.model_configs import facts_of
from tests.support.planning import H100, gpu, request

KINDS = {
    "dense": "meta-llama__Llama-3.1-8B-Instruct",
    "tied": "Qwen__Qwen2.5-0.5B",
    "experts": "mistralai__Mixtral-8x7B-v0.1",
    "latent": "deepseek-ai__DeepSeek-V3",
    "sparse": "zai-org__GLM-5.2",
    "hybrid": "Qwen__Qwen3-Next-80B-A3B-Instruct",
    "recurrent": "nvidia__Nemotron-H-56B-Base-8K",
    "windows": "google__gemma-3-27b-it",
    "tower": "Qwen__Qwen2.5-VL-7B-Instruct",
    "mxfp4": "openai__gpt-oss-120b",
    "fp8": "Qwen__Qwen3-32B-FP8",
    "nvfp4": "nvidia__Qwen3-235B-A22B-NVFP4",
}
SPLITS = [Split(1), Split(4), Split(1, 2), Split(2, 4)]
ENGINES: dict[str, dict[str, Any]] = {
    "lora": {"lora": LoraSlots(2, 16)},
    "offloaded": {"residency": CpuOffload(3 * GIB)},
    "streamed": {"residency": WeightStreaming(4, 1, 2)},
    "text alone": {"skip_encoder": True},
    "drafting": {"speculation": Speculation(2, facts_of("Qwen__Qwen2.5-0.5B"))},
}


def steps_of(wanted: Request, split: Split) -> tuple[Step, ...]:
    return working(wanted, gpu(H100), split, engine_settings(wanted, gpu(H100), split))


def lines_before(steps: tuple[Step, ...], total: str) -> int:
    """Sum of the lines between a total and the one before it."""
    end = next(index for index, step in enumerate(steps) if step.is_total and step.term == total)
    start = max(index for index, step in enumerate(steps[:end]) if step.is_total)
    return sum(step.size_bytes or 0 for step in steps[start + 1 : end])


def total(steps: tuple[Step, ...], term: str) -> int:
    (found,) = [step.size_bytes for step in steps if step.is_total and step.term == term]
    assert found is not None
    return found


def check(wanted: Request, split: Split) -> None:
    steps = steps_of(wanted, split)
    figures = estimate(wanted, gpu(H100), split, engine_settings(wanted, gpu(H100), split))
    assert lines_before(steps, "weights") == total(steps, "weights") == figures.weights_bytes
    assert lines_before(steps, "KV cache") == total(steps, "KV cache") == figures.kv_cache_bytes
    terms = ["weights", "KV cache", "activations", "CUDA graphs", "overhead"]
    terms += ["LoRA slots"] if figures.adapters_bytes else []
    terms += ["learned"] if figures.learned_bytes else []
    assert sum(total(steps, term) for term in terms) == total(steps, "needed") == figures.expected_bytes
    assert total(steps, "budget") == figures.budget_bytes
    assert total(steps, "left for KV") == figures.available_kv_bytes


@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_lines_add_up_for_every_kind_of_model(kind: str, split: Split) -> None:
    check(request(facts_of(KINDS[kind])), split)


@pytest.mark.parametrize("options", ENGINES)
@pytest.mark.parametrize("kind", ["dense", "tower", "experts"])
def test_lines_add_up_with_every_option(kind: str, options: str) -> None:
    plain = request(facts_of(KINDS[kind]))
    check(replace(plain, engine=replace(plain.engine, **ENGINES[options])), Split(1))


def test_lines_add_up_when_quantized_at_load_and_sized_for_the_mean() -> None:
    check(request(facts_of(KINDS["dense"]), precision=Precision.FP8), Split(2))
    expected = request(facts_of(KINDS["windows"]), shape=ServingShape(32_768, 40, 1500, 300))
    check(expected, Split(1))
    assert any("max(1.5 x 40" in step.formula for step in steps_of(expected, Split(1)))


def test_what_was_learned_is_a_line_of_its_own() -> None:
    plain = request()
    correction = Correction(plain.engine_kind(H100, Split(1)), weights_bytes=64 * MIB, rest_bytes=MIB)
    taught = replace(plain, corrections=(correction,))
    check(taught, Split(1))
    told = {(step.term, step.size_bytes) for step in steps_of(taught, Split(1))}
    assert {("  learned", 64 * MIB), ("learned", MIB)} <= told


def test_formulas_carry_the_numbers_that_they_are_made_of() -> None:
    told = {step.term.strip(): step.formula for step in steps_of(request(), Split(2))}
    assert told["mlp.gate_proj"] == "32 layers x 7,168 x 4,096 x 16 bit (outputs)"
    assert told["load"] == "8 x 256 blocks = 2,048 blocks"
    assert "8 KV heads x (128 + 128)" in told["cache"]


def test_the_stage_that_is_short_is_named() -> None:
    (line,) = [step for step in steps_of(request(), Split(1, 2)) if step.term == "weights" and step.is_total]
    assert "of 2, short first" in line.formula
