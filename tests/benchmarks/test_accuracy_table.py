"""The parts of the table that say how far its figures carry: hardware, flags, shares and buffers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.cases import OracleRow, Outcome
from benchmarks.accuracy.loading import Loaded, Sources, load
from benchmarks.accuracy.ours import Ours
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.predictors import Column
from benchmarks.accuracy.reading.oracle import read_oracle
from benchmarks.accuracy.report import summary
from benchmarks.accuracy.table import TableRow, table_rows
from plimsoll.domain.units import GIB
from tests.support.accuracy import LLAMA_8B, scored


def rows(loaded: Loaded, column: Column) -> dict[tuple[str, str], TableRow]:
    """Every row by the heading above it and its label."""
    found: dict[tuple[str, str], TableRow] = {}
    heading = ""
    for row in table_rows(loaded, [column]):
        if row.cells:
            found[heading.partition(":")[0], row.label] = row
        else:
            heading = row.label
    return found


def answered(*verdicts: Verdict, low: float = 40, high: float = 50) -> Column:
    said = [Prediction(kv_gib=45, verdict=each, kv_low_gib=low, kv_high_gib=high) for each in verdicts]
    return Column("ours", "here", cases=said, weights=[])


def test_coverage_and_width_stand_by_class_of_hardware() -> None:
    loaded = Loaded(
        scored=[
            scored(kv_gib=45.0, complete=True),
            scored(kv_gib=55.0, gpu="NVIDIA A100-SXM4-80GB"),
            scored(kv_gib=45.0, gpu=None, total_gib=79.2),
        ]
    )
    found = rows(loaded, answered(*(Verdict.SURE,) * 3))
    by_hardware = {
        label: row.cells[0] for (heading, label), row in found.items() if heading == "band by class of hardware"
    }
    assert by_hardware["NVIDIA Hopper"] == "1 of 1 (100%); 10.00 / 10.00 / 10.00"
    assert by_hardware["NVIDIA Ampere"] == "0 of 1 (0%); 10.00 / 10.00 / 10.00"
    assert by_hardware["card without a name"].startswith("1 of 1")
    by_flags = {
        label: row for (heading, label), row in found.items() if heading == "band by what is known of the flags"
    }
    assert by_flags["known flags"].cells == ("1 of 1 (100%); 10.00 / 10.00 / 10.00",)
    assert by_flags["assumed flags"].count == 2
    assert by_flags["of these, the card's type too"].count == 1


def test_verdicts_on_starts_that_ran_are_shares_of_those_with_a_verdict() -> None:
    loaded = Loaded(scored=[*(scored(complete=True) for _ in range(4)), scored(outcome=Outcome.OOM, complete=True)])
    column = answered(Verdict.SURE, Verdict.SURE, Verdict.PROBABLE, Verdict.NO, Verdict.SURE)
    found = rows(loaded, column)["share of the starts that ran", "all"]
    assert (found.count, found.cells) == (4, ("50%, 25%, 25% (4)",))


def oracle(folder: Path, **fields: Any) -> OracleRow:
    path = folder / "oracle.jsonl"
    path.write_text(json.dumps({"config": "own__model", "tp": 1, **fields}) + "\n")
    (row,) = read_oracle(path, [])
    return row


def test_a_row_says_whether_its_bytes_count_buffers(tmp_path: Path) -> None:
    assert oracle(tmp_path, bytes=100).buffers is None
    assert oracle(tmp_path, bytes=100, buffers=True).buffers is True
    assert oracle(tmp_path, bytes=100, buffers=False).buffers is False


def test_buffers_that_are_stated_apart_are_no_part_of_what_is_compared(tmp_path: Path) -> None:
    apart = oracle(tmp_path, bytes=100, buffer_bytes=10)
    assert (apart.bytes, apart.buffers) == (100, False)
    counted = oracle(tmp_path, bytes=110, buffer_bytes=10, buffers=True)
    assert (counted.bytes, counted.buffers) == (100, False)


def loaded_weights(folder: Path, *fields: dict[str, Any]) -> Loaded:
    (folder / "configs").mkdir()
    (folder / "configs" / "own__model.json").write_text(json.dumps(LLAMA_8B))
    lines = [json.dumps({"config": "own__model", "tp": number + 1, **each}) for number, each in enumerate(fields)]
    (folder / "oracle.jsonl").write_text("\n".join(lines))
    return load(Sources(runs=None, logs=None, configs=folder / "configs", oracle=folder / "oracle.jsonl"))


def test_weights_are_compared_with_buffers_where_the_row_counts_them(tmp_path: Path) -> None:
    """131,072 positions of 128 values in 16 bits: 32 MiB of rotary tables in addition to the parameters."""
    tables, weights = 131_072 * 128 * 2, 2 * 8_030_261_248
    loaded = loaded_weights(tmp_path, {"bytes": weights + tables, "buffers": True})
    (said,) = Ours().predict_weights([setup for _, setup in loaded.weights])
    assert said.buffers_gib == tables / GIB
    column = Column("ours", "here", cases=[], weights=[said])
    found = rows(loaded, column)
    heading = "weights of one rank against the engine's own modules, without a GPU"
    assert found[heading, "all: error in %"].cells == ("0.00 / 0.00 / +0.00 (1)",)
    assert not any("do not say" in label for _, label in found)
    assert not any("`buffers`" in line for line in summary(loaded, [column]))


def test_rows_that_do_not_say_it_are_shown_under_both_readings(tmp_path: Path) -> None:
    tables, weights = 131_072 * 128 * 2, 2 * 8_030_261_248
    loaded = loaded_weights(tmp_path, {"bytes": weights + tables})
    column = Column("ours", "here", cases=[], weights=Ours().predict_weights([setup for _, setup in loaded.weights]))
    cells = {label: row.cells[0] for (_, label), row in rows(loaded, column).items() if "do not say" in label}
    assert cells == {
        "rows that do not say it, taken as without buffers: error in %": "0.21 / 0.21 / -0.21 (1)",
        "rows that do not say it, taken as with buffers: error in %": "0.00 / 0.00 / +0.00 (1)",
    }
    assert any(line.startswith("- 1 rows of weights do not say") for line in summary(loaded, [column]))


def test_the_notes_name_starts_whose_card_is_assumed() -> None:
    nameless = scored(id="nameless", gpu=None, total_gib=79.2, complete=True)
    alone = scored(id="alone", gpu=None, total_gib=139.8, complete=True)
    named = scored(id="named", complete=True)
    column = answered(*(Verdict.SURE,) * 3)
    (line,) = [each for each in summary(Loaded(scored=[nameless, alone, named]), [column]) if "name no card" in each]
    assert line.startswith("- 2 starts name no card")
    assert "nameless (the widest band of a100-sxm-80gb" in line
    assert "alone (h200-sxm-141gb alone)" in line
    assert "named (" not in line.replace("nameless (", "")


@pytest.mark.parametrize(("flags", "is_named"), [({"speculative": "eagle"}, True), ({}, False)])
def test_the_notes_name_starts_whose_speculation_is_left_out(flags: dict[str, Any], *, is_named: bool) -> None:
    lines = list(summary(Loaded(scored=[scored(other_flags=flags)]), [answered(Verdict.SURE)]))
    assert any("draft tokens in a way" in line and "(eagle)" in line for line in lines) is is_named
