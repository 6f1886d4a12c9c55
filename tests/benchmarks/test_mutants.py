"""The mutation run: what it changes, what it leaves alone, which tests it runs, how it counts, and when it fails."""

from __future__ import annotations

import builtins
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cosmic_ray.work_item import MutationSpec

from benchmarks.mutants import __main__ as command
from benchmarks.mutants import noting
from benchmarks.mutants.areas import AREAS
from benchmarks.mutants.changed import base_of, changed_since
from benchmarks.mutants.choosing import is_left_alone, spans_left_alone
from benchmarks.mutants.mutant import Equivalent, Mutant, Verdict, changed_lines, equivalents, stale
from benchmarks.mutants.reach import Reach, marked
from benchmarks.mutants.running import INTERRUPTED, PLUGINS, bounded, compiles, verdict_of
from benchmarks.mutants.table import score, survivors, table

ROOT = Path(__file__).resolve().parents[2]

SOURCE = """\
from dataclasses import dataclass
@dataclass(frozen=True)
class Pod:
    gpus: int | None = 1 | 2
    name: str = field(default="", repr=False, compare=False)
def share(pods: list[Pod] | None, limit: int = 3) -> int | None:
    return dict(zip(pods, limit, strict=True)) or 1 + 2
"""


def text_at(start: tuple[int, int], end: tuple[int, int]) -> str:
    assert start[0] == end[0]
    return SOURCE.splitlines()[start[0] - 1][start[1] : end[1]]


def test_annotations_decorators_strict_and_repr_are_left_alone() -> None:
    assert {text_at(*span) for span in spans_left_alone(SOURCE)} == {
        "dataclass(frozen=True)",
        "int | None",
        "list[Pod] | None",
        "int",
        "str",
        "True",
        "False",
    }
    spans = spans_left_alone(SOURCE)
    alone = [text_at(*span) for span in spans if span[0][0] == 5]
    assert sorted(alone) == ["False", "str"], "whether a field is compared is tried"


@pytest.mark.parametrize(
    ("source", "alone"),
    [
        ("def area(wide: int = 2 * 3, *, high: int) -> int:\n    return wide * high", [False, True, False]),
        ("area = lambda *, wide, high=2 * 3: wide * high", [True, False, False]),
    ],
)
def test_the_star_before_arguments_with_names_alone_is_no_product(source: str, alone: list[bool]) -> None:
    lines = source.splitlines()
    stars = [(row, column) for row, line in enumerate(lines, 1) for column, sign in enumerate(line) if sign == "*"]
    spans = spans_left_alone(source)
    assert [is_left_alone((row, at), (row, at + 1), spans) for row, at in stars] == alone


@pytest.mark.parametrize(
    ("source", "operator", "is_tried"),
    [
        ("def known(of):\n    return {**of, 'a': 1}\n", "Pow_Mul", False),
        ("def known(of):\n    return of**2\n", "Pow_Mul", True),
        ("def known(of):\n    match of:\n        case 1 | 2:\n            return 3\n", "BitOr_BitAnd", False),
        ("def known(of):\n    return of | 2\n", "BitOr_BitAnd", True),
    ],
    ids=["two dicts", "a power", "two patterns", "a union"],
)
def test_a_mutant_that_python_does_not_even_read_is_not_tried(
    tmp_path: Path, source: str, operator: str, *, is_tried: bool
) -> None:
    path = tmp_path / "known.py"
    path.write_text(source)
    name = f"core/ReplaceBinaryOperator_{operator}"
    assert compiles(MutationSpec(path, name, 0, (1, 0), (1, 1))) is is_tried


def test_values_beside_an_annotation_are_changed() -> None:
    spans = spans_left_alone(SOURCE)
    left_alone, value, default = SOURCE.splitlines()[3].index("|"), SOURCE.splitlines()[3].rindex("|"), 45
    assert is_left_alone((4, left_alone), (4, left_alone + 1), spans)
    assert not is_left_alone((4, value), (4, value + 1), spans)
    assert not is_left_alone((6, default), (6, default + 1), spans)


@pytest.mark.parametrize("area", AREAS)
def test_an_area_names_modules_and_tests_that_exist(area: str) -> None:
    found, tests = list(AREAS[area].modules(ROOT)), AREAS[area].files(ROOT, late=False)
    assert len(found) > 5
    assert len(tests) > 5
    every = AREAS[area].files(ROOT, late=True)
    assert all((ROOT / each).exists() for each in (*every, *AREAS[area].late))
    assert every[: len(tests)] == tests
    assert len(every) == len(set(every)) > len(tests)
    stems = {
        path.stem for folder in AREAS[area].sources for path in (ROOT / "operator/plimsoll" / folder).rglob("*.py")
    }
    assert AREAS[area].left_out <= stems
    assert not AREAS[area].left_out & {Path(each).stem for each in found}


