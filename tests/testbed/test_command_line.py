"""``python -m testbed`` as a person uses it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_up_prints_a_kubeconfig_and_goes_without_a_trace(end: signal.Signals) -> None:
    command = [sys.executable, "-m", "testbed", "up"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:  # noqa: S603 -- this very interpreter
        assert running.stdout is not None
        line = running.stdout.readline()
        config = Path(line.strip().removeprefix("export KUBECONFIG="))
        assert config.is_file()

        running.send_signal(end)
        assert running.wait(timeout=60) == 0

    assert not config.parent.exists()
