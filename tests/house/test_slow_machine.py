"""Runs under a load are only worth something if the load is there, and gone afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts.slow_machine import busy_loops, main


def loops() -> set[str]:
    """Process ids of busy loops that this process has started."""
    children = Path("/proc/self/task").glob("*/children")
    found = [number for listed in children for number in listed.read_text().split()]
    return {number for number in found if b"while True" in Path(f"/proc/{number}/cmdline").read_bytes()}


def test_the_loops_run_for_the_length_of_the_block_alone() -> None:
    with busy_loops(2):
        assert len(loops()) == 2
    assert loops() == set()


@pytest.mark.parametrize("status", [0, 3])
def test_the_commands_own_status_is_passed_on(status: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--busy", "1", "--", sys.executable, "-c", f"raise SystemExit({status})"]) == status
    assert "CPU seconds" in capfd.readouterr().err
