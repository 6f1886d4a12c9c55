"""Runs under a load are only worth something if the load is there, and gone afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.slow_machine import busy_loops, main
from testbed.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


def test_the_loops_run_for_the_length_of_the_block_alone() -> None:
    with busy_loops(2) as loops:
        assert [loop.poll() for loop in loops] == [None, None]
    assert all(loop.poll() for loop in loops)


def test_the_loops_end_with_a_process_that_is_killed() -> None:
    code = (
        "import os, signal; from scripts.slow_machine import busy_loops\n"
        "with busy_loops(2) as loops:\n"
        "    print(*(loop.pid for loop in loops), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603 -- this interpreter
    loops = [Path(f"/proc/{pid}") for pid in killed.stdout.split()]
    assert (len(loops), killed.returncode) == (2, -signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, loops)), 60, "the end of the loops")


def is_running(process: Path) -> bool:
    """Whether a process exists and is not only waiting for its parent to notice its end."""
    try:
        return process.joinpath("stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("status", [0, 3])
def test_the_commands_own_status_is_passed_on(status: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--busy", "1", "--", sys.executable, "-c", f"raise SystemExit({status})"]) == status
    assert "CPU seconds" in capfd.readouterr().err
