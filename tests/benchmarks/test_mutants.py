"""The mutation run: what it changes, what it leaves alone, and how it counts. No mutant is made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutants.areas import AREAS
from benchmarks.mutants.choosing import is_left_alone, spans_left_alone
from benchmarks.mutants.mutant import Equivalent, Mutant, Verdict, changed_lines, equivalents, stale
from benchmarks.mutants.table import score, survivors, table

ROOT = Path(__file__).resolve().parents[2]

SOURCE = """\
from dataclasses import dataclass
@dataclass(frozen=True)
class Pod:
    gpus: int | None = 1 | 2
def share(pods: list[Pod] | None, limit: int = 3) -> int | None:
    return dict(zip(pods, limit, strict=True)) or 1 + 2
"""


def text_at(start: tuple[int, int], end: tuple[int, int]) -> str:
    assert start[0] == end[0]
    return SOURCE.splitlines()[start[0] - 1][start[1] : end[1]]


def test_annotations_decorators_and_strict_are_left_alone() -> None:
    assert {text_at(*span) for span in spans_left_alone(SOURCE)} == {
        "dataclass(frozen=True)",
        "int | None",
        "list[Pod] | None",
        "int",
        "True",
    }


def test_values_beside_an_annotation_are_changed() -> None:
    spans = spans_left_alone(SOURCE)
    left_alone, value, default = SOURCE.splitlines()[3].index("|"), SOURCE.splitlines()[3].rindex("|"), 45
    assert is_left_alone((4, left_alone), (4, left_alone + 1), spans)
    assert not is_left_alone((4, value), (4, value + 1), spans)
    assert not is_left_alone((5, default), (5, default + 1), spans)


@pytest.mark.parametrize("area", AREAS)
def test_an_area_names_modules_and_tests_that_exist(area: str) -> None:
    found = list(AREAS[area].modules(ROOT))
    assert len(found) > 5
    assert all((ROOT / each.removeprefix("--ignore=")).exists() for each in AREAS[area].arguments)
    assert AREAS[area].left_out <= {path.stem for path in (ROOT / "operator/plimsoll" / AREAS[area].source).iterdir()}
    assert not AREAS[area].left_out & {Path(each).stem for each in found}


def test_the_tests_named_after_a_module_run_first() -> None:
    own, everything = AREAS["placement"].stages(ROOT, "operator/plimsoll/placement/plan.py")
    assert own == [f"tests/placement/test_plan{rest}.py" for rest in ("", "_failure", "_recovery")]
    assert everything == ["tests/placement", "tests/stories"]
    assert AREAS["placement"].stages(ROOT, "operator/plimsoll/placement/first_fit.py") == [everything]


def test_tests_that_take_long_run_at_no_stage() -> None:
    (everything,) = AREAS["rebalance"].stages(ROOT, "operator/plimsoll/rebalance/properties.py")
    assert everything == ["tests/rebalance", "--ignore=tests/rebalance/test_properties.py"]


def test_a_change_is_known_by_its_lines_without_their_indentation() -> None:
    assert changed_lines("if a:\n    b = 1\n    c = 2\n", "if a:\n    b = 0\n    c = 2\n") == ("b = 1", "b = 0")


MUTANT = Mutant("operator/a.py", "read", 7, "b = 1", "b = 0")
KNOWN = Equivalent("operator/a.py", "read", "b = 1", "b = 0", "b is read nowhere")


def test_an_equivalent_is_found_on_any_line_of_its_function_only() -> None:
    assert KNOWN.is_of(MUTANT)
    assert KNOWN.is_of(Mutant("operator/a.py", "read", 9, "b = 1", "b =  0"))
    assert not KNOWN.is_of(Mutant("operator/a.py", "write", 7, "b = 1", "b = 0"))
    assert not KNOWN.is_of(Mutant("operator/a.py", "read", 7, "b = 1", "b = 2"))


def test_an_equivalent_whose_line_is_gone_is_stale(tmp_path: Path) -> None:
    (tmp_path / "operator").mkdir()
    (tmp_path / "operator" / "a.py").write_text("def read():\n    b = 1\n")
    assert stale([KNOWN], tmp_path) == []
    (tmp_path / "operator" / "a.py").write_text("def read():\n    b = 10\n")
    assert stale([KNOWN], tmp_path) == [KNOWN]
    (tmp_path / "operator" / "a.py").unlink()
    assert stale([KNOWN], tmp_path) == [KNOWN]


def test_each_known_equivalent_has_a_reason() -> None:
    assert all(entry.reason.endswith(".") and entry.before != entry.after for entry in equivalents())


def test_the_score_counts_timeouts_as_noticed_and_equivalents_not_at_all() -> None:
    results = [(MUTANT, verdict) for verdict in (Verdict.KILLED, Verdict.TIMED_OUT, Verdict.EQUIVALENT)]
    assert score(results) == 1.0
    assert score([*results, (MUTANT, Verdict.SURVIVED)]) == pytest.approx(2 / 3)
    assert score(results[2:]) is None


def test_the_report_has_a_row_for_each_area_and_shows_each_survivor() -> None:
    found = {"one": [(MUTANT, Verdict.SURVIVED), (MUTANT, Verdict.KILLED)], "two": []}
    assert table(found).splitlines()[2:] == ["| one | 2 | 1 | 0 | 1 | 0 | 50.0% |", "| two | 0 | 0 | 0 | 0 | 0 | - |"]
    assert survivors(found) == "operator/a.py:7 read\n  - b = 1\n  + b = 0"
