"""The memory of this process, from the kernel."""

from __future__ import annotations

from pathlib import Path


def peak_mib() -> float:
    """Return the most memory of this process until now. ``getrusage`` would count the parent's before the start."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(line for line in status if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024
