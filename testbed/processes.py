"""Child processes that never outlive us: own process group, death signal, bounded waits, a log file each."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from testbed.forking import ForkedProcess, ForkServer

_LAUNCHER = Path(__file__).with_name("launcher.py")
_KILL_WAIT_SECONDS = 60.0

# Linux sends the death signal when the *thread* that made the child ends, so every child is made by this one thread,
# which lives as long as the interpreter.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-spawner")


def dies_with_us() -> list[str]:
    """What to put before a command line so that the kernel ends the program when the thread that starts it ends."""
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())]


_FORKS: list[ForkServer] = []
"""What starts our own programs in this process, where :func:`fork_ours` was called."""


def fork_ours() -> None:
    """From now on, start processes of ours by forking one that has imported everything already; see ``forking``."""
    if not _FORKS:
        _FORKS.append(ForkServer([*dies_with_us(), sys.executable, "-m", "testbed.forking"]))


class Child:
    """One program, started in its own process group with its output in a log file.

    Args:
        name: what to call it in messages and in the log's file name.
        command: absolute path of the program, then its arguments.
        log: file that gets stdout and stderr, appended to.
        environment: the whole environment; None passes ours on.
        directory: where it runs.
        grace_seconds: how long SIGTERM may take before SIGKILL; 0 kills at once.
    """

    _running: ClassVar[weakref.WeakSet[Child]] = weakref.WeakSet()

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        grace_seconds: float = 5.0,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = dict(environment) if environment is not None else None
        self._directory = directory
        self._grace_seconds = grace_seconds
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process is alive now."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        """What it ended with, negative for a signal; None before its start and while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def was_started(self) -> bool:
        """Whether it was ever started, running or not."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group. Raises RuntimeError before the first start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process.pid

    def start(self) -> None:
        """Start the program; starting a running one is an error in the caller.

        Raises:
            RuntimeError: it runs already.
        """
        if self.is_running:
            raise RuntimeError(f"{self.name} runs already, as process {self.pid}")
        self._process = _SPAWNER.submit(self._spawn).result()
        Child._running.add(self)

    def _spawn(self) -> subprocess.Popen[bytes] | ForkedProcess:
        environment = os.environ if self._environment is None else self._environment
        for server in _FORKS:
            if server.serves(self._command, environment):
                return server.start(self._command, environment=environment, directory=self._directory, log=self.log)
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*dies_with_us(), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._directory,
                process_group=0,
            )

    def stop(self) -> None:
        """End it with SIGTERM, after the grace period with SIGKILL, and reap it; no-op if it ended already."""
        if self.is_running and self._grace_seconds > 0:
            self._signal(signal.SIGTERM)
            self._wait(self._grace_seconds)
        self.kill()

    def kill(self) -> None:
        """End its whole process group with SIGKILL and reap it.

        Raises:
            subprocess.TimeoutExpired: the kernel did not let it die in time.
        """
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait(timeout=_KILL_WAIT_SECONDS)
        Child._running.discard(self)

    def pause(self) -> None:
        """Freeze it with SIGSTOP: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after :meth:`pause`."""
        self._signal(signal.SIGCONT)

    def tail(self, characters: int = 3000) -> str:
        """The last part of its log, for error messages."""
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        # Popen.poll has reaped a dead child, and its id may belong to somebody else by now.
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):  # another thread has just ended and reaped it
                os.killpg(self._process.pid, number)

    def _wait(self, seconds: float) -> None:
        if self._process is not None:
            try:
                self._process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                return

    @classmethod
    def kill_all(cls) -> None:
        """End every child of this interpreter, whoever started it."""
        for child in list(cls._running):
            child.kill()


@atexit.register
def _end() -> None:
    """End every child, and then what has forked some of them."""
    Child.kill_all()
    for server in _FORKS:
        server.close()
