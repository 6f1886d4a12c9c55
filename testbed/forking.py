"""Processes of ours without the second that their imports take: a server that has made them starts each by forking.

A run of the tests starts about a hundred operators and consoles, and each would import the same 900 modules again. A
forked process is one like another: it has its own environment, folder, group, output and exit status. Two kinds are
started as usual: another module than ``plimsoll``, which may change what others import, and a process for which Python
itself is to start otherwise (``PYTHON...`` in its environment).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
"""Source: ``linux/prctl.h``."""

_ROOT = Path(__file__).parents[1]
_OURS = "plimsoll"
_UNBUFFERED = "PYTHONUNBUFFERED"
_POLL_SECONDS = 0.02

_READ_AT_IMPORT = ("kubernetes.config.kube_config", "kubernetes.aio.config.kube_config")
"""Modules that keep a variable of the environment when they are imported. A forked process runs them again."""

_USED_BY_EACH = (("plimsoll.api.crd.schema", "root_schema"), ("plimsoll.adapters.catalog", "load_gpu_types"))
"""Functions that keep what they compute. Every operator calls them: a seventh of a second of the processor for each."""

_LEFT_TO_EACH = frozenset({"huggingface_hub"})
"""Packages that spread such a variable over several modules. Each process imports them, and what needs them, itself."""


class ForkedProcess:
    """A started process; the part of :class:`subprocess.Popen` that a ``Child`` needs."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._status: int | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs. Reaps it."""
        if self._status is None:
            self._status = self._server.ask({"poll": self.pid})
        return self._status

    def wait(self, timeout: float) -> int:
        """Wait for its end. Raises ``subprocess.TimeoutExpired``."""
        end = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(_OURS, timeout)
            time.sleep(_POLL_SECONDS)
        return status


class ForkServer:
    """The process that has the imports; started when it is first needed, and ended with us.

    Args:
        command: starts ``python -m testbed.forking``, so that it dies with us.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def serves(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether a process that is started so is the same when it is forked."""
        odd = {
            name
            for name in {*environment, *os.environ}
            if name.startswith("PYTHON") and name != _UNBUFFERED and environment.get(name) != os.environ.get(name)
        }
        return tuple(command[:3]) == (sys.executable, "-m", _OURS) and not odd

    def start(
        self, command: Sequence[str], *, environment: Mapping[str, str], directory: Path | None, log: Path
    ) -> ForkedProcess:
        """Start one."""
        wanted = {
            "words": list(command[3:]),
            "environment": dict(environment),
            "directory": str(directory or Path.cwd()),
            "log": str(log),
        }
        return ForkedProcess(self, self.ask(wanted))

    def ask(self, question: Mapping[str, Any]) -> Any:
        """Send one question and return the answer. Raises ``RuntimeError`` when the server has ended."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    self._command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
                )
            questions, answers = self._process.stdin, self._process.stdout
            if questions is None or answers is None:
                raise RuntimeError("the fork server has no pipes")
            questions.write(json.dumps(question) + "\n")
            questions.flush()
            answer = answers.readline()
        if not answer:
            raise RuntimeError("the fork server has ended")
        return json.loads(answer)

    def close(self) -> None:
        """End the server, and with it every process that it has started."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.communicate()
                self._process = None


class _Absent(MetaPathFinder):
    """Refuses the packages that each process has to import itself."""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise for those packages, and leave all others to the next finder."""
        if name.partition(".")[0] in _LEFT_TO_EACH:
            raise ModuleNotFoundError(name, name=name)


def import_ours() -> None:
    """Import each module of ours that can be imported without what is left to each process."""
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    package = importlib.import_module(_OURS)
    for module in pkgutil.walk_packages(package.__path__, f"{_OURS}."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    sys.meta_path.remove(absent)


def serve() -> None:
    """Answer questions from standard input until it ends."""
    import_ours()
    for module, function in _USED_BY_EACH:
        getattr(importlib.import_module(module), function)()
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy every page of what is shared
    for line in sys.stdin:
        question = json.loads(line)
        answer = _ended(question["poll"]) if "poll" in question else _fork(question)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _ended(pid: int) -> int | None:
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def _fork(wanted: Mapping[str, Any]) -> int:
    server = os.getpid()
    if pid := os.fork():
        os.setpgid(pid, pid)  # whoever asks for the group now finds it, whichever of the two is first
        return pid
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)
    _become(wanted)
    raise SystemExit(0)


def _become(wanted: Mapping[str, Any]) -> None:
    """Make this process what a new one would be, and run the program in it."""
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["directory"])
    log = os.open(wanted["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 256)
    unbuffered = bool(os.environ.get(_UNBUFFERED))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- for the whole life of the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 -- same
    sys.stdout.reconfigure(write_through=unbuffered, line_buffering=unbuffered)
    sys.argv = [_OURS, *wanted["words"]]
    for name in _READ_AT_IMPORT:
        if name in sys.modules:
            importlib.reload(sys.modules[name])
    runpy.run_module(_OURS, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve()
