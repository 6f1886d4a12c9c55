"""Children never outlive whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.processes import Child
from testbed.waiting import wait_until

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
]


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody has reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize("command", [SLEEPER, STUBBORN], ids=["ends on SIGTERM", "ignores SIGTERM"])
def test_stop_ends_and_reaps(tmp_path: Path, command: list[str]) -> None:
    child = Child("sleeper", command, log=tmp_path / "log", grace_seconds=0.5)
    child.start()
    wait_until(lambda: "up" in child.tail(), 60, "the child up")

    child.stop()

    assert not child.is_running
    assert not Path(f"/proc/{child.pid}").exists()


def test_a_child_can_be_started_again_and_stop_may_come_twice(tmp_path: Path) -> None:
    child = Child("sleeper", SLEEPER, log=tmp_path / "log", grace_seconds=0)
    child.start()
    first = child.pid
    child.stop()
    child.stop()
    child.start()

    assert child.pid != first
    child.kill()


def test_every_child_leads_a_process_group_of_its_own(tmp_path: Path) -> None:
    child = Child("sleeper", SLEEPER, log=tmp_path / "log", grace_seconds=0)
    child.start()

    assert os.getpgid(child.pid) == child.pid != os.getpgrp()
    child.kill()


def test_starting_a_running_child_is_refused(tmp_path: Path) -> None:
    child = Child("sleeper", SLEEPER, log=tmp_path / "log", grace_seconds=0)
    child.start()

    with pytest.raises(RuntimeError, match="sleeper runs already"):
        child.start()
    child.kill()


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    # The child is started from a thread that ends at once: that alone must not kill it.
    script = f"""
import threading, time
from pathlib import Path
from testbed.processes import Child
child = Child("sleeper", {SLEEPER!r}, log=Path({str(tmp_path / "log")!r}))
thread = threading.Thread(target=child.start)
thread.start(); thread.join()
time.sleep(0.5)
print(child.pid if child.is_running else "died", flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:  # noqa: S603 -- this very interpreter
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait(timeout=60)

    wait_until(lambda: not is_alive(pid), 60, "the child dead")


def test_one_child_may_be_killed_by_two_at_the_same_time(tmp_path: Path) -> None:
    """One of them reaps it between the other one's look and its signal."""
    child = Child("sleeper", SLEEPER, log=tmp_path / "log", grace_seconds=0)
    child.start()
    process = child._process  # noqa: SLF001 - to reap it in between
    assert isinstance(process, subprocess.Popen)
    look = process.poll

    def look_and_reap() -> int | None:
        seen = look()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return seen

    process.poll = look_and_reap  # type: ignore[method-assign]
    child.kill()
    assert not Path(f"/proc/{process.pid}").exists()