def test_tests_named_after_a_module_and_tests_that_import_it_are_near() -> None:
    near = AREAS["placement"].nearest(ROOT, "operator/plimsoll/placement/plan.py")
    assert {f"tests/placement/test_plan{rest}.py" for rest in ("", "_failure", "_recovery")} <= set(near)
    assert "tests/placement/test_speed.py" in near
    assert "tests/placement/test_ledger.py" not in near
    assert "tests/app/test_contests.py" in AREAS["loop"].nearest(ROOT, "operator/plimsoll/app/watch/contests.py")


MARKED = """\
LIMIT = 3
def read(text, limit=LIMIT + 1):
    if not text:
        return 0
    elif len(text) > limit:
        text = text[:limit]
    return max(len(each) - 1 for each in text)
"""


def test_a_statement_is_marked_where_it_runs_and_what_runs_at_import_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positions: constant, default, first condition, ``return 0``, second condition, its body, last line."""
    source, marks = marked(MARKED, [(1, 8), (2, 29), (3, 7), (4, 15), (5, 19), (6, 15), (7, 26)], first=10)
    assert marks[:2] == [None, None]
    seen: list[int] = []
    monkeypatch.setattr(builtins, "mutant_reached", seen.append, raising=False)
    space: dict[str, object] = {}
    exec(source, space)  # noqa: S102 - the text above
    assert seen == []

    def run(text: str) -> list[int | None]:
        seen.clear()
        eval(f"read({text!r})", space)  # noqa: S307 - as above
        return [None if mark is None else seen.count(mark) for mark in marks[2:]]

    assert run("") == [1, 1, 0, 0, 0]
    assert run("ab") == [1, 0, 1, 0, 1]
    assert run("abcdef") == [1, 0, 1, 1, 1]


REACH = Reach(
    seconds={"slow.py::a": 9.0, "quick.py::a": 1.0, "own.py::a": 5.0, "own.py::b": 4.0, "other.py": 0.1},
    reached={
        "slow.py::a": frozenset({1}),
        "quick.py::a": frozenset({1, 2}),
        "own.py::a": frozenset({1}),
        "own.py::b": frozenset(),
        "other.py": frozenset(),
    },
    everywhere=frozenset({3}),
    complete=True,
)


def test_the_nearest_tests_run_first_and_then_the_quickest_of_those_that_run_the_statement() -> None:
    assert REACH.tests(1, ["own.py"]) == ["own.py::a", "quick.py::a", "slow.py::a"]
    assert REACH.tests(2, ["own.py"]) == ["quick.py::a"]
    assert REACH.tests(4, ["own.py"]) == []
    every = ["own.py::b", "own.py::a", "other.py", "quick.py::a", "slow.py::a"]
    assert REACH.tests(3, ["own.py"]) == REACH.tests(None, ["own.py"]) == every


def test_each_batch_of_tests_takes_twice_as_long_and_none_is_left_out() -> None:
    """The first batch takes 5 seconds: 4 are too few; the second 10, of which there are only 9."""
    every = ["own.py::b", "own.py::a", "quick.py::a", "other.py", "slow.py::a"]
    assert list(REACH.batches(every)) == [every[:2], every[2:]]
    assert list(REACH.batches(every[:1])) == [every[:1]]
    assert list(REACH.batches([])) == []


LAW = """\
import functools
def table():
    mutant_reached(1)
    return {}
TABLE = table()
@functools.cache
def known():
    mutant_reached(2)
def plain():
    mutant_reached(3)
