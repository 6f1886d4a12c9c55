"""Which programs of this machine are used and not built: those of a version that the testbed was written for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed.cache import cache_directory
from testbed.versions import KUBERNETES, KWOK, Family, Program

BUILD_ALL = "PLIMSOLL_BUILD_ALL"
"""Set to anything but 0, it leaves the machine's own programs out."""

ASSETS = "KUBEBUILDER_ASSETS"

_ANSWER_SECONDS = 60.0
_VERSION = re.compile(r"(?<![\w.])v?(\d+)\.(\d+)\.(\d+)")

Minor = tuple[int, int]


def _one(version: str) -> tuple[Minor, Minor]:
    major, minor, _ = version.split(".")
    return (int(major), int(minor)), (int(major), int(minor) + 1)


SUITABLE: dict[str, tuple[Minor, Minor]] = {
    "etcd": ((3, 5), (3, 7)),
    "kubernetes": _one(KUBERNETES),
    "kwok": _one(KWOK),  # its stage files change with every minor, and ours are of this one
    "helm": ((3, 8), (4, 0)),
    "prometheus": ((2, 40), (4, 0)),
}
"""By family: the lowest minor version that serves, and the lowest above it that does not."""

_QUESTIONS: dict[str, tuple[str, ...]] = {
    "etcdctl": ("version",),
    "kubectl": ("version", "--client"),
    "helm": ("version", "--short"),
}
"""How to ask a program for its version; all others know ``--version``."""


@dataclass(frozen=True, slots=True)
class OwnProgram:
    """A program of the machine's.

    Attributes:
        path: where it is.
        source: ``$KUBEBUILDER_ASSETS`` or ``$PATH``.
        version: what it says of itself; empty where it does not say.
        refused: why it is not used; empty where it is.
    """

    path: Path
    source: str
    version: str
    refused: str

    def words(self, name: str) -> str:
        """A line for the person who waits."""
        told = f"{name} {self.version or 'of an unknown version'} of {self.source} ({self.path})"
        return f"{told} is not used: {self.refused}" if self.refused else f"{told} is used"


def from_assets(family: Family, program: Program) -> OwnProgram | None:
    """The program in ``$KUBEBUILDER_ASSETS``, the folder that envtest's ``setup-envtest use -p path`` names."""
    folder = os.environ.get(ASSETS)
    if not folder or _builds_all() or not os.access(Path(folder) / program.name, os.X_OK):
        return None
    return _judged(family, program, Path(folder) / program.name, f"${ASSETS}")


def from_path(family: Family, program: Program) -> OwnProgram | None:
    """The program that a shell would find."""
    found = None if _builds_all() else shutil.which(program.name)
    return None if found is None else _judged(family, program, Path(found).absolute(), "$PATH")


def _builds_all() -> bool:
    return os.environ.get(BUILD_ALL, "0") not in ("", "0")


def _judged(family: Family, program: Program, path: Path, source: str) -> OwnProgram:
    lowest, above = SUITABLE[family.name]
    version = _version(program, path)
    match = _VERSION.search(version)
    if match is not None and lowest <= (int(match[1]), int(match[2])) < above:
        return OwnProgram(path, source, version, "")
    wanted = ".".join(map(str, lowest))
    if (lowest[0], lowest[1] + 1) != above:
        wanted = f"{wanted} or newer, below {'.'.join(map(str, above))},"
    return OwnProgram(path, source, version, f"{wanted} is needed")


def _version(program: Program, path: Path) -> str:
    """What it answers, asked once for each state of its file; empty where it gives no version."""
    memory = cache_directory() / "program-versions.json"
    status = path.stat()
    key, state = str(path.resolve()), [status.st_mtime_ns, status.st_size]
    known = _remembered(memory)
    if known.get(key, [])[:2] == state:
        return str(known[key][2])
    version = _ask([str(path), *_QUESTIONS.get(program.name, ("--version",))])
    if version:
        partial = memory.with_name(f".{memory.name}.{os.getpid()}.partial")
        partial.write_text(json.dumps({**known, key: [*state, version]}))
        partial.replace(memory)
    return version


def _remembered(memory: Path) -> dict[str, list[object]]:
    try:
        known = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _ask(command: list[str]) -> str:
    try:
        asked = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWER_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.search(asked.stdout) if asked.returncode == 0 else None
    return "" if match is None else match[0].removeprefix("v")
