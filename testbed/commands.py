"""Running command-line programs to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT_SECONDS = 120.0


class CommandFailed(RuntimeError):
    """A program ended with an error.

    Args:
        command: what was run.
        status: its exit status.
        output: what it wrote, both streams.
    """

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        super().__init__(f"{' '.join(command)}: exit status {status}\n{output}")
        self.status = status
        self.output = output


def run_command(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    check: bool = True,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> str:
    """Run a program and return its stdout; with ``check=False`` also after a failure, then followed by its stderr.

    Raises:
        CommandFailed: it failed, and ``check`` is true.
        subprocess.TimeoutExpired: it did not end within two minutes.
    """
    done = subprocess.run(
        command,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=directory,
        timeout=_TIMEOUT_SECONDS,
    )
    if done.returncode == 0:
        return done.stdout
    if check:
        raise CommandFailed(command, done.returncode, done.stdout + done.stderr)
    return done.stdout + done.stderr
