"""A signal ends a command that stays up, whenever it comes."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.support.tables import every_case

_COMMAND = """
from testbed.ending import end_on_signals, stay_up
end_on_signals()
try:
    print("up", flush=True)
    {busy}
    stay_up()
except KeyboardInterrupt:
    print("removed")
"""


@every_case("number", [signal.SIGINT, signal.SIGTERM])
@every_case("busy", ["pass", "import time; time.sleep(60)", "while True: print(end='')"])
def test_clean_up_runs_whatever_the_command_was_at(number: signal.Signals, busy: str) -> None:
    command = [sys.executable, "-c", _COMMAND.format(busy=busy)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:  # noqa: S603 -- this very interpreter
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        running.send_signal(number)
        rest, _ = running.communicate(timeout=60)

    assert (running.returncode, rest) == (0, "removed\n")


def test_an_ignored_interrupt_is_heard_again() -> None:
    command = ["/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, "-c", _COMMAND.format(busy="pass")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:  # noqa: S603 -- a fixed command
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=60)

    assert (running.returncode, rest) == (0, "removed\n")
