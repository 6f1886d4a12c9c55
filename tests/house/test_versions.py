"""A red run on other releases than the pinned ones says which they are."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import Any, cast

import pytest

from tests.support import versions
from tests.support.versions import differences, pytest_terminal_summary

PINS = ["# made by hand", "abc-lib==1.0", "Direct_Lib==2.0", "gone==3.0", "same==4.0"]


def installed(name: str) -> str:
    if name == "gone":
        raise PackageNotFoundError(name)
    return {"abc-lib": "1.1", "Direct_Lib": "3.0", "same": "4.0"}[name]


class Screen:
    """What pytest prints at the end of a run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str, **_: Any) -> None:
        self.lines.append(title)

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def printed(status: int) -> list[str]:
    screen = Screen()
    pytest_terminal_summary(cast("pytest.TerminalReporter", screen), status)
    return screen.lines


def test_packages_of_another_release_are_named_and_those_that_the_project_asks_for_come_first() -> None:
    assert differences(PINS, ["direct-lib[extra]>=2", "same"], installed) == [
        "Direct_Lib 2.0 -> 3.0",
        "abc-lib 1.0 -> 1.1 (not direct)",
    ]


def test_a_red_run_on_the_pinned_releases_says_nothing_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = dict(line.split("==") for line in versions.pins() if "==" in line)
    monkeypatch.setattr(versions, "version", pinned.__getitem__)
    assert printed(1) == []
    monkeypatch.setattr(versions, "version", (pinned | {"highspy": "99.0"}).__getitem__)
    assert printed(1)[1:] == [f"highspy {pinned['highspy']} -> 99.0"]
    assert printed(0) == []
