"""Runs under a load are only worth something if the load is there, and gone afterwards."""

from __future__ import annotations

import sys

import pytest

from scripts.slow_machine import busy_loops, main


def test_the_loops_run_for_the_length_of_the_block_alone() -> None:
    with busy_loops(2) as loops:
        assert [loop.poll() for loop in loops] == [None, None]
    assert all(loop.poll() for loop in loops)


@pytest.mark.parametrize("status", [0, 3])
def test_the_commands_own_status_is_passed_on(status: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--busy", "1", "--", sys.executable, "-c", f"raise SystemExit({status})"]) == status
    assert "CPU seconds" in capfd.readouterr().err
