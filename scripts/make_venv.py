#!/usr/bin/env python3
"""Make ``.venv``, or finish one that was interrupted. The standard library only: there is nothing else yet.

    python scripts/make_venv.py run      # what the offline commands need
    python scripts/make_venv.py all      # also what the operator, the tests and the checks need
    python scripts/make_venv.py newest   # the same as all into .venv-newest, in the newest releases: every call asks

A second call waits for the first. Pip's work cut off in the middle can look finished, so ``.unfinished`` stands in the
folder while there is something to do; who finds it there begins anew, from pip's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Part:
    """What is installed into which folder, and for whom."""

    users: str
    marker: str | None
    """A file in the folder that holds the digest of what was installed; make compares their times.

    None: the newest versions are installed, and every call asks for them. Otherwise those of ``constraints.txt``.
    """

    extra: str = ""
    groups: tuple[str, ...] = ()
    folder: str = ".venv"


PARTS = {
    "run": Part("the offline commands", ".runs", "[solver]"),
    "all": Part(
        "the operator, the tests, the checks and releases", ".ready", "[console]", ("test", "check", "release")
    ),
    "newest": Part("the tests on the newest releases", None, "[console]", ("test", "check", "release"), ".venv-newest"),
}


class NotMade(RuntimeError):
    """The environment could not be made; the message says what to do."""


def say(line: str) -> None:
    """Tell the person who waits."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def make(root: Path, name: str) -> None:
    """Make the environment of a part, or bring it up to date.

    Raises:
        NotMade: a step failed; its own words are on stderr.
    """
    part = PARTS[name]
    venv = root / part.folder
    wanted = digest(root)
    with only_one(root / f"{part.folder}.lock") as lock:
        # Everything holds what is needed to run, so its marker stands for both.
        markers = [venv / each for each in (PARTS["all"].marker, part.marker) if each and part.marker]
        if is_usable(venv) and wanted in map(text_of, markers):
            markers[-1].write_text(wanted)
            return
        prepare(venv, lock)
        say(f"Installing what {part.users} need into {part.folder}")
        for arguments in installations(part):
            step([str(venv / "bin" / "python"), "-m", "pip", *arguments], lock, root)
        for marker in markers[-1:]:
            marker.write_text(wanted)
        (venv / ".unfinished").unlink()


def digest(root: Path) -> str:
    """What the environment's content depends on."""
    parts = [(root / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def text_of(path: Path) -> str:
    """A file's text; empty where there is none."""
    return path.read_text() if path.is_file() else ""


def is_usable(venv: Path) -> bool:
    """Whether its Python starts and nobody was interrupted in it."""
    if (venv / ".unfinished").exists():
        return False
    try:
        command = [str(venv / "bin" / "python"), "-c", ""]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603 -- ours
    except OSError:
        return False


def prepare(venv: Path, lock: int) -> None:
    """An environment with pip in it, marked as unfinished."""
    usable = is_usable(venv)
    if not usable and venv.is_symlink():
        raise NotMade(
            f"{venv.name} is a link to {venv.resolve()}, which cannot be used: remove the link, or repair it there"
        )
    venv.mkdir(exist_ok=True)
    (venv / ".unfinished").touch()
    if usable:
        step([str(venv / "bin" / "python"), "-m", "ensurepip"], lock, venv.parent, quiet=True)
        return
    for path in venv.iterdir():
        if path.name != ".unfinished":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    step([sys.executable, "-m", "venv", str(venv)], lock, venv.parent)


def installations(part: Part) -> Iterator[list[str]]:
    """Pip's arguments, one list a call."""
    # Compiling every module costs more time than what is ever imported.
    usual = ["install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    usual += ["--constraint", "constraints.txt"] if part.marker else ["--upgrade", "--upgrade-strategy", "eager"]
    groups = [word for group in part.groups for word in ("--group", group)]
    # The one that comes with Python may be too old to know of groups, and took twice the time where it was measured.
    yield [*usual, "pip"]
    yield [*usual, "--editable", f".{part.extra}", *groups]


def step(command: Sequence[str], lock: int, root: Path, *, quiet: bool = False) -> None:
    """One command in ``root``. It inherits the lock, so that nobody begins while it outlives us."""
    output = subprocess.DEVNULL if quiet else None
    if subprocess.run(command, check=False, cwd=root, stdout=output, pass_fds=(lock,)).returncode != 0:  # noqa: S603
        raise NotMade(f"{' '.join(command)} failed: see above; then run it again")


@contextmanager
def only_one(path: Path) -> Iterator[int]:
    """Hold the lock, and wait for whoever holds it; its descriptor."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another make is making {path.stem}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def main(arguments: Sequence[str]) -> int:
    """Make it. Returns the exit status."""
    if len(arguments) != 1 or arguments[0] not in PARTS:
        say(f"usage: make_venv.py {' | '.join(PARTS)}")
        return 2
    try:
        make(Path(__file__).resolve().parent.parent, arguments[0])
    except NotMade as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("Interrupted. The next run begins it anew, from pip's cache.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
