"""The console under test: ``plimsoll console`` as a process of its own, with somebody's kubeconfig."""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from testbed.processes import Child
from testbed.waiting import NotInTime, wait_until

_START_SECONDS = 120.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


class ConsoleProcess:
    """Started on a free port; use it as a context manager.

    Args:
        kubeconfig: whose rights it has.
        directory: for its log.
        prometheus_url: where it reads live use; None for no live marks.
        arguments: more words of the command line.
        environment: more variables of its environment.
        module: what is run; a test wraps the real one.
    """

    def __init__(
        self,
        kubeconfig: Path,
        directory: Path,
        *,
        prometheus_url: str | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        module: str = "plimsoll",
    ) -> None:
        words = ("console", "--port", "0", "--kubeconfig", str(kubeconfig), *arguments)
        live = ("--prometheus-url", prometheus_url) if prometheus_url else ()
        inherited = {key: value for key, value in os.environ.items() if key != "PLIMSOLL_PROMETHEUS_URL"}
        self.log = directory / f"console-{uuid.uuid4().hex[:8]}.log"
        self._child = Child(
            "console",
            [sys.executable, "-m", module, *words, *live],
            log=self.log,
            environment=inherited | {"PYTHONUNBUFFERED": "1"} | dict(environment or {}),
        )
        self.entry = ""
        """The address that it prints: a person opens it first."""

    @property
    def origin(self) -> str:
        """Scheme, host and port of its pages."""
        parts = urlsplit(self.entry)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self._child.stop()

    def __enter__(self) -> Self:
        self._child.start()
        try:
            self.entry = wait_until(self._address, _START_SECONDS, "the console's address")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _address(self) -> str:
        """Return the address that it printed; empty before. Raises NotInTime when it has ended instead."""
        if not self._child.is_running:
            raise NotInTime(f"the console ended:\n{self._child.tail()}")
        found = _ADDRESS.search(self.log.read_text(errors="replace")) if self.log.exists() else None
        return found[0] if found else ""
