"""Native libraries print to descriptor 1 when they like: a pipe that parses our output must never see it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from plimsoll.adapters.catalog import catalogued_models
from plimsoll.cli.main import main
from tests.cli.conftest import deployments
from tests.support.alone import ROOT

CHATTER = """
import ctypes, os, sys
from plimsoll.cli import main

command = main.cli

def chatting():
    os.write(1, b"written at once\\n")
    ctypes.CDLL(None).puts(b"buffered until the end")
    command()

main.cli = chatting
sys.argv = ["plimsoll", *sys.argv[1:]]
main.main()
"""
"""The ``plimsoll`` command with a library that prints past Python: at once, and when the process ends."""

PLAN = ("plan", "-f", "examples/01-minimal/deployment.yaml", "--fleet", "examples/fleet.yaml", "-o", "json")

NATIVE = ("written at once", "buffered until the end")


def chatting(words: Sequence[str], *options: str, out: int) -> tuple[int, str]:
    """Run the command with ``out`` as its standard output; its exit status and what is on standard error."""
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, *options, "-c", CHATTER, *words], cwd=ROOT, stdout=out, stderr=subprocess.PIPE, check=False
    )
    return ran.returncode, ran.stderr.decode()


@pytest.mark.parametrize("options", [(), ("-u",)], ids=["buffered", "unbuffered"])
def test_what_a_native_library_prints_is_on_standard_error(tmp_path: Path, options: tuple[str, ...]) -> None:
    file = tmp_path / "plan.json"
    with file.open("wb") as written:
        status, said = chatting(PLAN, *options, out=written.fileno())
    assert status == 0, said
    assert [each["name"] for each in deployments(file.read_text(encoding="utf-8"))] == ["llama-8b"]
    assert [line for line in NATIVE if line not in said.splitlines()] == []


def test_a_reader_that_has_gone_ends_the_command_without_a_trace() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        status, said = chatting(("models",), out=writer)
    finally:
        os.close(writer)
    assert status == 1, "as for every click command whose pipe is closed"
    assert sorted(said.splitlines()) == sorted(NATIVE)


def test_a_closed_standard_error_costs_nothing_of_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    line = [sys.executable, "-c", CHATTER, "models"]
    subprocess.run(["sh", "-c", f'exec "$@" > {file} 2>&-', "sh", *line], cwd=ROOT, check=True)  # noqa: S603, S607
    assert tuple(file.read_text(encoding="utf-8").splitlines()) == catalogued_models()


def test_tables_are_as_wide_as_the_terminal_that_they_are_printed_on() -> None:
    """Standard error goes elsewhere, so nothing but our own descriptor knows the terminal."""
    ours, theirs = pty.openpty()
    try:
        os.set_blocking(ours, False)
        program = "from plimsoll.cli.process import keep_stdout_to_ourselves as keep; keep();"
        program += "import shutil, sys; from plimsoll.cli.screen import screen;"
        program += "print(sys.stdout.isatty(), screen().width, shutil.get_terminal_size().columns)"
        environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "TERM"}}
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", f"import os, termios; termios.tcsetwinsize(1, (40, 97)); {program}"],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        assert os.read(ours, 1000).split() == [b"True", b"97", b"97"]
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_command_within_a_process_that_captures_its_output_leaves_descriptor_one_alone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(sys, "argv", ["plimsoll", "models"])
    with pytest.raises(SystemExit):
        main()
    os.write(1, b"still here\n")
    assert capfd.readouterr().out.endswith("still here\n")
