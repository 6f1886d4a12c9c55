#!/usr/bin/env python3
"""Run a command as on a slow or a busy machine, and print the processor time that it took.

    python -m scripts.slow_machine --busy 2 -- make test      # two loops per core that never rest, at the same priority
    python -m scripts.slow_machine --cores 0.5 -- make test   # no more than half a core; as root on Linux

Exits with the command's own status.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

PERIOD_US = 100_000
"""The kernel's usual period for shares of a processor."""

_CGROUPS = Path("/sys/fs/cgroup")
_LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
"""A loop that ends with the process of its argument, which started it, however that ends."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m scripts.slow_machine", description=__doc__)
    parser.add_argument("--busy", type=int, default=0, metavar="LOOPS", help="busy loops for each core")
    parser.add_argument("--cores", type=float, metavar="CORES", help="processors that the command may use, e.g. 0.5")
    parser.add_argument("command", nargs="+", help="what to run, after --")
    asked = parser.parse_args(arguments)
    with ExitStack() as stack:
        stack.enter_context(busy_loops(asked.busy * (os.cpu_count() or 1)))
        group = stack.enter_context(limited_to(asked.cores)) if asked.cores else None
        began, before = time.monotonic(), os.times()
        status = subprocess.run(  # noqa: S603 -- the person's own command
            asked.command, check=False, preexec_fn=None if group is None else lambda: _enter(group)
        ).returncode
        after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    sys.stderr.write(f"{time.monotonic() - began:.1f} s, and {cpu:.1f} CPU seconds of processes that have ended\n")
    return status


@contextmanager
def busy_loops(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that take whatever processor time they get, for the length of a block.

    Linux shares a processor between sessions first (``sched_autogroup``). So each loop has a session of its own: in one
    session all of them would get the share of one.
    """
    busy = [sys.executable, "-c", _LOOP, str(os.getpid())]
    loops = [subprocess.Popen(busy, start_new_session=True) for _ in range(count)]  # noqa: S603 -- this interpreter
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def limited_to(cores: float) -> Iterator[Path]:
    """A control group whose processes share this many processors.

    Raises:
        OSError: this is not Linux, or not root.
    """
    is_unified = (_CGROUPS / "cgroup.controllers").exists()
    group = (_CGROUPS if is_unified else _CGROUPS / "cpu") / f"slow-machine-{os.getpid()}"
    group.mkdir()
    try:
        quota = round(cores * PERIOD_US)
        if is_unified:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        yield group
    finally:
        group.rmdir()


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


if __name__ == "__main__":
    sys.exit(main())
