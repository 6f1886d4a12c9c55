"""An operator that sees the API server through the fault proxy, and what an observer writes down meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from testbed.background import BackgroundLoop
from testbed.control_plane import ControlPlane
from testbed.fault_proxy import FaultProxy
from testbed.kubeconfig import write_kubeconfig
from testbed.operator_process import NAMESPACE, SERVICE_ACCOUNT, OperatorProcess
from testbed.waiting import wait_until

IMPATIENT = {"PLIMSOLL_STRANDED_SECONDS": "2"}
"""A pod without a node is offered another place after 2 s: nobody wants to wait for the default in a test.

It is for tests in which pods wait for nodes. Elsewhere a scheduler that is late by 2 s would change the first place.
"""

PATIENT = {"PLIMSOLL_STRANDED_SECONDS": "120"}
"""A pod keeps its place, however late the scheduler of a busy machine is: for tests that count on the first place."""


@contextmanager
def fault_proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    """A proxy before this control plane's API server."""
    authority = (control_plane.directory / "ca.crt").read_text()
    with FaultProxy(control_plane.server, authority) as proxy:
        yield proxy


def kubeconfig_of(control_plane: ControlPlane, name: str, *, server: str, account: str = SERVICE_ACCOUNT) -> Path:
    """A kubeconfig of a service account in the operator's namespace for another URL, in a file of its own."""
    token = control_plane.service_account_token(NAMESPACE, account)
    path = control_plane.directory / f"{name}.kubeconfig"
    authority = control_plane.directory / "ca.crt"
    return write_kubeconfig(path, server=server, authority=authority, token=token, namespace=NAMESPACE)


def operator_through(
    control_plane: ControlPlane, proxy: FaultProxy, *, environment: Mapping[str, str] | None = None
) -> OperatorProcess:
    """An operator, not started yet, whose every request passes the proxy. It leaves its pods time for the scheduler."""
    kubeconfig = kubeconfig_of(control_plane, f"proxy-{proxy.url.rpartition(':')[2]}", server=proxy.url)
    settings = PATIENT | dict(environment or {})
    return OperatorProcess(control_plane, kubeconfig=kubeconfig, environment=settings, restarts=False)


def passes(operator: OperatorProcess) -> int:
    """Planning passes that it has completed, by its own metrics."""
    try:
        page = operator.metrics()
    except OSError:
        return 0
    counts = [line.split()[1] for line in page.splitlines() if line.startswith("plimsoll_pass_duration_seconds_count")]
    return int(float(counts[0])) if counts else 0


@dataclass(slots=True)
class Sampled:
    """Answers of ``/healthz``: seconds since the first sample, and the HTTP status (0: nobody answered)."""

    samples: list[tuple[float, int]] = field(default_factory=list)

    @property
    def bad(self) -> list[tuple[float, int]]:
        """Every sample that is not 200."""
        return [sample for sample in self.samples if sample[1] != 200]


@contextmanager
def sampled_health(operator: OperatorProcess, every_seconds: float = 0.5) -> Iterator[Sampled]:
    """Ask for the operator's health again and again for the length of a block."""
    seen, began, lock = Sampled(), time.monotonic(), threading.Lock()

    def sample() -> None:
        status, _ = operator.probe("/healthz", timeout=10)
        with lock:
            seen.samples.append((round(time.monotonic() - began, 1), status))

    loop = BackgroundLoop("health", sample, every_seconds)
    loop.start()
    try:
        yield seen
    finally:
        loop.stop()


@dataclass(frozen=True, slots=True)
class Calm:
    """What an operator was like before somebody tried to hurt it."""

    operator: OperatorProcess
    pid: int
    lines: int

    @staticmethod
    def now(operator: OperatorProcess) -> Calm:
        """Remember."""
        return Calm(operator, operator.pid, len(operator.log_lines()))

    def new_lines(self) -> list[str]:
        """What it has logged since."""
        return self.operator.log_lines()[self.lines :]

    def assert_kept(self, *, tracebacks: int, lines: int = 3000) -> None:
        """It is the same process, it is healthy, and its log is no storm."""
        log = self.new_lines()
        tail = "\n".join(log[-30:])
        assert self.operator.is_running, f"it ended with {self.operator.exit_status}:\n{tail}"
        assert self.operator.pid == self.pid, "it was started again"
        wait_until(self.operator.healthy, 60, "the operator healthy")
        assert sum("Traceback" in line for line in log) <= tracebacks, tail
        assert len(log) <= lines, f"{len(log)} lines:\n{tail}"
