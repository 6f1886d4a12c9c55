"""The operator under test: a process of its own, with the rights of its chart and no more."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from testbed.api_client import ApiError, http_text
from testbed.control_plane import ControlPlane
from testbed.existing_cluster import ExistingCluster
from testbed.ports import PortReservation
from testbed.processes import Child
from testbed.versions import KUBERNETES
from testbed.waiting import NotInTime, wait_until

NAMESPACE = "plimsoll-system"
SERVICE_ACCOUNT = "plimsoll"
USER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
"""What the operator is called in the audit log."""

_rendered: dict[tuple[str, ...], list[dict[str, Any]]] = {}
"""What Helm made of a chart, by the words of its command line: a process of tests asks for the same again and again."""

_RIGHTS = frozenset({"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})


def install_rbac(
    control_plane: ControlPlane | ExistingCluster, chart: Path, *, values: Mapping[str, str] | None = None
) -> None:
    """Install what the chart says about rights, and nothing else of it; makes the namespace.

    Args:
        control_plane: where to.
        chart: the chart's folder.
        values: ``--set`` values.

    Raises:
        CommandFailed: Helm cannot render the chart, or kubectl says that the API server turns the result down.
        ApiError: a control plane of our own turns the result down.
    """
    # The chart renders nothing without a place to take its image from, and no image is run here.
    settings = {"image.registry": "registry.example", **(values or {})}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    # Without a cluster to ask, Helm takes the release it was built against; the chart asks for a newer one.
    options += ["--kube-version", f"v{KUBERNETES}", "--no-hooks"]
    words = ("template", SERVICE_ACCOUNT, str(chart), "--namespace", NAMESPACE, *options)
    if words not in _rendered:
        _rendered[words] = rights_of(control_plane.helm(*words))
    control_plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    control_plane.apply(_rendered[words])


def rights_of(rendered: str) -> list[dict[str, Any]]:
    """The manifests about rights, out of everything a chart renders."""
    documents = yaml.load_all(rendered, Loader=yaml.CSafeLoader)  # ten times as fast as the loader in Python
    return [document for document in documents if document and document["kind"] in _RIGHTS]


def _new_directory(parent: Path, port: int) -> Path:
    """Create a directory for one operator. An earlier one may have had the same port and given it back."""
    directory = parent / f"operator-{port}-{len(list(parent.glob('operator-*')))}"
    directory.mkdir()
    return directory


LOST_LEASE, LOOK_SECONDS = "this process ends: the lease is lost", 1.0
"""The last words of an operator that lost its lease, and how often a testbed looks for them."""


class OperatorProcess:
    """``python -m plimsoll run`` against a control plane.

    Args:
        control_plane: which cluster; the service account must exist (see :func:`install_rbac`).
        prometheus_url: where it asks for metrics; None leaves the setting out.
        kubeconfig: what it connects with; by default a fresh token of its own service account.
        environment: more settings.
        arguments: more command-line arguments.
        module: what is run; a test that plays another release wraps the real one.
        restarts: whether a process that ends because it lost its lease is started again while this is a context, as the
            kubelet would: on a busy machine the API server may answer a renewal too late.
    """

    def __init__(
        self,
        control_plane: ControlPlane | ExistingCluster,
        *,
        prometheus_url: str | None = None,
        kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        module: str = "plimsoll",
        restarts: bool = True,
    ) -> None:
        self._reservation = PortReservation()
        self.metrics_port, self.health_port = self._reservation.take(), self._reservation.take()
        directory = _new_directory(control_plane.directory, self.health_port)
        config = kubeconfig or control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
        settings = {
            "KUBECONFIG": str(config),
            "PLIMSOLL_METRICS_PORT": str(self.metrics_port),
            "PLIMSOLL_HEALTH_PORT": str(self.health_port),
            "PLIMSOLL_NAMESPACE": NAMESPACE,
            "PLIMSOLL_IDENTITY": directory.name,
            # Played pods have addresses that nobody answers at: without a Prometheus there are no metrics.
            **({"PLIMSOLL_PROMETHEUS_URL": prometheus_url} if prometheus_url else {"PLIMSOLL_DIRECT_SCRAPE": "false"}),
        }
        self.log = directory / "operator.log"
        self._child = Child(
            "operator",
            [sys.executable, "-m", module, "run", *arguments],
            log=self.log,
            environment=os.environ | settings | dict(environment or {}),
            directory=directory,
            grace_seconds=20,
        )
        self._restarts = restarts
        self._is_wanted, self._turn = False, threading.RLock()
        self._left, self.looks = threading.Event(), 0

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._child.is_running

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def exit_status(self) -> int | None:
        """What it ended with, negative for a signal; None while it runs."""
        return self._child.exit_status

    def start(self) -> Self:
        """Start it; see :meth:`wait_healthy`."""
        with self._turn:
            self._is_wanted = True
            self._child.start()
        return self

    def stop(self) -> None:
        """SIGTERM, then after 20 s SIGKILL."""
        with self._turn:
            self._is_wanted = False
        self._child.stop()

    def close(self) -> None:
        """Stop it for good, and give its ports back."""
        self._left.set()
        self.stop()
        self._reservation.release()

    def kill(self) -> None:
        """SIGKILL: it gets no chance to tidy up."""
        with self._turn:
            self._is_wanted = False
        self._child.kill()

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and does nothing."""
        self._child.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self._child.resume()

    def restart(self) -> None:
        """Stop it politely and start it on the same ports."""
        self.stop()
        self.start()

    def start_if_ended(self) -> bool:
        """Do what the kubelet does with a process that ended; returns True, for use in a question."""
        with self._turn:
            if not self.is_running:
                self.start()
        return True

    def healthy(self) -> bool:
        """Whether its health endpoint answers well."""
        return self.probe("/healthz")[0] == HTTPStatus.OK

    def ready(self) -> bool:
        """Whether it says that it is ready: it leads, or it stands by."""
        return self.probe("/readyz")[0] == HTTPStatus.OK

    def probe(self, path: str, timeout: float = 2.0) -> tuple[int, str]:
        """HTTP status and body of a path on its health port; 0 and the reason where nobody answers."""
        try:
            return HTTPStatus.OK, http_text(f"http://127.0.0.1:{self.health_port}{path}", timeout=timeout)
        except ApiError as error:
            return error.status, str(error)
        except OSError as error:
            return 0, repr(error)

    def wait_healthy(self, timeout: float = 180.0) -> Self:
        """Wait for its health endpoint and its metrics, each a server of its own.

        Raises:
            NotInTime: one of them does not answer in time, or the process ended; with the end of its log.
        """

        def answers() -> str:
            return "healthy" if self.healthy() and self._shows_metrics() else "" if self.is_running else "ended"

        answered = wait_until(answers, timeout, "the operator healthy, with metrics")
        if answered == "ended":
            raise NotInTime(f"the operator ended:\n{self._child.tail()}")
        return self

    def metrics(self) -> str:
        """Its own metrics page. Raises ``OSError`` when nobody answers."""
        return http_text(f"http://127.0.0.1:{self.metrics_port}/metrics")

    def known_gpus(self) -> int:
        """The GPUs of all nodes that it has heard of and may use, by its metrics; 0 while it does not answer."""
        try:
            page = self.metrics()
        except OSError:
            return 0
        found = re.findall(r"^plimsoll_fleet_gpus{[^}]*} (\S+)$", page, re.MULTILINE)
        return sum(round(float(count)) for count in found)

    def _shows_metrics(self) -> bool:
        try:
            self.metrics()
        except OSError:
            return False
        return True

    def log_lines(self) -> list[str]:
        """Everything it has logged so far."""
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def _restart_after_a_lost_lease(self) -> None:
        while not self._left.wait(LOOK_SECONDS):
            with self._turn:
                ended = self._is_wanted and not self._child.is_running
                if ended and LOST_LEASE in self._child.tail():
                    self._child.start()
                self.looks += 1

    def __enter__(self) -> Self:
        try:
            self.start().wait_healthy()
        except BaseException:
            self.close()
            raise
        if self._restarts:
            threading.Thread(target=self._restart_after_a_lost_lease, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
