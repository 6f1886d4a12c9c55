"""The working of an estimate: its lines add up to its totals."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from plimsoll.cli.answers.steps import FormulaRow, steps
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import (
    CpuOffload,
    EngineVersion,
    LoraSlots,
    MediaUse,
    Speculation,
    WeightStreaming,
)
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.weights.loaded import served_model
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.placement.options.sizing import Sized
from tests.support.model_configs import facts_of
from tests.support.planning import H100, gpu, request
from tests.support.tables import every_case

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
    "text alone": {"media": MediaUse(text_only=True)},
    "copied towers": {"media": MediaUse(copies_encoder=True)},
    "one image": {"media": MediaUse(images=1, videos=0)},
    "drafting": {"speculation": Speculation(2, facts_of("Qwen__Qwen2.5-0.5B"))},
}


RELEASES = [8, 11, 12, 13, 15, 19, 21, 24, 26, 32]
STATES = ["hybrid", "recurrent"]
"""Kinds that the oldest of these releases cannot serve."""


def in_release(wanted: Request, minor: int) -> Request:
    return replace(wanted, engine=replace(wanted.engine, version=EngineVersion(0, minor)))


def steps_of(wanted: Request, split: Split, card: str = H100) -> tuple[FormulaRow, ...]:
    settings = engine_settings(wanted, gpu(card), split)
    return steps(Sized(gpu(card), split, settings, estimate(wanted, gpu(card), split, settings)))


def lines_before(rows: tuple[FormulaRow, ...], total: str) -> int:
    """Sum of the lines between a total and the one before it."""
    end = next(index for index, step in enumerate(rows) if step.is_total and step.label == total)
    start = max(index for index, step in enumerate(rows[:end]) if step.is_total)
    return sum(step.size_bytes or 0 for step in rows[start + 1 : end])


def total(rows: tuple[FormulaRow, ...], term: str) -> int:
    (found,) = [step.size_bytes for step in rows if step.is_total and step.label == term]
    assert found is not None
    return found


def runtime_lines(rows: tuple[FormulaRow, ...]) -> list[FormulaRow]:
    """The lines of activations and graphs whose formula makes bytes: not what was measured, nor what was learned."""
    start = next(index for index, step in enumerate(rows) if step.is_total and step.label == "KV cache")
    made = (step for step in rows[start:] if not step.is_total and step.size_bytes is not None)
    return [step for step in made if step.label.strip() not in {"measured", "learned"}]


def computed(formula: str) -> float:
    """What comes out of a formula when its words are left away."""
    text = re.split(r", (?=[a-z])", formula.rpartition(": ")[2])[0]
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    meant = {"x": "*", "max": "max", "GiB": f"* {GIB}", "KiB": "* 1024"}
    figures = re.sub(r"[A-Za-z][A-Za-z-]*", lambda word: meant.get(word[0], ""), text)
    return float(eval(figures))  # noqa: S307 - figures, operators and max are all that is left


def check(wanted: Request, split: Split, card: str = H100) -> None:
    rows = steps_of(wanted, split, card)
    figures = estimate(wanted, gpu(card), split, engine_settings(wanted, gpu(card), split))
    assert lines_before(rows, "weights") == total(rows, "weights") == figures.weights_bytes
    assert lines_before(rows, "KV cache") == total(rows, "KV cache") == figures.kv_cache_bytes
    assert lines_before(rows, "activations") == total(rows, "activations") == figures.activations_bytes
    assert lines_before(rows, "CUDA graphs") == total(rows, "CUDA graphs") == figures.cuda_graphs_bytes
    assert lines_before(rows, "overhead") == total(rows, "overhead") == figures.overhead_bytes
    for step in runtime_lines(rows):
        assert step.size_bytes == pytest.approx(computed(step.formula), rel=1e-4, abs=256), step
    terms = ["weights", "KV cache", "activations", "CUDA graphs", "overhead"]
    terms += ["LoRA slots"] if figures.adapters_bytes else []
    terms += ["learned"] if figures.learned_bytes else []
    assert sum(total(rows, term) for term in terms) == total(rows, "needed") == figures.expected_bytes
    assert total(rows, "budget") == figures.budget_bytes
    assert total(rows, "left for KV") == figures.available_kv_bytes


@every_case("split", SPLITS, ids=str)
@every_case("kind", KINDS)
def test_lines_add_up_for_every_kind_of_model(kind: str, split: Split) -> None:
    check(request(facts_of(KINDS[kind])), split)


@every_case("split", [Split(1), Split(4), Split(2, 2), Split(4, 1, 2, expert_parallel=True)], ids=str)
@every_case(("kind", "minor"), [each for each in product(KINDS, RELEASES) if each not in product(STATES, RELEASES[:1])])
def test_lines_add_up_in_every_release(kind: str, minor: int, split: Split) -> None:
    plain = request(facts_of(KINDS[kind]), concurrency=256)
    check(in_release(plain, minor), split)
    check(in_release(replace(plain, shape=replace(plain.shape, concurrency=4)), minor), split)


@every_case("card", ["b200-sxm-180gb", "rtx-pro-6000-bse-96gb"])
@every_case("kind", ["experts", "latent", "nvfp4"])
@every_case("minor", [12, 14, 16, 21, 24, 32])
def test_lines_of_experts_add_up_on_other_gpus(minor: int, kind: str, card: str) -> None:
    wanted = request(facts_of(KINDS[kind]), concurrency=4)
    check(in_release(replace(wanted, engine=replace(wanted.engine, max_batched_tokens=8192)), minor), Split(4), card)


@every_case("kind", ["l4-24gb", "mi300x-192gb", "b200-sxm-180gb", "rx-9070-xt-16gb", "gb10-128gb"])
@every_case("minor", RELEASES)
def test_lines_add_up_on_other_gpus(minor: int, kind: str) -> None:
    wanted = in_release(request(facts_of(KINDS["dense"])), minor)
    settings = engine_settings(wanted, gpu(kind), Split(2))
    overhead = estimate(wanted, gpu(kind), Split(2), settings).overhead_bytes
    assert lines_before(steps_of(wanted, Split(2), kind), "overhead") == overhead


@every_case("split", [Split(1), Split(4)], ids=str)
@every_case("options", ENGINES)
@every_case("kind", ["dense", "tower", "experts"])
def test_lines_add_up_with_every_option(kind: str, options: str, split: Split) -> None:
    plain = request(facts_of(KINDS[kind]))
    engine = replace(plain.engine, **ENGINES[options])
    check(replace(plain, engine=engine, model=served_model(plain.model, engine.media)), split)


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
    shown = {(step.label, step.size_bytes) for step in steps_of(taught, Split(1))}
    assert {("  learned", 64 * MIB), ("learned", MIB)} <= shown


def test_learned_activations_are_a_line_among_theirs() -> None:
    plain = request()
    correction = Correction(plain.engine_kind(H100, Split(1)), activations_bytes=-3 * MIB)
    taught = replace(plain, corrections=(correction,))
    check(taught, Split(1))
    assert any((step.label, step.size_bytes) == ("  learned", -3 * MIB) for step in steps_of(taught, Split(1)))


def line(wanted: Request, term: str) -> FormulaRow:
    (found,) = [step for step in steps_of(wanted, Split(1)) if step.label.strip() == term and not step.is_total]
    return found


def test_the_branch_that_is_the_peak_has_the_bytes_and_the_others_say_theirs() -> None:
    few, many = (in_release(request(context=8192, concurrency=each), 19) for each in (4, 1024))
    assert line(few, "forward pass").formula == "8,192 tokens x 2 B x (4 x 4,096 hidden + 3 x 14,336 MLP)"
    assert line(few, "forward pass").size_bytes == 8192 * 2 * (4 * 4096 + 3 * 14_336)
    assert line(few, "sampler").size_bytes is None
    assert line(many, "forward pass").size_bytes is None
    assert line(many, "forward pass").formula.startswith(line(few, "forward pass").formula)
    assert line(many, "hidden states").formula == "8,192 tokens x 4,096 x 2 B"


def test_an_encoder_that_is_the_peak_is_shown_and_so_is_what_it_leaves() -> None:
    pictures = in_release(request(facts_of(KINDS["tower"]), concurrency=1), 19)
    pass_ = line(pictures, "encoder pass")
    winner = pass_.size_bytes is not None
    assert line(pictures, "decoder" if winner else "encoder kept").formula
    shown = "less than the encoder" if winner else "less than the decoder"
    assert any(shown in step.formula for step in steps_of(pictures, Split(1)))


def test_graphs_are_counted_by_layers_and_sizes() -> None:
    charged = in_release(request(concurrency=256), 21)
    assert line(charged, "first graph").formula == "0.30 GiB x 51 / 51 sizes"
    assert line(charged, "other graphs").formula == "0.017 GiB x 32 layers x 51 / 51 sizes"
    hybrid = in_release(request(facts_of(KINDS["hybrid"])), 27)
    assert "108 KiB of a prefill" in line(hybrid, "first graph").formula
    free = [step for step in steps_of(in_release(charged, 19), Split(1)) if step.label == "CUDA graphs"]
    assert "lie outside the budget" in free[0].formula


def test_formulas_carry_the_numbers_that_they_are_made_of() -> None:
    shown = {step.label.strip(): step.formula for step in steps_of(request(), Split(2))}
    assert shown["mlp.gate_proj"] == "32 layers x 7,168 x 4,096 x 16 bit (cut by outputs)"
    assert shown["load"] == "8 x 256 blocks = 2,048 blocks"
    assert "8 KV heads x (128 + 128)" in shown["cache"]


def test_the_stage_that_is_short_is_named() -> None:
    (line,) = [step for step in steps_of(request(), Split(1, 2)) if step.label == "weights" and step.is_total]
    assert "of 2, short first" in line.formula
