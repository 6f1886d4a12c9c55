"""Where built binaries live between runs, and the lock that lets only one run build them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.versions import Family

TOOLCHAIN = Path(__file__).parent / "toolchain"
"""One Go module a family, with its ``go.sum``."""


def cache_directory() -> Path:
    """``$PLIMSOLL_CACHE``, else ``$XDG_CACHE_HOME/plimsoll``, else ``~/.cache/plimsoll``; made if missing."""
    own = os.environ.get("PLIMSOLL_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME")
    directory = Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "plimsoll"
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()


def family_directory(family: Family) -> Path:
    """Where this family's binaries belong; the name changes with everything that changes the bytes."""
    return cache_directory() / f"{family.name}-{family.version}-{_digest(family)}"


def _digest(family: Family) -> str:
    module = TOOLCHAIN / family.name
    files = [path.read_bytes() for path in sorted(module.iterdir())]
    parts = [*files, repr((family, platform.system(), platform.machine())).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


@contextmanager
def build_lock(say: Callable[[str], None] = print) -> Iterator[None]:
    """Hold the cache's build lock; waits for as long as another run builds. Freed by the kernel if its holder dies."""
    with (cache_directory() / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another run builds the programs: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
