"""The order in which several workers take files: does the table speak of files that exist, and does it count?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.support.order import ROOT, SECONDS, longest_file_first

LONGEST, SHORTER = "tests/cluster/test_live_loop.py", "tests/cluster/test_zero.py"


@dataclass(frozen=True, slots=True)
class FakeItem:
    """One test of a file."""

    path: Path
    name: str
    on_cluster: bool = False

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == "cluster" and self.on_cluster else None


def test_every_row_is_a_file_of_tests() -> None:
    assert [name for name in SECONDS if not (ROOT / name).is_file()] == []


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
