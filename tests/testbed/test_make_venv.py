"""The environment that every make target stands on: made once, finished after an interruption, by one at a time."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import make_venv
from scripts.make_venv import NotMade, main, make
from testbed.waiting import wait_until

FAKE_PYTHON = """#!/bin/sh
# Stands in for Python: `-m venv DIR` copies itself, `-m pip` writes down its arguments, then does as the test wants.
if [ "$1" != -m ] || [ "$2" = ensurepip ]; then exit 0; fi
echo "$2" "$3" "$4" >> "{log}"
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
if [ "$2" = pip ] && [ -e "{gate}" ]; then cat "{gate}" > /dev/null; fi
if [ "$2" = pip ] && [ -e "{broken}" ]; then exit 7; fi
exit 0
"""


class Checkout:
    """A checkout with a Python that installs nothing."""

    def __init__(self, root: Path) -> None:
        self.root, self.venv = root, root / ".venv"
        self.log, self.gate, self.broken = root / "calls", root / "gate", root / "broken"
        (root / "pyproject.toml").write_text("[project]\n")
        (root / "constraints.txt").write_text("a==1\n")
        self.python = root / "python"
        self.python.write_text(FAKE_PYTHON.format(log=self.log, gate=self.gate, broken=self.broken))
        self.python.chmod(0o755)

    def calls(self) -> list[str]:
        """The first words of every call since the last question."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [" ".join(line.split()[:2]) for line in lines]


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    monkeypatch.setattr(sys, "executable", str(made.python))
    return made


def test_what_is_needed_to_run_is_installed_once(checkout: Checkout) -> None:
    make(checkout.root, "run")
    assert checkout.calls() == [f"venv {checkout.venv}", "pip install", "pip install"]
    assert (checkout.venv / ".runs").exists()
    assert not (checkout.venv / ".ready").exists()

    make(checkout.root, "run")
    assert checkout.calls() == []


def test_everything_is_also_what_is_needed_to_run(checkout: Checkout) -> None:
    make(checkout.root, "all")
    assert checkout.calls() == [f"venv {checkout.venv}", "pip install", "pip install"]

    make(checkout.root, "run")
    assert checkout.calls() == []
    assert (checkout.venv / ".runs").exists()


@pytest.mark.parametrize(
    ("part", "wanted"),
    [("run", [".[solver]"]), ("all", [".[console]", "--group", "test", "--group", "check", "--group", "release"])],
)
def test_only_the_whole_environment_holds_the_operator(part: str, wanted: list[str]) -> None:
    *_, package = make_venv.installations(make_venv.PARTS[part])
    assert package[package.index("--constraint") + 1] == "constraints.txt"
    assert package[package.index("--editable") + 1 :] == wanted


def test_the_newest_releases_have_a_folder_of_their_own_and_are_asked_for_by_every_call(checkout: Checkout) -> None:
    newest = checkout.root / ".venv-newest"
    make(checkout.root, "newest")
    assert checkout.calls() == [f"venv {newest}", "pip install", "pip install"]

    make(checkout.root, "newest")
    assert checkout.calls() == ["pip install", "pip install"]
    assert not checkout.venv.exists()

    for arguments in make_venv.installations(make_venv.PARTS["newest"]):
        assert "--constraint" not in arguments
        assert arguments[arguments.index("--upgrade-strategy") + 1] == "eager"


def test_new_versions_are_installed_into_what_is_there(checkout: Checkout) -> None:
    make(checkout.root, "run")
    (checkout.venv / "kept").touch()
    checkout.calls()
    (checkout.root / "constraints.txt").write_text("a==2\n")

    make(checkout.root, "run")

    assert checkout.calls() == ["pip install", "pip install"]
    assert (checkout.venv / "kept").exists()


def test_an_interrupted_installation_is_begun_anew(checkout: Checkout) -> None:
    checkout.broken.touch()
    with pytest.raises(NotMade, match="pip install"):
        make(checkout.root, "run")
    (checkout.venv / "half").mkdir()
    checkout.broken.unlink()
    checkout.calls()

    make(checkout.root, "run")

    assert checkout.calls() == [f"venv {checkout.venv}", "pip install", "pip install"]
    assert not (checkout.venv / "half").exists()
    assert not (checkout.venv / ".unfinished").exists()


@pytest.mark.parametrize("left", ["nothing", "a broken link"])
def test_an_environment_without_a_working_python_is_begun_anew(checkout: Checkout, left: str) -> None:
    (checkout.venv / "bin").mkdir(parents=True)
    if left == "a broken link":
        (checkout.venv / "bin" / "python").symlink_to(checkout.root / "gone")

    make(checkout.root, "run")

    assert checkout.calls() == [f"venv {checkout.venv}", "pip install", "pip install"]


def test_a_linked_environment_that_cannot_be_used_is_left_alone(checkout: Checkout) -> None:
    elsewhere = checkout.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    checkout.venv.symlink_to(elsewhere)

    with pytest.raises(NotMade, match=r"\.venv is a link to .*elsewhere"):
        make(checkout.root, "run")

    assert [path.name for path in elsewhere.iterdir()] == ["precious"]


def test_a_second_make_waits_for_the_first_and_installs_nothing(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(checkout.gate)
    said: list[str] = []
    monkeypatch.setattr(make_venv, "say", said.append)
    both = [threading.Thread(target=make, args=(checkout.root, "run")) for _ in range(2)]
    both[0].start()
    wait_until(lambda: "pip" in (checkout.log.read_text() if checkout.log.exists() else ""), 60, "pip at work")
    both[1].start()
    wait_until(lambda: "Another make is making .venv: waiting for it" in said, 60, "the second waiting")

    with checkout.gate.open("w"):
        checkout.gate.unlink()
    for each in both:
        each.join(timeout=60)

    assert checkout.calls() == [f"venv {checkout.venv}", "pip install", "pip install"]


def test_a_failure_leaves_with_one_and_says_what_to_do(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise NotMade("no space: make some")

    monkeypatch.setattr(make_venv, "make", refuse)
    outcomes: dict[str, Callable[[], int]] = {"run": lambda: main(["run"]), "usage": lambda: main(["everything"])}
    assert {name: outcome() for name, outcome in outcomes.items()} == {"run": 1, "usage": 2}
    assert "error: no space: make some" in capsys.readouterr().err
    assert checkout.calls() == []
