"""The control plane itself, for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from testbed.api_client import ApiError
from testbed.audit import AuditLog
from testbed.binaries import ensure_binaries
from testbed.commands import CommandFailed
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node, mixed_fleet
from testbed.instance_directory import InstanceDirectory
from testbed.judge import Judge
from testbed.waiting import wait_until
from tests.support.workloads import H100, gpu_deployment

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane of the file's own: its parts are stopped here."""
    with ControlPlane() as running:
        running.apply(mixed_fleet())
        yield running


def pods_of(control_plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = control_plane.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return items


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def processes_of(directory: Path) -> list[str]:
    """Command lines of every process that names the instance directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(directory) in words:
            found.append(words)
    return found


def test_two_run_side_by_side_and_leave_nothing(control_plane: ControlPlane) -> None:
    ensure_binaries()
    with ControlPlane() as second:
        directory = second.directory
        second.apply([gpu_node("only-here", "L4", 1)])
        theirs = control_plane.kubectl("get", "nodes", "--output=name")
        running = processes_of(directory)

    assert "only-here" not in theirs
    assert second is not control_plane
    assert len(running) >= 4
    assert processes_of(directory) == []
    assert not directory.exists()


def test_reports_the_pinned_version(control_plane: ControlPlane) -> None:
    version = json.loads(control_plane.kubectl("version", "--output=json"))

    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"] == "v1.36.4"


def test_a_gpu_pod_is_scheduled_onto_the_h100_node_and_becomes_ready(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply([gpu_deployment("llama", namespace, gpus=4, node_selector=H100)])

    [pod] = control_plane.wait_until(
        lambda: [pod for pod in pods_of(control_plane, namespace) if is_ready(pod)], 60, "the pod ready"
    )

    assert pod["spec"]["nodeName"] == "h100-0"
    assert pod["status"]["podIP"]


def test_pods_that_ask_for_more_gpus_than_there_are_stay_pending(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply([gpu_deployment("wide", namespace, gpus=9)])

    [message] = control_plane.wait_until(
        lambda: [
            condition["message"]
            for pod in pods_of(control_plane, namespace)
            for condition in pod["status"].get("conditions", [])
            if condition.get("reason") == "Unschedulable"
        ],
        60,
        "the scheduler's refusal",
    )

    assert "Insufficient nvidia.com/gpu" in message


def test_a_crash_annotation_plays_a_crash_loop_with_the_engines_last_words(
    control_plane: ControlPlane, namespace: str
) -> None:
    words = 'ValueError: "No available memory"\nfor the cache blocks.'
    control_plane.apply([gpu_deployment("oom", namespace, annotations={"testbed.plimsoll.dev/crash": words})])

    def crashed() -> list[dict[str, Any]]:
        statuses = [
            status for pod in pods_of(control_plane, namespace) for status in pod["status"].get("containerStatuses", [])
        ]
        return [status for status in statuses if status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"]

    [status] = control_plane.wait_until(crashed, 60, "the crash loop")

    assert status["lastState"]["terminated"]["message"] == words
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert status["restartCount"] == 1
    assert not is_ready(pods_of(control_plane, namespace)[0])


def test_load_time_delays_readiness(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply([gpu_deployment("slow", namespace, annotations={"testbed.plimsoll.dev/load-time": "600s"})])

    control_plane.wait_until(
        lambda: [pod for pod in pods_of(control_plane, namespace) if pod["status"]["phase"] == "Running"],
        60,
        "it loads",
    )

    assert not is_ready(pods_of(control_plane, namespace)[0])


def test_the_audit_log_holds_a_write_as_soon_as_it_is_answered(control_plane: ControlPlane, namespace: str) -> None:
    log = AuditLog(control_plane.audit_log)
    start = log.offset()

    control_plane.kubectl("create", "configmap", "note", "--namespace", namespace, "--from-literal=a=b")
    control_plane.kubectl("get", "configmap", "note", "--namespace", namespace)

    [event] = log.events(start, user="admin", resource="configmaps")
    assert (event.verb, event.name or event.body["metadata"]["name"], event.status) == ("create", "note", 201)
    assert event.body["data"] == {"a": "b"}


def test_a_service_account_has_only_the_rights_it_was_given(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "guest", "--namespace", namespace)
    config = control_plane.service_account_kubeconfig(namespace, "guest")

    who = control_plane.kubectl(
        "--kubeconfig", str(config), "auth", "whoami", "--output=jsonpath={.status.userInfo.username}"
    )
    assert who == f"system:serviceaccount:{namespace}:guest"
    with pytest.raises(CommandFailed, match="cannot list resource"):
        control_plane.kubectl("--kubeconfig", str(config), "get", "nodes")


def test_what_is_applied_is_checked_and_kept(control_plane: ControlPlane, namespace: str) -> None:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": namespace}}
    control_plane.apply([head | {"data": {"l4-24gb": "1"}}])
    with pytest.raises(ApiError, match=r"\.dat: field not declared"):
        control_plane.apply([head | {"dat": {"l4-24gb": "2"}}])
    kept = control_plane.client.get(f"/api/v1/namespaces/{namespace}/configmaps/prices")
    assert kept["data"] == {"l4-24gb": "1"}


def test_a_node_can_be_unready_and_ready_again(control_plane: ControlPlane) -> None:
    def ready(expected: str) -> bool:
        conditions = control_plane.client.get("/api/v1/nodes/l4-0")["status"]["conditions"]
        return any(each["type"] == "Ready" and each["status"] == expected for each in conditions)

    control_plane.wait_until(lambda: ready("True"), 60, "the node ready")
    control_plane.set_node_ready("l4-0", ready=False)
    control_plane.wait_until(lambda: ready("False"), 60, "the node not ready")
    control_plane.set_node_ready("l4-0", ready=True)
    control_plane.wait_until(lambda: ready("True"), 60, "the node ready again")


def test_a_lost_node_takes_its_pods_with_it(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply([gpu_node("doomed", "L4", 1, labels={"doomed": "yes"})])
    control_plane.apply([gpu_deployment("victim", namespace, node_selector={"doomed": "yes"})])
    [victim] = control_plane.wait_until(
        lambda: [pod for pod in pods_of(control_plane, namespace) if is_ready(pod)], 60, "the pod ready"
    )

    control_plane.lose_node("doomed")

    def replaced() -> bool:
        names = [pod["metadata"]["name"] for pod in pods_of(control_plane, namespace)]
        return len(names) == 1 and names[0] != victim["metadata"]["name"]

    control_plane.wait_until(replaced, 60, "the pod gone and another one waiting")
    assert pods_of(control_plane, namespace)[0]["status"]["phase"] == "Pending"


def test_the_api_server_can_go_away_and_come_back(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.stop_apiserver()
    try:
        with pytest.raises((OSError, ApiError)):
            control_plane.client.get("/api/v1/nodes")
    finally:
        control_plane.start_apiserver()

    control_plane.apply([gpu_deployment("after", namespace)])
    control_plane.wait_until(
        lambda: any(is_ready(pod) for pod in pods_of(control_plane, namespace)), 60, "the pod ready"
    )


@pytest.fixture
def judged(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    control_plane.set_judged(judged=True)
    with Judge(control_plane.client):
        yield control_plane
    control_plane.set_judged(judged=False)


def test_the_judge_lets_through_what_fits_and_crashes_what_does_not(judged: ControlPlane) -> None:
    cluster = judged
    large = ["meta-llama/Llama-3.3-70B-Instruct", "--max-model-len=8192"]
    cluster.apply(
        [
            gpu_deployment("fits", "default", node_selector=H100),
            gpu_deployment("large", "default", arguments=large, node_selector=H100),
        ]
    )

    def outcome() -> dict[str, bool]:
        pods = pods_of(cluster, "default")
        decided = [pod for pod in pods if is_ready(pod) or "CrashLoopBackOff" in json.dumps(pod["status"])]
        return {pod["metadata"]["labels"]["plimsoll.dev/deployment"]: is_ready(pod) for pod in decided}

    cluster.wait_until(lambda: len(outcome()) == 2, 60, "both judged")
    assert outcome() == {"fits": True, "large": False}
    assert "Failed to load model" in json.dumps([pod["status"] for pod in pods_of(cluster, "default")])


def test_nothing_survives_a_parent_that_is_killed() -> None:
    script = """
import time
from testbed.control_plane import ControlPlane
with ControlPlane() as running:
    print(running.directory, flush=True)
    time.sleep(600)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:  # noqa: S603 -- this very interpreter
        assert parent.stdout is not None
        directory = Path(parent.stdout.readline().strip())
        assert len(processes_of(directory)) >= 4
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait(timeout=60)

    wait_until(lambda: not processes_of(directory), 60, "every process gone")
    assert directory.exists()
    with closing(InstanceDirectory(keep=False)) as following:
        assert following.path != directory
        assert not directory.exists()


def test_a_compacted_store_makes_old_versions_gone(control_plane: ControlPlane, namespace: str) -> None:
    old = control_plane.client.get(f"/api/v1/namespaces/{namespace}")["metadata"]["resourceVersion"]
    control_plane.kubectl("create", "configmap", "later", "--namespace", namespace)
    status = json.loads(control_plane.etcdctl("endpoint", "status", "--write-out=json"))

    control_plane.etcdctl("compact", str(status[0]["Status"]["header"]["revision"]))
    # The API server would still answer from its own cache of recent changes.
    control_plane.stop_apiserver()
    control_plane.start_apiserver()

    path = f"/api/v1/namespaces/{namespace}/configmaps"
    with pytest.raises(ApiError, match="HTTP 410"):
        control_plane.client.get(path, resourceVersion=old, resourceVersionMatch="Exact")


def test_a_control_plane_that_is_not_started_says_so() -> None:
    with pytest.raises(RuntimeError, match="not started"):
        ControlPlane().kubectl("get", "nodes")


def test_the_mixed_fleet_becomes_ready(control_plane: ControlPlane) -> None:
    names = {node["metadata"]["name"] for node in mixed_fleet()}

    def ready() -> set[str]:
        nodes = control_plane.client.get("/api/v1/nodes")["items"]
        return {node["metadata"]["name"] for node in nodes if is_ready(node)}

    control_plane.wait_until(lambda: names <= ready(), 60, "every node ready")
