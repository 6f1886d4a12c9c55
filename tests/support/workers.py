"""How many workers ``pytest -n auto`` starts: so many for each core that this process may use.

A worker without a cluster keeps one core busy. A worker with one needs a third of a core (2026-11-30: 590 s of the
processor in 1,730 s of all cluster tests, two files at a time), so four share a core.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

PER_CORE = "PLIMSOLL_WORKERS_PER_CORE"
"""The environment variable with the number of workers for each core; 1 without it."""

MOST_WORKERS = 16
"""Each has a control plane, and one API server was seen with 0.9 GB of memory (2026-11-26)."""

_CGROUPS = Path("/sys/fs/cgroup")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which a run may leave out
def pytest_xdist_auto_num_workers() -> int:
    """Return the number for ``-n auto``."""
    return workers(cores(), float(os.environ.get(PER_CORE, "1")))


def workers(cores: float, per_core: float) -> int:
    """Return the workers for so many cores: rounded up, one at least."""
    return max(1, min(MOST_WORKERS, math.ceil(cores * per_core)))


def cores(own: Path = Path("/proc/self/cgroup"), root: Path = _CGROUPS) -> float:
    """Return the cores that this process may use: fewer than the machine has where its control group has a limit."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([usable, *_limits(own, root)])


def _limits(own: Path, root: Path) -> Iterator[float]:
    """Yield the limits of the process's control group and of those around it, in cores; none outside Linux."""
    for line in own.read_text(encoding="utf-8").splitlines() if own.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        folder = (root / "cpu" if controllers else root) / path.strip("/")
        while folder.is_relative_to(root):
            yield from _limit(folder)
            folder = folder.parent


def _limit(folder: Path) -> Iterator[float]:
    unified, quota, period = (folder / name for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"))
    if unified.exists():
        given, every = unified.read_text(encoding="utf-8").split()
        if given != "max":
            yield int(given) / int(every)
    elif quota.exists() and int(quota.read_text(encoding="utf-8")) > 0:
        yield int(quota.read_text(encoding="utf-8")) / int(period.read_text(encoding="utf-8"))
