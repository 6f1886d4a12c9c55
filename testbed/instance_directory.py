"""A directory for one control plane, and the removal of those whose owner was killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import IO

_PREFIX = "plimsoll-testbed-run-"
_OWNER = ".owner"


class InstanceDirectory:
    """A fresh directory in the system's temporary folder, locked by this process for as long as it is in use.

    Making one removes those that other runs left behind when they were killed: an etcd is in each of them.

    Args:
        keep: leave it behind, for ever, to read its logs.
    """

    def __init__(self, *, keep: bool) -> None:
        _remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock: IO[str] | None = None
        if not keep:
            self._lock = _locked(self.path)

    def close(self) -> None:
        """Remove it, unless it is to be kept; may be called twice."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.close()
            self._lock = None


def _locked(directory: Path) -> IO[str]:
    """Lock first and give the final name then: an owner file without a lock is always an abandoned one."""
    fresh = directory / f"{_OWNER}.new"
    lock = fresh.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    fresh.rename(directory / _OWNER)
    return lock


def _remove_abandoned() -> None:
    for owner in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
        try:
            with owner.open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(owner.parent, ignore_errors=True)
        except OSError:
            continue  # in use, another user's, or removed by somebody else just now
