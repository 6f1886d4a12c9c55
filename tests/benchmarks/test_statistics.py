"""The figures of the table: quantiles, errors, verdicts and bands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.accuracy.cases import Measured, Outcome
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.scoring import Measure, bands, comparable_tokens, error, errors, verdicts
from benchmarks.accuracy.split import is_held_out
from benchmarks.accuracy.statistics import quantile, summarize
from benchmarks.accuracy.table import error_cell
from tests.support.accuracy import case, scored


def test_quantiles_are_values_that_occurred() -> None:
    values = [float(number) for number in range(1, 11)]
    assert [quantile(values, share) for share in (0.5, 0.9, 1.0)] == [5, 9, 10]
    assert quantile([7.0], 0.9) == 7


def test_quantiles_refuse_what_is_not_in_order() -> None:
    for values in ([], [2.0, 1.0]):
        with pytest.raises(ValueError, match="ascending"):
            quantile(values, 0.5)


def test_a_summary_keeps_the_sign_of_the_worst() -> None:
    summary = summarize([0.5, -3.0, 1.0])
    assert summary is not None
    assert (summary.median, summary.p90, summary.worst, summary.worst_signed) == (1.0, 3.0, 3.0, -3.0)
    assert summarize([]) is None


def test_cells() -> None:
    assert error_cell([0.5, -3.0, 1.0], 2) == "1.00 / 3.00 / -3.00 (3)"
    assert error_cell([], 2) == "no answer"


def test_errors_are_predicted_less_measured() -> None:
    start = scored(weights_gib=15.0, kv_gib=50.0, kv_tokens=400_000, concurrency=48.83)
    said = Prediction(weights_gib=14.5, kv_gib=51.0, kv_tokens=408_000, concurrency=49.8)
    found = [error(start, said, measure) for measure in Measure]
    assert found == pytest.approx([-0.5, -3.333, 1.0, 2.0, 1.987], abs=1e-3)
    assert errors([start], [Prediction()], Measure.KV) == []


def test_tokens_hang_on_the_length_of_a_request() -> None:
    guessed = scored(max_model_len=None, kv_tokens=400_000)
    assert error(guessed, Prediction(kv_tokens=1), Measure.TOKENS) is None


def test_tokens_that_no_request_ever_sees_are_not_compared() -> None:
    hybrid = Measured(Outcome.OK, kv_tokens=90_048, concurrency=1.66)
    plain = Measured(Outcome.OK, kv_tokens=97_088, concurrency=2.96)
    assert comparable_tokens(hybrid, 215_040) is None
    assert comparable_tokens(plain, 32_768) == 97_088


def test_verdicts_of_failures_alone() -> None:
    starts = [scored(outcome=Outcome.OOM), scored(outcome=Outcome.OK), scored(outcome=Outcome.INSUFFICIENT_KV)]
    said = [Prediction(verdict=verdict) for verdict in (Verdict.SURE, Verdict.SURE, Verdict.NO)]
    found = verdicts(starts, said, lambda each: each.case.measured.outcome.is_memory_failure)
    assert (found.sure, found.probable, found.no, found.count) == (1, 0, 1, 2)


def test_a_tight_fit_is_one_that_ran_with_little_room() -> None:
    assert scored(concurrency=1.5).is_tight
    assert scored(kv_gib=2.0).is_tight
    assert not scored(concurrency=30.0, kv_gib=40.0).is_tight
    assert not scored(outcome=Outcome.OOM, concurrency=1.5).is_tight


def test_bands_count_what_lies_inside_and_what_is_narrow() -> None:
    starts = [scored(kv_gib=50.0), scored(kv_gib=50.0), scored()]
    narrow = Prediction(kv_low_gib=49.0, kv_high_gib=51.0)
    wide = Prediction(kv_low_gib=51.0, kv_high_gib=58.0)
    found = bands(starts, [narrow, wide, narrow])
    assert found is not None
    assert (found.inside, found.count, found.narrow, found.widths) == (1, 2, 1, (2.0, 7.0))
    assert bands(starts, [Prediction()] * 3) is None


def test_what_is_held_out_hangs_on_the_id_and_on_who_brought_it() -> None:
    logs = [case(id=f"log-{number}") for number in range(300)]
    held_out = [is_held_out(each, is_carried=True) for each in logs]
    assert 60 < sum(held_out) < 140
    assert held_out == [is_held_out(each, is_carried=True) for each in logs]
    assert all(is_held_out(each, is_carried=False) for each in logs)
    assert not any(is_held_out(replace(each, dataset="runs"), is_carried=True) for each in logs)
