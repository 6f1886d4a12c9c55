"""The command as a shell would run it, on a machine without any network."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import pytest

from plimsoll.cli import main as command_line
from plimsoll.cli.commands import plan, prices

TODAY = date(2026, 11, 22)
"""The day of every command: prices grow old."""

Run = Callable[..., tuple[int, str, str]]


def deployments(text: str) -> list[dict[str, Any]]:
    """Return the document of ``plan -o json`` for each deployment; nothing of an answer that it did not give."""
    found: list[dict[str, Any]] = json.loads(text)["deployments"] if text else []
    return found


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that goes to no terminal, as a pipeline's; a worker of the tests has a width of its own."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the command and gives its exit status and what it printed; ``stdin`` is what somebody pipes into it."""

    def no_network(*_: Any, **__: Any) -> NoReturn:
        raise OSError("there is no network here")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    for module in (plan, prices):
        monkeypatch.setattr(module, "today", lambda: TODAY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))

    def run_command(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["plimsoll", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as left:
            command_line.main()
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return run_command