"""


TESTS = {
    "test_a.py": "import pytest\nfrom plimsoll.law import known, plain\nplain()\n"
    "@pytest.fixture(scope='module')\ndef law():\n    known()\n"
    "def test_fixed(law):\n    pass\ndef test_shared(law):\n    pass\n",
    "test_b.py": "import pytest\nfrom plimsoll.law import known\n"
    "@pytest.mark.parametrize('number', [1, 2])\ndef test_first(number):\n    known()\n"
    "def test_second():\n    known()\ndef test_third():\n    pass\n",
    "test_c.py": "import pytest\nfrom plimsoll.law import known\npytestmark = pytest.mark.story\n"
    "def test_begin():\n    known()\ndef test_end():\n    pass\n",
}


@pytest.mark.parametrize("seconds", [1e6, 0.0])
def test_a_test_runs_what_it_would_run_alone(tmp_path: Path, seconds: float) -> None:
    """Tests ask for a cached value, share a fixture, have parameters, or are steps of a story.

    One file asks for something while it is imported.
    """
    (tmp_path / "plimsoll").mkdir()
    (tmp_path / "plimsoll/__init__.py").touch()
    (tmp_path / "plimsoll/law.py").write_text(LAW)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    story\n")
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    environment = os.environ | {noting.RESULT: str(tmp_path / "reach.json"), noting.SECONDS: str(seconds)}
    environment |= {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-q", *PLUGINS, "-p", noting.__name__, f"--rootdir={tmp_path}", "."]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, env=environment)  # noqa: S603
    found = Reach.read(tmp_path / "reach.json")
    expected = {
        "test_a.py::test_fixed": {2, 3},
        "test_a.py::test_shared": {2, 3},
        "test_b.py::test_first": {2},
        "test_b.py::test_second": {2},
        "test_b.py::test_third": set[int](),
        "test_c.py": {2},
    }
    ran = list(expected) if seconds else list(expected)[:1]
    assert (done.returncode, found.complete) == ((0, True) if seconds else (INTERRUPTED, False))
    assert list(found.seconds) == ran
    assert found.everywhere == {1}
    assert {test: {2, 3} & found.reached[test] for test in ran} == {test: expected[test] for test in ran}


class Repository:
    """A repository with decision code, whose commits have the times that a test gives them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *arguments: str, hour: int = 0) -> str:
        at = f"2026-11-{1 + hour // 24:02}T{hour % 24:02}:00:00Z"
        who = {f"GIT_{role}_{name}": "a" for role in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")}
        times = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at, "HOME": str(self.root), "PATH": os.environ["PATH"]}
        command = ["git", *arguments]
        told = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True, env=who | times)  # noqa: S603
        return told.stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self, *, hour: int, path: str = "operator/plimsoll/placement/a.py", text: str = "") -> str:
        self.write(path, text or f"HOUR = {hour}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a", hour=hour)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_on_main_the_commits_of_a_day_are_compared_with_the_one_before_them(repository: Repository) -> None:
    assert base_of(repository.root) is None, "nothing at all"
    first = repository.commit(hour=0)
    assert base_of(repository.root) is None, "a single commit"
    repository.commit(hour=23)
    assert base_of(repository.root) == first, "there is none that is a day older"
    second = repository.commit(hour=30)
    repository.commit(hour=40)
    repository.commit(hour=54)
    assert base_of(repository.root) == second


def test_a_branch_is_compared_with_where_it_has_left_main(repository: Repository) -> None:
    repository.commit(hour=0)
    left = repository.commit(hour=100)
    repository.git("switch", "--quiet", "--create", "mine")
    for hour in (101, 190):
        repository.commit(hour=hour)
        assert base_of(repository.root) == left


def test_changes_that_are_not_committed_are_all_that_counts_on_main(repository: Repository) -> None:
    repository.commit(hour=0)
    newest = repository.commit(hour=50, path="README.md")
    repository.write("README.md", "changed\n")
    assert base_of(repository.root) != newest, "no decision code"
    repository.write("operator/plimsoll/placement/b.py", "B = 1\n")
    assert base_of(repository.root) == newest


def test_changed_lines_are_those_of_commits_of_the_working_tree_and_of_new_files(repository: Repository) -> None:
    path, gone, new = (f"operator/plimsoll/placement/{name}.py" for name in ("a", "gone", "new"))
    repository.commit(hour=0, path=gone, text="1\n")
    base = repository.commit(hour=0, path=path, text="1\n2\n3\n4\n5\n6\n")
    repository.commit(hour=1, path=path, text="1\ntwo\n3\n4\n5\n6\n")
    repository.write(path, "1\ntwo\n3\n5\n6\nseven\neight\n")
    (repository.root / gone).unlink()
    repository.write(new, "1\n2\n")
    repository.write("tests/placement/test_a.py", "1\n")
    assert changed_since(repository.root, base) == {path: {2, 6, 7}, new: {1, 2}}


