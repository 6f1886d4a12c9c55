"""``plimsoll fetch``: exit statuses, progress, and what a Job's log says."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner

from plimsoll.cli.commands import fetch
from plimsoll.cli.main import cli
from plimsoll.domain.requests.weights import NOT_WORTH_A_TRY, WeightsProgress
from tests.adapters.fake_hub import FakeHub, serve_hub

NAME = "org/model"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with serve_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        running.publish(NAME, {"model_type": "llama"}).files["model.safetensors"] = b"w" * 5000
        yield running


def test_a_copy_is_made_once_and_says_so_in_both_forms(hub: FakeHub, tmp_path: Path) -> None:
    words = ["fetch", f"hf://{NAME}", "--into", str(tmp_path / "m")]
    first = CliRunner().invoke(cli, words)
    assert (first.exit_code, "copied and verified" in first.stdout) == (0, True)
    assert "model.safetensors: 5,000 bytes" in first.stderr
    second = CliRunner().invoke(cli, [*words, "-o", "json"])
    assert json.loads(second.stdout)["copied"] is False
    assert hub.sent_bytes > 0


def test_what_a_person_has_to_change_has_a_status_of_its_own(hub: FakeHub, tmp_path: Path) -> None:
    words = ["fetch", "hf://org/other", "--into", str(tmp_path / "m")]
    refused = CliRunner().invoke(cli, words)
    assert refused.exit_code == NOT_WORTH_A_TRY
    assert "org/other at revision main was not found" in refused.stderr
    assert hub.requests


def test_progress_is_answered_while_files_arrive_and_a_taken_port_stops_no_copy() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        fetch._answer(taken.getsockname()[1], WeightsProgress)  # noqa: SLF001 - it must raise nothing
        port = taken.getsockname()[1]
    fetch._answer(port, lambda: WeightsProgress(1, 4, 2))  # noqa: SLF001 - without a copy
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/progress") as answer:
        assert WeightsProgress.of(json.loads(answer.read())) == WeightsProgress(1, 4, 2)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/other")


def test_sigterm_ends_a_copy_which_leaves_its_turn_to_the_next_process(tmp_path: Path, hub: FakeHub) -> None:
    stands, goes_on, real = Event(), Event(), hub._file  # noqa: SLF001 - the stand-in's own

    def slow(request: object, path: str) -> None:
        if path.endswith("model.safetensors"):
            stands.set()
            goes_on.wait(30)
        real(request, path)  # type: ignore[arg-type]

    hub._file = slow  # type: ignore[method-assign]  # noqa: SLF001 - the same
    words = [sys.executable, "-m", "plimsoll", "fetch", f"hf://{NAME}", "--into", str(tmp_path / "m")]
    running = subprocess.Popen(words, stderr=subprocess.DEVNULL)  # noqa: S603 - our own command
    assert stands.wait(30)
    assert (tmp_path / ".m.beat").exists()
    running.send_signal(signal.SIGTERM)
    goes_on.set()
    assert running.wait(30) == 143
    assert not (tmp_path / ".m.beat").exists()
    assert not (tmp_path / "m").exists()
