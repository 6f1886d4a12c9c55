"""The order of tests: does the table speak of files that exist, does it count, and do stories keep their order?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from tests.support.order import (
    IN_TURN,
    ROOT,
    SECONDS,
    longest_file_first,
    number,
    stories_in_order,
    without_waiting,
)
from tests.support.tables import ALL, SEED

LONGEST, SHORTER = "tests/cluster/test_live_loop.py", "tests/cluster/test_zero.py"


@dataclass(frozen=True, slots=True)
class FakeItem:
    """One test of a file."""

    path: Path
    name: str
    on_cluster: bool = False
    is_step: bool = False
    stash: pytest.Stash = field(default_factory=pytest.Stash)

    def get_closest_marker(self, name: str) -> str | None:
        has = {"cluster": self.on_cluster, "story": self.is_step}
        return name if has[name] else None


def test_every_row_is_a_file_of_tests() -> None:
    assert [name for name in [*SECONDS, *IN_TURN] if not (ROOT / name).is_file()] == []


def test_files_in_turn_have_their_day_in_three_of_equal_length_and_those_that_are_asked_for_run_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def left(*names: str) -> set[str]:
        items = cast("list[pytest.Item]", [FakeItem(ROOT / name, "a") for name in names])
        today, waiting = without_waiting(items)
        assert sorted(today + waiting, key=id) == sorted(items, key=id)
        return {each.path.relative_to(ROOT).as_posix() for each in waiting}

    monkeypatch.delenv(ALL, raising=False)
    taken, lengths = list[frozenset[str]](), list[int]()
    for seed in ("2028-02-28", "2028-02-29", "2028-03-01"):
        monkeypatch.setenv(SEED, seed)
        taken.append(IN_TURN - left(LONGEST, *IN_TURN))
        lengths.append(sum(SECONDS.get(name, 60) for name in taken[-1]))
    assert sorted(name for each in taken for name in each) == sorted(IN_TURN), "each file has its day, and only one"
    assert max(lengths) - min(lengths) <= 30, lengths
    monkeypatch.setenv(SEED, "not a day")
    assert IN_TURN - left(LONGEST, *IN_TURN) in taken
    assert (left(*sorted(IN_TURN)[1:]), left(LONGEST)) == (set(), set())
    monkeypatch.setenv(ALL, "1")
    assert left(LONGEST, *IN_TURN) == set()


def test_make_finds_every_lengthy_file_by_its_marker() -> None:
    """The Makefile looks for ``mark.lengthy`` in files of tests: elsewhere it would be found by no command."""
    files = {path for path in (ROOT / "tests").rglob("*.py") if "lengthy" in path.read_text(encoding="utf-8")}
    files -= {Path(__file__)}
    assert files
    assert {path.name for path in files if "pytest.mark.lengthy" not in path.read_text(encoding="utf-8")} == set()
    assert [path for path in files if not path.name.startswith("test_")] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "grep -rl --include='test_*.py' 'mark\\.lengthy' tests" in makefile
    assert '"$(FAST) and lengthy"' in makefile
    assert '"$(FAST) and not lengthy"' in makefile


def test_long_files_come_first_and_the_tests_of_a_file_keep_their_order() -> None:
    quick, new = "tests/house/test_order.py", "tests/cluster/test_of_tomorrow.py"
    files = [(quick, False), (SHORTER, True), (new, True), (LONGEST, True)]
    items = [FakeItem(ROOT / file, name, clustered) for file, clustered in files for name in ("z", "a")]
    ordered = longest_file_first(cast("list[pytest.Item]", items))
    assert [(item.path.relative_to(ROOT).as_posix(), item.name) for item in ordered] == [
        (file, name) for file in (LONGEST, SHORTER, new, quick) for name in ("z", "a")
    ]


def test_a_file_is_long_or_new_if_one_of_its_tests_needs_a_cluster() -> None:
    mixed, quick = ROOT / "tests/testbed/test_of_tomorrow.py", ROOT / "tests/app/test_of_tomorrow.py"
    items = [FakeItem(quick, "a"), FakeItem(mixed, "plain"), FakeItem(mixed, "clustered", on_cluster=True)]
    ordered = longest_file_first(cast("list[pytest.Item]", items))
    assert [item.name for item in ordered] == ["plain", "clustered", "a"]


def test_a_story_keeps_the_order_of_its_file_and_others_that_of_the_shuffle() -> None:
    story, other = ROOT / "tests/cluster/test_zero.py", ROOT / "tests/cluster/test_chart.py"
    found = [FakeItem(path, name, is_step=path == story) for path in (story, other) for name in ("a", "b", "c")]
    for item in found:
        number(cast("pytest.Item", item))
    shuffled = [found[index] for index in (5, 2, 0, 4, 1, 3)]
    ordered = stories_in_order(cast("list[pytest.Item]", shuffled))
    assert [(item.path == story, item.name) for item in ordered] == [
        (False, "c"),
        (True, "a"),
        (True, "b"),
        (False, "b"),
        (True, "c"),
        (False, "a"),
    ]
