"""Loopback ports that nobody else takes between choosing and binding them."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
import weakref
from pathlib import Path

_FIRST, _LAST = 20_000, 31_999
"""Below Linux' default ephemeral range (32768-60999), so no outgoing connection takes a chosen port meanwhile."""

_ATTEMPTS = 500


class NoFreePort(RuntimeError):
    """Every port that was tried is taken."""


class PortReservation:
    """Ports held for one control plane: a lock file each, which other testbeds of this user respect.

    The locks are freed with the reservation, and by the kernel when the process ends, however it ends.
    """

    def __init__(self) -> None:
        self._locks: list[int] = []
        weakref.finalize(self, _close_all, self._locks)

    def take(self) -> int:
        """Reserve one more port.

        Raises:
            NoFreePort: too many are taken.
        """
        for _ in range(_ATTEMPTS):
            port = random.randint(_FIRST, _LAST)  # noqa: S311 -- spreads runs, guards nothing
            if self._lock(port):
                return port
        raise NoFreePort(
            f"no free loopback port between {_FIRST} and {_LAST} after {_ATTEMPTS} tries; end other testbeds"
        )

    def release(self) -> None:
        """Give every port back; may be called twice."""
        _close_all(self._locks)

    def _lock(self, port: int) -> bool:
        lock = os.open(_lock_directory() / str(port), os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        if not _is_free(port):
            os.close(lock)
            return False
        self._locks.append(lock)
        return True


def _close_all(locks: list[int]) -> None:
    while locks:
        os.close(locks.pop())


def _lock_directory() -> Path:
    directory = Path(tempfile.gettempdir()) / f"plimsoll-testbed-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
