"""Measured rows of serving latency, simulated."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from benchmarks.latency.cases import Case, cases_of
from benchmarks.latency.prediction import Prediction
from benchmarks.latency.rows import Row, read_rows
from benchmarks.latency.scoring import errors, ratios
from benchmarks.rebalance.checking import GPU_TYPES, Column, can_be_simulated, main, report, simulate
from benchmarks.rebalance.closed_loop import SPREAD, Load, mean_times
from benchmarks.rebalance.step_seconds import times_of
from plimsoll.simulation.engine import SimulatedEngine
from tests.support.simulated import SPEC, engine
from tests.support.tables import every_case

ROWS = [row for row in read_rows() if can_be_simulated(row)]


@pytest.fixture(name="cases", scope="module")
def some_cases() -> list[Case]:
    """Every sixth row: all of them take seconds."""
    return cases_of([row for row in ROWS if row.gpu in GPU_TYPES][::6])


def test_simulated_rows_are_near_the_measured_ones(cases: list[Case]) -> None:
    found = [simulate(case) for case in cases]
    tpot, ttft = errors(ratios(cases, found, ttft=False)), errors(ratios(cases, found, ttft=True))
    assert tpot is not None
    assert ttft is not None
    assert tpot.count == ttft.count >= 30
    assert tpot.median < 0.08
    assert tpot.p90 < 0.25
    assert ttft.median < 0.25


@every_case(
    "change",
    [
        {"rounds": inf},
        {"running": 7.5},
        {"is_step": True},
        {"ttft": None},
        {"ttft_left_out": "all at once"},
        {"data_parallel": 2},
        {"pipeline_parallel": 2},
        {"expert_parallel": True},
    ],
)
def test_a_row_that_is_no_closed_loop_on_one_engine_is_left_out(change: dict[str, object]) -> None:
    row: Row = replace(ROWS[0], **change)  # type: ignore[arg-type]
    assert can_be_simulated(ROWS[0])
    assert not can_be_simulated(row)


def test_all_users_send_all_their_requests_and_never_two_at_once() -> None:
    seen = list[int]()
    load = Load(users=5, rounds=4, prompt_tokens=200, output_tokens=50)

    class Watched(SimulatedEngine):
        def begin(self, now: float) -> None:
            super().begin(now)
            seen.append(self.load)

    watched = Watched(SPEC, times_of(SPEC))
    mean_times(watched, load, 1)
    assert watched.totals.finished == 20
    assert max(seen) == 5
    assert watched.totals.finished_prompt_tokens == pytest.approx(20 * 200, rel=SPREAD)


def test_more_users_wait_longer() -> None:
    one, many = (mean_times(engine(), Load(users, 4, 1000, 100), 1) for users in (1, 32))
    assert one.ttft_seconds < many.ttft_seconds
    assert one.tpot_seconds < many.tpot_seconds


def test_the_table_has_every_gpu_type_and_all_together(cases: list[Case]) -> None:
    exact = [Prediction(case.row.tpot, case.row.ttft) for case in cases]
    double = [Prediction(2 * case.row.tpot, None) for case in cases]
    lines = report(cases, [Column("exact", exact), Column("double", double)]).splitlines()
    assert len(lines) == 2 + 3 * (2 + 1)
    assert lines[-1] == f"| all | {len(cases)} | double | TPOT | 100.0% | 100.0% | +100.0% |"
    assert lines[-2] == f"| all | {len(cases)} | exact | TTFT | 0.0% | 0.0% | +0.0% |"


def test_the_command_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gpu", "h100-sxm-80gb", "--step", "30"]) == 0
    printed = capsys.readouterr().out
    assert "| h100-sxm-80gb | 2 | simulated, model held back | TPOT |" in printed
    assert "| all | 2 | formulas, in the fit | TTFT |" in printed
