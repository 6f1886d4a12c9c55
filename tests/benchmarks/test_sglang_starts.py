"""SGLang's law on the starts that others logged: how far off it is, and what it calls sure."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest

from benchmarks.accuracy import sglang
from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.cases import BadRow
from benchmarks.accuracy.loading import Sources, load
from benchmarks.accuracy.sglang import STARTS, Start, by_model, read_starts
from benchmarks.accuracy.statistics import summarize
from plimsoll.domain.decisions.outcomes import Fit
from plimsoll.domain.decisions.terms import DoubtKind
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.sglang.memory.doubts import MEASURED, region_of
from plimsoll.memory.blocks import block_ends_bytes
from plimsoll.memory.weights import weights_bytes

CARRIED = read_starts(STARTS, [], [])
RAN = [each for each in CARRIED if each.ran and each.tokens]
ROW: dict[str, Any] = {
    "engine": "sglang",
    "id": "mine",
    "engine_version": "0.5.20",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "NVIDIA H100 80GB HBM3",
    "mem_fraction_static": 0.85,
    "kv_cache_tokens": 400_000,
    "outcome": "ok",
}


def read(tmp_path: Path, *rows: dict[str, Any]) -> tuple[list[Start], list[BadRow]]:
    path, left_out = tmp_path / "starts.json", list[BadRow]()
    path.write_text(json.dumps(rows), encoding="utf-8")
    return read_starts(path, left_out, []), left_out


def test_tokens_are_as_near_as_promised_on_starts_that_tell_their_share() -> None:
    found = summarize([each.error for each in RAN if each.error is not None])
    assert found is not None
    assert found.median <= 0.02
    assert found.p90 <= 0.08


def test_no_model_stands_for_the_others() -> None:
    """Most rows are of two models; the middle model is as near as the middle row."""
    medians = sorted(each.median for each in by_model(CARRIED).values())
    assert len(medians) >= 10
    assert median_low(medians) <= 0.02


def test_the_law_of_the_pool_follows_from_the_logged_free_memory_alone() -> None:
    """No weight and no card is guessed here, so what is left is the rounding of logs."""
    errors = [abs(each.law_error) for each in RAN if each.law_error is not None]
    assert len(errors) >= 20
    assert max(errors) <= 0.015


def test_every_start_that_ran_is_inside_the_band_and_no_failure_is_sure() -> None:
    assert [each.id for each in CARRIED if each.is_inside is False] == []
    assert [each.id for each in CARRIED if each.is_false_sure] == []
    assert [each.id for each in CARRIED if each.is_needless_no] == []
    assert any(not each.ran for each in CARRIED)


def test_what_4_bits_take_more_is_the_same_for_a_model_that_was_held_back() -> None:
    more = dict[str, float]()
    for each in CARRIED:
        model, precision = each.request.model, each.request.precision
        if each.weights_gib is None or precision not in (Precision.AWQ, Precision.GPTQ, Precision.NVFP4):
            continue
        tensors = weights_bytes(model, precision, each.split)
        more[each.model] = (each.weights_gib * GIB - block_ends_bytes(model, precision, each.split)) / tensors - 1
    del more["Devstral-Small-2-24B-AWQ"]  # its log counts what the garbage collector had not freed yet
    assert len(more) == 4
    for held, own in more.items():
        by_others = median_low([each for model, each in more.items() if model != held])
        assert abs(own - by_others) < 0.04
        assert abs(own - by_others) < own


def test_the_kinds_of_starts_that_count_as_measured_are_those_that_are_carried() -> None:
    seen = {
        region_of(each.request.model, each.gpu, each.split)
        for each in CARRIED
        if each.ran and (each.tokens or each.weights_gib)
    }
    assert seen == MEASURED
    for each in CARRIED:
        doubts = {doubt.kind for doubt in each.figures.doubts}
        is_seen = region_of(each.request.model, each.gpu, each.split) in MEASURED
        assert is_seen or DoubtKind.NOT_MEASURED in doubts
        assert is_seen or each.figures.fit is not Fit.SURE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mem_fraction_static": None}, "the share is not stated"),
        ({"model": "nobody/knows-it"}, "no configuration: nobody/knows-it"),
        ({"gpu": "not stated"}, "the card is not stated"),
        ({"engine_version": "0.3.3"}, "no memory law is known before"),
    ],
)
def test_a_start_without_what_the_law_needs_is_left_out_by_name(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    found, left_out = read(tmp_path, ROW | change, ROW | {"id": "neighbour"})
    assert [each.id for each in found] == ["neighbour"]
    assert [row.name for row in left_out] == ["mine"]
    assert reason in left_out[0].reason


def test_a_card_that_others_use_has_the_memory_that_was_free(tmp_path: Path) -> None:
    alone, shared = ROW, ROW | {"gpu": "NVIDIA H100 (shared)", "free_before_load_gib": 40.0}
    (whole, half), _ = read(tmp_path, alone, shared)
    assert whole.needs == ()
    assert half.needs == ("what others hold",)
    assert half.figures.budget_bytes == pytest.approx(0.85 * 40 * GIB, rel=1e-6)
    assert whole.figures.budget_bytes == pytest.approx(0.85 * 78.45 * GIB, rel=0.002)


def test_rows_of_both_engines_in_one_file_get_a_table_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.json"
    vllm = {key: value for key, value in ROW.items() if key not in ("engine", "mem_fraction_static")}
    path.write_text(json.dumps([ROW, vllm | {"id": "other", "vllm_version": "0.19.0"}]), encoding="utf-8")
    loaded = load(Sources(runs=None, logs=path, oracle=None))
    assert [each.case.id for each in loaded.scored] == ["other"]
    monkeypatch.setattr("benchmarks.accuracy.__main__.PREDICTIONS", tmp_path / "predictions.jsonl")
    assert main(["--logs", str(path), "--peers", "none", "--predictions", str(tmp_path / "out.jsonl")]) == 0
    written = capsys.readouterr().out
    assert "| mine | 0.5.20 |" in written
    assert "1 starts with a stated share" in written
    assert sglang.ENGINE == "sglang"