def test_the_gate_names_the_survivor_on_changed_lines_and_fails(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Equality is tested for one of two limits; the limit that has not changed is tested by nothing."""
    folder = "operator/plimsoll/placement"
    for name in ("noting", "__init__"):
        repository.write(f"benchmarks/mutants/{name}.py", (ROOT / f"benchmarks/mutants/{name}.py").read_text())
    for path in ("operator/plimsoll/__init__.py", f"{folder}/__init__.py", "benchmarks/__init__.py"):
        repository.write(path, "")
    old = "def old(have, want):\n    return have > want\n"
    repository.commit(hour=0, path=f"{folder}/limits.py", text=old)
    new = "def {name}(have, want):\n    return have >= want\n"
    test = "from plimsoll.placement.limits import exact, loose\ndef test_limits():\n    assert exact(2, 2)\n"
    test += "".join(f"    assert {name}(3, 2) and not {name}(1, 2)\n" for name in ("exact", "loose"))
    repository.write("tests/placement/test_limits.py", test)
    changed = old + new.format(name="loose") + new.format(name="exact")
    repository.commit(hour=1, path=f"{folder}/limits.py", text=changed)
    monkeypatch.setattr(command, "ROOT", repository.root)
    monkeypatch.setattr(command, "equivalents", list)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    assert command.main(["--changed", "--seed", "7", "--seconds", "100000"]) == 1
    said = capsys.readouterr()
    assert "--seed 7, in placement" in said.err
    assert said.out.endswith(
        f"Survivors:\n{folder}/limits.py:4 loose\n  - return have >= want\n  + return have > want\n"
    )
    assert "| placement | 4 | 3 | 0 | 1 | 0 | 0 | 75.0% |" in said.out
    assert command.main(["--changed", "--seconds", "0"]) == 0
    assert "4 of 4 were not tried in this time" in capsys.readouterr().err
    monkeypatch.setattr(command, "GATE_SAMPLE", 3)
    assert command.main(["--changed", "--seconds", "0"]) == 0
    said_of_a_sample = capsys.readouterr().err
    assert "3 of 4 mutants are chosen" in said_of_a_sample
    assert "3 of 3 were not tried in this time" in said_of_a_sample
    repository.write("tests/placement/test_limits.py", "def test_limits():\n    assert False\n")
    assert command.main(["--changed"]) == 2
    assert "error: the tests fail without any mutation" in capsys.readouterr().err
    repository.commit(hour=99, path="README.md")
    assert command.main(["--changed"]) == 0
    assert capsys.readouterr().err.endswith("no line of the decision code has changed.\n")
    shutil.rmtree(repository.root / ".git")
    assert command.main(["--changed"]) == 0
    assert "nothing to compare with" in capsys.readouterr().err


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


def test_the_score_counts_timeouts_as_noticed_and_equivalent_and_undecided_ones_not_at_all() -> None:
    verdicts = Verdict.KILLED, Verdict.TIMED_OUT, Verdict.EQUIVALENT, Verdict.UNDECIDED
    results = [(MUTANT, verdict) for verdict in verdicts]
    assert score(results) == 1.0
    assert score([*results, (MUTANT, Verdict.SURVIVED)]) == pytest.approx(2 / 3)
    assert score(results[2:]) is None


def test_the_report_has_a_row_for_each_area_and_shows_each_survivor() -> None:
    found = {"one": [(MUTANT, Verdict.SURVIVED), (MUTANT, Verdict.KILLED)], "two": []}
    assert table(found).splitlines()[2:] == [
        "| one | 2 | 1 | 0 | 1 | 0 | 0 | 50.0% |",
        "| two | 0 | 0 | 0 | 0 | 0 | 0 | - |",
    ]
    assert survivors(found) == "operator/a.py:7 read\n  - b = 1\n  + b = 0"


def test_a_mutant_that_loops_ends_although_nobody_waits_for_it() -> None:
    looping = [sys.executable, "-c", "while True: pass"]
    ended = subprocess.run(bounded(looping, 0.0), check=False).returncode  # noqa: S603 - our own
    assert ended in (-signal.SIGXCPU, -signal.SIGKILL)


@pytest.mark.parametrize(
    ("body", "limit", "wait", "verdict"),
    [
        ("pass", 60.0, 600.0, Verdict.SURVIVED),
        ("assert False", 60.0, 600.0, Verdict.KILLED),
        ("while True: pass", 4.0, 600.0, Verdict.TIMED_OUT),
        ("import time; time.sleep(3600)", 60.0, 0.5, Verdict.UNDECIDED),
    ],
)
def test_a_mutant_is_killed_by_a_test_that_fails_and_not_by_a_machine_that_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, limit: float, wait: float, verdict: Verdict
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text(f"def test_a():\n    {body}\n")
    monkeypatch.chdir(tmp_path)
    assert verdict_of(["test_a.py::test_a"], limit, wait) is verdict


def test_a_run_without_tests_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="no test has run"):
        verdict_of(["test_a.py"], 60.0, 600.0)
