"""Which releases a run of tests stands on, said at the end of a red one where they are not those of the constraints."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from scripts.lock_hashes import requirements_of

ROOT = Path(__file__).resolve().parents[2]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Name every package and its version: one of them may be why the run is red."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = content["dependency-groups"]
    direct = [*requirements_of(content["project"]), *groups["test"], *groups["check"]]
    found = differences(pins(), direct, version)
    if exitstatus and found:
        terminalreporter.section("releases that are not those of constraints.txt", red=True)
        for line in found:
            terminalreporter.write_line(line)


def pins() -> list[str]:
    """The lines of the file of constraints."""
    return (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def differences(pinned: Iterable[str], direct: Iterable[str], installed: Callable[[str], str]) -> list[str]:
    """A line for each package whose release is not the pinned one; what the project itself asks for comes first.

    Args:
        pinned: the lines of a file of constraints.
        direct: the requirements of the project and of its groups.
        installed: the release of a distribution; raises :class:`PackageNotFoundError` where there is none.
    """
    asked = {_canonical(each) for each in direct}
    found: list[tuple[bool, str]] = []
    for pin in pinned:
        name, equals, wanted = pin.partition("==")
        try:
            if equals and (release := installed(name)) != wanted:
                is_direct = _canonical(name) in asked
                found.append((not is_direct, f"{name} {wanted} -> {release}{'' if is_direct else ' (not direct)'}"))
        except PackageNotFoundError:  # a package of a group that is not installed here
            continue
    return [line for _, line in sorted(found)]


def _canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0]).lower()
