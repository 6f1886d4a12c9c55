"""The README's first answers are those of today, and documented commands answer with nothing but their answer."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run
from tests.support.documented import Runnable, in_every_form, runnable

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/commands.md", "docs/demo.md")
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


READ: Mapping[str, Callable[[str], Any]] = {
    "json": json.loads,
    "yaml": yaml.safe_load,
    "objects": lambda text: [each["kind"] for each in yaml.safe_load_all(text)],
    "markdown": lambda text: text.startswith("<!-- plimsoll plan -->\n"),
    "table": str.strip,
    "manifest": lambda text: yaml.safe_load(text)["kind"],
}
"""Who reads an answer by its form. What a native library prints between would end the first four."""


@pytest.mark.parametrize("call", in_every_form(runnable(*PAGES)), ids=lambda call: shlex.join(call.words))
def test_a_command_that_needs_no_cluster_prints_what_its_reader_expects(call: Runnable, tmp_path: Path) -> None:
    """Each is a process of its own, because native libraries write past Python."""
    piped = "---\n".join((ROOT / name).read_text(encoding="utf-8") for name in call.stdin)
    kept = {name: value for name, value in os.environ.items() if name != "HF_TOKEN"}
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "plimsoll", *call.words],
        cwd=ROOT,
        env=kept | {"KUBECONFIG": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        input=piped,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert [line for line in ran.stderr.splitlines() if not line.startswith(("warning: ", "note: "))] == []
    assert READ[call.form()](ran.stdout)
