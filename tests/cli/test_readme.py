"""The README's first answers are those of today."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SAMPLES = re.findall(r"^\$ plimsoll (.+)\n((?:(?!\$ |```).*\n)+)", README, re.MULTILINE)


@pytest.mark.parametrize(("command", "sample"), SAMPLES, ids=[command.split()[0] for command, _ in SAMPLES])
def test_a_sample_is_what_the_command_prints(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, sample: str
) -> None:
    monkeypatch.chdir(ROOT)
    status, shown, _ = run(*shlex.split(command))
    printed = [line.rstrip() for line in shown.splitlines()]
    assert status == 0
    assert [line for line in sample.splitlines() if line and line.rstrip() not in printed] == []


def test_the_first_command_runs_the_samples_and_nothing_else() -> None:
    recipe = re.search(r"^try: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    run_by_make = [line.removeprefix("\t$(BIN)/plimsoll ") for line in recipe[1].splitlines()]
    assert run_by_make == [command for command, _ in SAMPLES]
    assert README.index("make try") < README.index("make demo")
