#!/usr/bin/env python3
"""Write what the image is made of with the digest of every file, so that pip takes these files and no others.

    python scripts/lock_hashes.py

Two files: ``constraints.hashes.txt`` for what runs (the package with its extra ``console``, which brings ``operator``),
``constraints.build.hashes.txt`` for what builds it. The versions are those of ``constraints.txt``. Run it after
``scripts/pin_constraints.sh``; it asks the package index.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
PYTHON = "3.11"
"""The image's Python: wheels differ by it."""

MACHINES = ("x86_64", "aarch64")
GLIBC = ("manylinux_2_17", "manylinux2014", "manylinux_2_24", "manylinux_2_28", "manylinux_2_34", "manylinux_2_36")
"""What wheels call the distributions that the image's base (glibc 2.36) can run."""

HEADER = f"# Made by scripts/lock_hashes.py from constraints.txt: CPython {PYTHON}, Linux, {' and '.join(MACHINES)}.\n"


def requirements_of(project: dict[str, Any], extra: str = "console") -> list[str]:
    """Return the requirements of the package with an extra. Other extras that it names are written out.

    Args:
        project: the table ``project`` of ``pyproject.toml``.
        extra: which of its optional dependencies.
    """
    found: list[str] = list(project["dependencies"])
    for requirement in project["optional-dependencies"][extra]:
        name, _, inner = requirement.partition("[")
        found += requirements_of(project, inner.rstrip("]")) if name == project["name"] else [requirement]
    return sorted(set(found))


def locked(requirements: Sequence[str]) -> str:
    """The text of a lock file: every package that these requirements lead to, on every kind of machine."""
    digests: dict[str, set[str]] = {}
    for machine in MACHINES:
        for name, digest in resolved(requirements, machine):
            digests.setdefault(name, set()).add(digest)
    lines = [_line(name, sorted(found)) for name, found in sorted(digests.items(), key=lambda item: item[0].lower())]
    return HEADER + "".join(lines)


def resolved(requirements: Sequence[str], machine: str) -> list[tuple[str, str]]:
    """``name==version`` and digest of every file that pip would install."""
    platforms = [option for glibc in GLIBC for option in ("--platform", f"{glibc}_{machine}")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp", *platforms]
        command += ["--target", folder, "--report", str(report), "--constraint", str(CONSTRAINTS), *requirements]
        subprocess.run(command, check=True)  # noqa: S603 - our own pyproject.toml's words
        content: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return [_pinned(entry) for entry in content["install"]]


def _pinned(entry: dict[str, Any]) -> tuple[str, str]:
    name = f"{entry['metadata']['name']}=={entry['metadata']['version']}"
    return name, str(entry["download_info"]["archive_info"]["hashes"]["sha256"])


def _line(name: str, digests: Sequence[str]) -> str:
    return " \\\n    ".join([name, *(f"--hash=sha256:{digest}" for digest in digests)]) + "\n"


def main() -> None:
    """Write both files."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (ROOT / "constraints.hashes.txt").write_text(locked(requirements_of(content["project"])), encoding="utf-8")
    (ROOT / "constraints.build.hashes.txt").write_text(locked(content["build-system"]["requires"]), encoding="utf-8")


if __name__ == "__main__":
    main()
