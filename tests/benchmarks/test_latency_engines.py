"""Speed of engines other than vLLM: their own rows, one factor for each constant, and no word of rows that are not."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.latency import engines
from benchmarks.latency.cases import Case, cases_of
from benchmarks.latency.folds import folds
from benchmarks.latency.prediction import predict
from benchmarks.latency.rows import read_rows
from benchmarks.latency.scoring import errors, ratios
from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.gpus import GpuType, WeightKind
from plimsoll.performance.hardware_speed import as_run_by, speed_of

CARDS = {gpu.name: gpu for gpu in load_gpu_types()}


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return cases_of(read_rows(engines.ENGINE_ROWS["sglang"]))


def validated(gpu: GpuType) -> set[tuple[str, str]]:
    """The kinds of weights and loads of which figures are called validated."""
    return {
        (kind.value, load)
        for kind, both in zip(WeightKind, speed_of(gpu).trust.bands, strict=True)
        for load, band in zip(("few", "many"), both, strict=True)
        if band.is_validated
    }


def test_every_row_names_a_known_model_and_card_and_none_is_carried_twice(cases: list[Case]) -> None:
    assert len(cases) == 317
    seen = Counter(
        (row.source, row.gpu, row.model, row.precision, row.tensor_parallel, row.tpot)
        for row in read_rows(engines.ENGINE_ROWS["sglang"])
    )
    assert max(seen.values()) == 1
    assert not any(case.row.synchronous for case in cases)


def test_factors_bring_the_errors_of_new_sources_below_those_of_vllms_constants(cases: list[Case]) -> None:
    held_out = engines.read_held_out("sglang")
    for kind in ("gpu", "model", "source"):
        assert set(folds(cases, kind)) == set(held_out[kind])
    found = errors(ratios(cases, engines.predictions(cases, held_out, "source"), ttft=False))
    usual = errors(ratios(cases, [*map(predict, cases)], ttft=False))
    assert found is not None
    assert usual is not None
    assert found.median < 0.14 < usual.median
    assert abs(found.bias) < 0.05 < abs(usual.bias)


def test_the_catalogue_has_each_constant_of_vllm_times_the_engines_factor() -> None:
    for name in ("h100-sxm-80gb", "t4-16gb", "mi300x-192gb"):
        usual = speed_of(CARDS[name]).efficiency
        own = speed_of(as_run_by(CARDS[name], "sglang")).efficiency
        assert own.layer_seconds == pytest.approx(1.23 * usual.layer_seconds)
        assert own.product_16bit == pytest.approx(0.9 * usual.product_16bit, rel=0.01)
    assert as_run_by(CARDS["h100-sxm-80gb"], "vllm") is CARDS["h100-sxm-80gb"]


def test_a_card_is_measured_if_twenty_of_its_first_tokens_are_scored_and_no_figure_is_validated_by_fewer() -> None:
    scored = Counter(row.gpu for row in read_rows(engines.ENGINE_ROWS["sglang"]) if row.scored_ttft is not None)
    for name, gpu in CARDS.items():
        if gpu.speed is not None and not gpu.is_slice:
            own = as_run_by(gpu, "sglang")
            assert (speed_of(own).trust.name == "measured") is (scored[name] >= 20), name
            assert validated(own) == set(), "no kind of weights has as many first tokens on any card"
    assert len(validated(CARDS["h100-sxm-80gb"])) > 1, "vLLM's rows are more"


def test_an_engine_without_rows_has_the_usual_constants_and_nothing_validated() -> None:
    for gpu in (CARDS["b200-sxm-180gb"], CARDS["h100-sxm-80gb"]):
        other = as_run_by(gpu, "abacus")
        assert speed_of(other).efficiency == speed_of(gpu).efficiency
        assert validated(other) == set()
