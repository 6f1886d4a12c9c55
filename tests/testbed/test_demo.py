"""The demonstration ends with words and without a traceback, whatever a step raises."""

from __future__ import annotations

import subprocess
import sys

import pytest

from testbed import demo
from testbed.binaries import BuildFailed
from testbed.commands import CommandFailed
from testbed.played_router import PortTaken
from testbed.waiting import NotInTime

FAULTS = [
    NotInTime("chat serving: not within 120 s; the last answer was []"),
    BuildFailed("[1/9] etcd 3.6.9: go build failed with status 1"),
    CommandFailed(["kubectl", "get", "[/nodes]"], 1, "the server was not found"),
    PortTaken("port 9090 of 127.1.2.1 is taken"),
    ConnectionError("GET /readyz: refused"),
    subprocess.TimeoutExpired(["kubectl"], 120),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_fault_of_a_step_is_said_in_its_own_words(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise fault

    monkeypatch.setattr(demo, "_on_own_control_plane", fails)
    monkeypatch.setattr(demo, "end_on_signals", lambda: None)
    monkeypatch.setattr(sys, "argv", ["demo", "--exit"])
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert demo.main() == 1
    assert f"A step did not come true: {fault}".split() == capsys.readouterr().out.split()
