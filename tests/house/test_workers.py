"""As many workers as there are cores for them: too many on a small machine only make each other wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.workers import MOST_WORKERS, cores, workers


@pytest.mark.parametrize(
    ("of", "alone", "waiting"), [(0.5, 1, 2), (1, 1, 4), (2, 2, 8), (3, 3, 12), (64, MOST_WORKERS, MOST_WORKERS)]
)
def test_a_core_has_one_worker_or_four_that_wait(of: float, alone: int, waiting: int) -> None:
    assert (workers(of, 1), workers(of, 4)) == (alone, waiting)


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("0::/a/b", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "max 100000"}),
        ("1:cpu:/a", {"cpu/a/cpu.cfs_quota_us": "50000", "cpu/a/cpu.cfs_period_us": "100000"}),
        ("4:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "50000", "cpu/a/cpu.cfs_period_us": "100000"}),
    ],
)
def test_a_limit_of_the_control_group_counts(tmp_path: Path, line: str, files: dict[str, str]) -> None:
    own = tmp_path / "own"
    own.write_text(f"7:memory:/a\n{line}\n", encoding="utf-8")
    without = cores(own, tmp_path)
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")
    assert without >= 1
    assert cores(own, tmp_path) == 0.5


def test_no_limit_and_no_control_group_leave_all_cores(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("1:cpu:/\n", encoding="utf-8")
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n", encoding="utf-8")
    assert cores(own, tmp_path) == cores(tmp_path / "nothing", tmp_path) >= 1
