"""The latency benchmark: rows, cases, scores and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.accuracy.prediction import PeerUnavailable
from benchmarks.latency import peer
from benchmarks.latency.__main__ import main
from benchmarks.latency.bands import TPOT, TTFT, bands_of, coverage_of_new_sources, predictions
from benchmarks.latency.cases import Case, cases_of
from benchmarks.latency.document import BEGIN, END
from benchmarks.latency.folds import FEW, folds, read_held_out
from benchmarks.latency.parameters import COMMON, FAMILY, Fitted
from benchmarks.latency.prediction import Prediction, bandwidth_floor, predict, roofline
from benchmarks.latency.rows import DATA, ROWS, read_rows
from benchmarks.latency.scoring import covered, errors, order, quantile, ratios, weighted_quantile
from benchmarks.latency.vectors import NAMES, Stack
from plimsoll.domain.cluster.gpus import WeightKind
from plimsoll.performance.hardware_speed import speed_of

HEADER, FIRST = ROWS.read_text(encoding="utf-8").splitlines()[:2]


@pytest.fixture(name="cases", scope="module")
def some_cases() -> list[Case]:
    """Every 40th row: all of them take seconds."""
    return cases_of(read_rows()[::40])


def test_every_row_is_read_and_names_a_known_model_and_card() -> None:
    rows = read_rows()
    assert len(rows) > 1000
    every_kind = {(row.model, row.precision, row.gpu): row for row in rows}
    assert len(cases_of(every_kind.values())) == len(every_kind)


def test_ttft_is_scored_only_where_no_reason_says_otherwise() -> None:
    rows = read_rows()
    assert all(row.scored_ttft is None for row in rows if row.ttft_left_out)
    assert all(row.scored_ttft is not None for row in rows if not row.ttft_left_out)
    assert {row.ttft_left_out for row in rows} >= {"", "all at once", "saturated", "few rounds", "not published"}


def test_a_bad_figure_is_named_by_its_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text(f"{HEADER}\n{FIRST}\n{FIRST.replace(',request,', ',request,x', 1)}\n")
    assert main(["--rows", str(tmp_path / "rows.csv")]) == 2
    assert "row 2: could not convert string to float" in capsys.readouterr().err


def test_own_rows_are_scored_with_the_catalogues_constants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text(f"{HEADER}\n{FIRST}\n")
    (tmp_path / "page.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    asked = ["--rows", str(tmp_path / "rows.csv"), "--peers", "none", "--write", str(tmp_path / "page.md")]
    assert main(asked) == 0
    page = (tmp_path / "page.md").read_text()
    assert "the catalogue's constants" in capsys.readouterr().out
    assert "bandwidth floor" in page
    assert "old" not in page
    assert page.startswith("before\n")
    assert page.endswith("after\n")


def test_a_peer_is_compared_on_the_rows_that_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, lines = read_rows(), ROWS.read_text(encoding="utf-8").splitlines()
    shared = next(row for row in rows if row.gpu == "b200-sxm-180gb" and row.expert_parallel and row.data_parallel > 1)
    dense = next(row for row in rows if row.gpu == "h200-sxm-141gb" and row.model == "meta-llama/Llama-3.1-70B")
    other = next(row for row in rows if row.gpu == "mi355x-288gb")
    (tmp_path / "rows.csv").write_text("\n".join([HEADER, *(lines[row.number + 1] for row in (shared, dense, other))]))
    questions: list[Mapping[str, Any]] = []

    def answers(name: str, asked: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        assert name == "aiconfigurator_latency"
        questions.extend(asked)
        return [{"tpot": 2000 * shared.tpot, "ttft": 1.0}, {"error": "OOM: it does not fit"}]

    monkeypatch.setattr(peer, "ask", answers)
    assert main(["--rows", str(tmp_path / "rows.csv")]) == 0
    ranks = shared.tensor_parallel * shared.data_parallel
    assert [(each["moe_tp_size"], each["moe_ep_size"]) for each in questions] == [
        (1, ranks),
        (dense.tensor_parallel, 1),
    ]
    assert questions[0]["batch_size"] == round(shared.running / shared.data_parallel)
    assert [each.get("gemm_quant_mode") for each in questions] == [None, "fp8"]
    printed = capsys.readouterr().out
    _, _, compared = printed.partition("rows that aiconfigurator answers")
    assert re.search(r"\| all \| [^|]*\(1\) \| 100.0% / 100.0%, \+100.0% \(1\) \|", compared)
    assert "by its own words: 1 x OOM; 1 x no system for the card." in printed


def test_a_peer_that_cannot_be_installed_costs_its_table_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.csv").write_text(f"{HEADER}\n{FIRST}\n")

    def unreachable(*_: object) -> list[dict[str, Any]]:
        raise PeerUnavailable("no index answers")

    monkeypatch.setattr(peer, "ask", unreachable)
    assert main(["--rows", str(tmp_path / "rows.csv")]) == 0
    printed = capsys.readouterr().out
    assert "aiconfigurator was not asked: no index answers" in printed
    assert "bandwidth floor" in printed


def test_simpler_models_are_faster_than_ours_and_the_floor_is_the_fastest(cases: list[Case]) -> None:
    for case in cases:
        ours, roof, floor = predict(case).tpot, roofline(case).tpot, bandwidth_floor(case).tpot
        assert floor <= roof <= ours * 1.0001


def test_what_is_held_back_is_a_whole_card_or_a_whole_shape(cases: list[Case]) -> None:
    held_out = read_held_out()
    everything = cases_of(read_rows())
    for kind in ("gpu", "model", "source"):
        assert set(folds(everything, kind)) == set(held_out[kind])
    assert FEW in held_out["gpu"]
    assert len(predictions(everything[:20], held_out, "gpu")) == 20
    same = {case.row.gpu: fold for case, fold in zip(everything, folds(everything, "gpu"), strict=True)}
    assert same["h100-sxm-80gb"] == "h100-sxm-80gb"
    assert cases


def test_a_card_that_was_held_back_has_other_constants_than_in_the_fit() -> None:
    (case,) = cases_of([row for row in read_rows() if row.gpu == "rtx-a6000-48gb"][:1])
    held_out = read_held_out()["gpu"]["rtx-a6000-48gb"].efficiency(case.family)
    assert case.gpu.speed is not None
    assert held_out != case.gpu.speed.efficiency


def test_the_catalogue_holds_what_the_model_of_the_constants_says() -> None:
    expected = Fitted().efficiency("hopper")
    assert expected.read_16bit == FAMILY["read_16bit"].value
    assert expected.expert_spread == COMMON["expert_spread"].value
    slower = Fitted(families={"hopper": dict.fromkeys(FAMILY, 0.1)}).efficiency("hopper")
    assert slower.read_8bit / expected.read_8bit == pytest.approx(slower.read_16bit / expected.read_16bit)
    assert slower.step_seconds == expected.step_seconds
    assert Fitted().efficiency("cdna").layer_seconds == pytest.approx(1.8 * expected.layer_seconds)
    fitted = Fitted(families={"cdna3": dict.fromkeys(FAMILY, 0.1)}).efficiency("cdna3")
    assert fitted.layer_seconds == pytest.approx(exp(0.1) * 1.8 * expected.layer_seconds)


def test_the_fit_uses_the_formulas_of_the_operator() -> None:
    """The fit counts all cases at once, over arrays; the operator counts one option. Both give the same figures."""
    cases = cases_of(read_rows())
    found = [speed_of(case.gpu).efficiency for case in cases]
    tpot, ttft = Stack(cases).times(np.array([[getattr(each, name) for each in found] for name in NAMES]))
    expected = [predict(case) for case in cases]
    assert tpot == pytest.approx(np.array([each.tpot for each in expected]))
    scored = [place for place, each in enumerate(expected) if each.ttft is not None]
    assert len(scored) > 500
    assert ttft[scored] == pytest.approx(np.array([expected[place].ttft for place in scored]))


def test_no_measurement_is_carried_twice() -> None:
    """One source repeats runs of its other files with figures rounded to two decimals."""
    rows = [row for row in read_rows() if row.ttft is not None]
    seen = [replace(row, number=0, tpot=round(row.tpot, 5), ttft=round(row.ttft or 0, 4)) for row in rows]
    assert len(seen) == len(set(seen))


def test_quantiles_and_errors() -> None:
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile([0, 10], 0.9) == 9
    found = errors([1.1, 0.9, 1.5])
    assert found is not None
    assert found.count == 3
    assert found.median == pytest.approx(0.1)
    assert found.bias == pytest.approx(0.1)
    assert errors([]) is None
    with pytest.raises(ValueError, match="values: none"):
        quantile([], 0.5)


def test_a_band_covers_what_was_measured_inside_it() -> None:
    assert covered([1.0, 2.0, 0.5], (0.6, 1.5)) == 1
    assert covered([1.0, 1.5], (0.6, 1.5)) == 2


def test_a_weighted_quantile_counts_a_value_as_often_as_its_weight_says() -> None:
    assert weighted_quantile([3, 1, 2], [1, 1, 1], 0.5) == 2
    assert weighted_quantile([0, 10], [1, 1], 0.5) == 5
    assert weighted_quantile([0, 10], [3, 1], 0.5) == pytest.approx(2.5)
    assert weighted_quantile([0, 10], [1, 1], 0.01) == 0
    assert weighted_quantile([0, 10], [1, 1], 0.99) == 10
    with pytest.raises(ValueError, match="values: none"):
        weighted_quantile([], [], 0.5)


def test_a_band_is_drawn_to_all_rows_where_a_cell_has_few_groups() -> None:
    """One group says twice the time, all others that the estimate is right: its band goes a seventh of the way."""
    kept = cases_of({(row.source, row.model, row.gpu): row for row in read_rows() if row.running <= 128}.values())
    (odd,) = (case for case in kept if case.work.kind is WeightKind.EXPERTS_4BIT_INTEGER and case.family == "blackwell")
    answers = [Prediction(case.row.tpot / (2 if case is odd else 1), None) for case in kept]
    low, high = bands_of(kept, [answers], TPOT).edges(odd)
    assert low == pytest.approx(log(2) / 7, rel=0.01)
    assert high == pytest.approx(log(2) / 7, rel=0.01)


def test_a_source_is_judged_by_bands_that_were_made_without_it(cases: list[Case]) -> None:
    """Everything is exact, except one source that takes twice the time: none of its rows are inside."""
    answers = [Prediction(case.row.tpot / (2 if case.row.source == "ml-energy" else 1), None) for case in cases]
    found = coverage_of_new_sources(cases, [answers], TPOT)
    assert found["ml-energy"].inside == 0
    assert found["ml-energy"].width == pytest.approx(1)
    assert found["ml-energy"].above_quarter == found["ml-energy"].rows
    assert found["aiconfigurator"].inside == found["aiconfigurator"].rows > 5
    assert found["all"].rows == len(cases)


def test_one_in_four_measured_times_is_above_the_upper_quarter() -> None:
    """Promises count with it, so it must not be an assumption."""
    cases, held_out = cases_of(read_rows()), read_held_out()
    answers = [predictions(cases, held_out, kind) for kind in ("source", "model")]
    for figure in (TPOT, TTFT):
        found = coverage_of_new_sources(cases, answers, figure)["all"]
        assert 0.2 < found.above_quarter / found.rows < 0.3


def test_rows_that_are_never_fitted_name_known_models_and_other_sources() -> None:
    rows = read_rows(DATA / "test.csv")
    assert len(cases_of(rows)) == len(rows) > 30
    assert not {row.source for row in rows} & {row.source for row in read_rows()}
    assert [row.eager for row in rows].count(True) == 1


def test_order_compares_cards_that_served_the_same_load() -> None:
    rows = [
        row
        for row in read_rows()
        if (row.source, row.model, row.prompt, row.output, row.running)
        == ("aiconfigurator", "openai/gpt-oss-120b", 1024, 1024, 16)
    ]
    cases = cases_of(rows)
    exact = [Prediction(case.row.tpot, None) for case in cases]
    turned = [Prediction(1 / case.row.tpot, None) for case in cases]
    assert order(cases, exact).right == order(cases, exact).pairs > 10
    assert order(cases, turned).right == 0
    assert ratios(cases, exact, ttft=False) == [1.0] * len(cases)
