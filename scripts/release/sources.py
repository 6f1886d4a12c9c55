"""The sources that a release is made of: the checkout's files, with one's own addresses instead of the placeholders."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

REPOSITORY = "https://git.example/plimsoll"
"""The address of the sources: the placeholder of the checkout."""

REGISTRY = "registry.example"
"""The registry of the image: the same."""

NO_ID = "00000000-0000-0000-0000-000000000000"
"""The id that Artifact Hub gives to a chart repository: the same."""

PARTS = (
    ".containerignore", ".gitignore", "CHANGELOG.md", "Containerfile", "LICENSE", "README.md", "SECURITY.md", "charts",
    "constraints*.txt", "crds", "operator", "plugin", "pyproject.toml",
)  # fmt: skip
"""The files that a release is made of, as Git's patterns of paths."""

WITH_ADDRESSES = ("README.md", "pyproject.toml", "charts", "plugin")
"""Files and folders whose placeholders are replaced: those that the release publishes."""


class NotReleasable(RuntimeError):
    """The checkout cannot be released as it is; the message says why, and what helps."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The places to which a release will be published. The placeholders stand for no place."""

    repository: str = REPOSITORY
    registry: str = REGISTRY
    artifact_hub_id: str = NO_ID


@dataclass(frozen=True, slots=True)
class Sources:
    """A copy of the checkout's files.

    Attributes:
        folder: where they are.
        version: of the package, the chart and the image.
        commit: that they were copied from.
        moment: of the commit, in seconds since 1970: the time of every file of the release.
        addresses: that they name.
    """

    folder: Path
    version: str
    commit: str
    moment: int
    addresses: Addresses


def copied(root: Path, folder: Path, addresses: Addresses) -> Sources:
    """Copy the checkout's files, committed or not, into a folder, and write the addresses into them.

    Only :data:`PARTS` of it are copied.

    Raises:
        NotReleasable: the versions of package and chart differ.
    """
    for name in _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PARTS).split("\0"):
        if name and (root / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, target)
    for path in _published(folder):
        text = path.read_text(encoding="utf-8")
        for placeholder, own in (
            (REPOSITORY, addresses.repository),
            (REGISTRY, addresses.registry),
            (NO_ID, addresses.artifact_hub_id),
        ):
            text = text.replace(placeholder, own)
        path.write_text(text, encoding="utf-8")
    commit, moment = _git(root, "log", "-1", "--format=%H %ct").split()
    return Sources(folder, version_of(folder), commit, int(moment), addresses)


def uncommitted(root: Path) -> list[str]:
    """Return the files of a checkout that differ from its last commit."""
    return [line[3:] for line in _git(root, "status", "--porcelain").splitlines()]


def _published(folder: Path) -> Iterator[Path]:
    for name in WITH_ADDRESSES:
        path = folder / name
        yield from [path] if path.is_file() else (each for each in sorted(path.rglob("*")) if each.is_file())


def version_of(folder: Path) -> str:
    """Return the version of package and chart. Raises :class:`NotReleasable` if they differ."""
    package = (folder / "operator" / "plimsoll" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "([^"]+)"$', package, re.MULTILINE)
    chart = yaml.safe_load((folder / "charts" / "plimsoll" / "Chart.yaml").read_text(encoding="utf-8"))
    found = {version[1] if version else "", chart["version"], chart["appVersion"]}
    if len(found) > 1:
        raise NotReleasable(
            f"The versions differ ({', '.join(sorted(map(str, found)))}): write one into operator/plimsoll/__init__.py "
            "and into version and appVersion of charts/plimsoll/Chart.yaml."
        )
    return str(found.pop())


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout  # noqa: S603, S607
