"""The archives of a release. The same sources give the same bytes: names are sorted, times and modes are fixed."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

from scripts.release.sources import NotReleasable, Sources

_READABLE, _EXECUTABLE = 0o644, 0o755


def packages(sources: Sources, target: Path) -> list[Path]:
    """Build the source distribution and the wheel.

    Raises:
        NotReleasable: the build failed; the message is its own.
    """
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target), "--target"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(sources.moment)}
    for kind in ("sdist", "wheel"):
        ran = subprocess.run(  # noqa: S603 - our own Python
            [*command, kind], cwd=sources.folder, env=environment, check=False, capture_output=True, text=True
        )
        if ran.returncode:
            raise NotReleasable(f"The {kind} cannot be built:\n{ran.stderr}")
    return [target / f"plimsoll-{sources.version}.tar.gz", target / f"plimsoll-{sources.version}-py3-none-any.whl"]


def chart(sources: Sources, target: Path) -> Path:
    """Pack the chart as Helm does, but for the times of its files, which Helm takes from its clock."""
    folder = sources.folder / "charts" / "plimsoll"
    patterns = [each for each in (folder / ".helmignore").read_text(encoding="utf-8").split() if each]
    found = {
        f"plimsoll/{path.relative_to(folder)}": path
        for path in folder.rglob("*")
        if path.is_file() and not any(fnmatch(path.name, pattern.rstrip("/")) for pattern in patterns)
    }
    return _packed(target / f"plimsoll-{sources.version}.tgz", found, sources.moment)


def image_context(sources: Sources, target: Path) -> Path:
    """Pack what the image is built from: the Containerfile and what it may copy."""
    lines = (sources.folder / ".containerignore").read_text(encoding="utf-8").splitlines()
    names = ["Containerfile", ".containerignore", *(line[1:] for line in lines if line.startswith("!"))]
    found: dict[str, Path] = {}
    for name in names:
        path = sources.folder / name
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        found |= {str(each.relative_to(sources.folder)): each for each in files}
    return _packed(target / f"plimsoll-image-context-{sources.version}.tar.gz", found, sources.moment)


def plugin(sources: Sources, wheel: Path, target: Path) -> Path:
    """Pack the kubectl plugin for krew: a script, and the wheel that it installs for its user."""
    script = sources.folder / "plugin" / "kubectl-plimsoll"
    found = {
        "kubectl-plimsoll": script,
        "LICENSE": sources.folder / "LICENSE",
        "constraints.txt": sources.folder / "constraints.txt",
        wheel.name: wheel,
    }
    return _packed(target / f"kubectl-plimsoll-{sources.version}.tar.gz", found, sources.moment)


def _packed(archive: Path, files: Mapping[str, Path], moment: int) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = path.stat().st_size, moment
            entry.mode = _EXECUTABLE if os.access(path, os.X_OK) else _READABLE
            with path.open("rb") as content:
                tar.addfile(entry, content)
    archive.write_bytes(gzip.compress(packed.getvalue(), compresslevel=9, mtime=moment))
    return archive
