"""The operator's process and its rights, with a stand-in for the operator and for its chart."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from testbed.control_plane import ControlPlane
from testbed.operator_process import LOST_LEASE, NAMESPACE, USER, OperatorProcess, install_rbac
from testbed.rights import may
from testbed.waiting import NotInTime, wait_until

pytestmark = pytest.mark.cluster

RIGHTS = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: plimsoll, namespace: {{ .Release.Namespace }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: plimsoll}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: plimsoll}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: plimsoll}
subjects: [{kind: ServiceAccount, name: plimsoll, namespace: {{ .Release.Namespace }}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: no-right, namespace: {{ .Release.Namespace }}}
"""

STAND_IN = """
import os, signal, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer

print(sys.argv[1:], os.environ["PLIMSOLL_PROMETHEUS_URL"], os.environ["KUBECONFIG"], flush=True)


class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/healthz", "/metrics") else 404)
        self.end_headers()


metrics = HTTPServer(("127.0.0.1", int(os.environ["PLIMSOLL_METRICS_PORT"])), Health)
threading.Thread(target=metrics.serve_forever, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
health = HTTPServer(("127.0.0.1", int(os.environ["PLIMSOLL_HEALTH_PORT"])), Health)
threading.Thread(target=health.serve_forever, daemon=True).start()
signal.sigwait({signal.SIGUSR1})
print(os.environ["LAST_WORDS"], flush=True)
os._exit(1)
"""


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> None:
    chart = tmp_path_factory.mktemp("chart")
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: plimsoll, version: 0.0.1}")
    (chart / "templates").mkdir()
    (chart / "templates" / "all.yaml").write_text(RIGHTS)
    install_rbac(control_plane, chart)


def stand_in(folder: Path, code: str) -> dict[str, str]:
    """An environment in which ``python -m plimsoll`` runs this code instead."""
    (folder / "plimsoll").mkdir()
    (folder / "plimsoll" / "__init__.py").touch()
    (folder / "plimsoll" / "__main__.py").write_text(code)
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.usefixtures("rights")
def test_the_chart_gives_rights_and_nothing_else(control_plane: ControlPlane) -> None:
    assert may(control_plane.client, USER, "list", "nodes")
    assert not may(control_plane.client, USER, "delete", "nodes")
    assert "no-right" not in control_plane.kubectl("get", "configmaps", "--namespace", NAMESPACE, "--output=name")


@pytest.mark.usefixtures("rights")
def test_the_operator_runs_dies_and_comes_back_on_the_same_ports(control_plane: ControlPlane, tmp_path: Path) -> None:
    environment = stand_in(tmp_path, STAND_IN)
    with OperatorProcess(control_plane, prometheus_url="http://p", environment=environment) as operator:
        assert operator.log_lines()[0].startswith("['run'] http://p /")
        first = operator.pid
        operator.kill()
        assert not operator.is_running
        assert not operator.healthy()
        operator.start().wait_healthy()
        assert operator.pid != first
        operator.restart()
        wait_until(operator.healthy, 60, "healthy after the restart")

    assert not operator.is_running


@pytest.mark.usefixtures("rights")
def test_an_operator_that_ends_is_not_waited_for(control_plane: ControlPlane, tmp_path: Path) -> None:
    environment = stand_in(tmp_path, "raise SystemExit('no such flag')")

    with pytest.raises(NotInTime, match="no such flag"), OperatorProcess(control_plane, environment=environment):
        pass


@pytest.mark.usefixtures("rights")
@pytest.mark.parametrize(
    ("restarts", "words", "comes_back"),
    [(True, LOST_LEASE, True), (False, LOST_LEASE, False), (True, "this process ends: planning ended", False)],
)
def test_who_loses_its_lease_is_started_again_and_who_ends_otherwise_is_not(
    control_plane: ControlPlane, tmp_path: Path, *, restarts: bool, words: str, comes_back: bool
) -> None:
    environment = stand_in(tmp_path, STAND_IN) | {"LAST_WORDS": words}
    with OperatorProcess(
        control_plane, prometheus_url="http://p", environment=environment, restarts=restarts
    ) as operator:
        first = operator.pid
        os.kill(first, signal.SIGUSR1)
        wait_until(lambda: words in operator.log.read_text(), 60, "the first process ends")
        if comes_back:
            wait_until(lambda: operator.pid != first and operator.healthy(), 60, "another process is healthy")
        else:
            wait_until(lambda: operator.exit_status is not None, 60, "it ended")
            looks = operator.looks
            wait_until(lambda: not restarts or operator.looks > looks + 1, 60, "it was looked at after its end")
            assert (operator.pid, operator.exit_status) == (first, 1)
