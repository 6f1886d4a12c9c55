"""What breaks around the operator, and the operator itself: in the end the cluster is as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fault_proxy import FaultProxy
from testbed.fleet import gpu_node, mixed_fleet
from testbed.operator_process import OperatorProcess
from tests.support.faulty import IMPATIENT, fault_proxy, operator_through, passes
from tests.support.installed import (
    View,
    condition,
    inference_deployment,
    install,
    on_gpu,
    operator_writes,
    secret_reads,
)
from tests.support.planes import borrowed_plane
from tests.support.workloads import H100, gpu_deployment

pytestmark = pytest.mark.cluster

L4 = {"nvidia.com/gpu.product": "NVIDIA-L4"}
WHOLE_H100_NODE = on_gpu("h100-sxm-80gb", 8)
NO_LEASE = "^(?!.*/leases)"
"""Every process writes a lease first, whatever there is to do."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane() as running:
        running.apply(mixed_fleet())
        install(running)
        yield running


@pytest.fixture(scope="module")
def started(control_plane: ControlPlane) -> Iterator[OperatorProcess]:
    with OperatorProcess(control_plane, environment=IMPATIENT, restarts=False) as operator:
        yield operator


@pytest.fixture
def operator(started: OperatorProcess) -> Iterator[OperatorProcess]:
    """The operator, running; a test that ends it gets it started again."""
    if not started.is_running:
        started.start()
    yield started.wait_healthy()
    if not started.is_running:
        started.start().wait_healthy()


def test_killed_after_every_single_write_it_ends_with_one_of_each(
    control_plane: ControlPlane, started: OperatorProcess, here: View
) -> None:
    started.stop()
    since = AuditLog(control_plane.audit_log).offset()
    with fault_proxy(control_plane) as proxy:
        victim = operator_through(control_plane, proxy)
        try:
            here.apply("hurt", **on_gpu("h100-sxm-80gb"))
            only_decided = 0
            while killed(victim, proxy, here):
                recorded = {f"hurt-{pool['name']}" for pool in here.pools("hurt")}
                assert set(here.workloads("hurt")) <= recorded, "made before it was on record"
                only_decided += bool(recorded) and not here.workloads("hurt")
                assert len(proxy.killed_at) < 30, f"it never comes to rest: {proxy.killed_at}"
            assert only_decided >= 1
            assert len(proxy.killed_at) >= 5
        finally:
            victim.close()
    assert here.workloads("hurt") == ["hurt-h100-sxm-80gb-tp1"]
    assert len(here.all("replicasets", "hurt")) == len(here.all("pods", "hurt")) == 1
    created = [
        (event.resource, event.name)
        for event in operator_writes(control_plane, since, here.namespace)
        if event.status == 201 and event.resource != "events"
    ]
    assert sorted(created) == [
        ("deployments", "hurt-h100-sxm-80gb-tp1"),
        ("poddisruptionbudgets", "hurt"),
        ("services", "hurt"),
    ]


def killed(victim: OperatorProcess, proxy: FaultProxy, here: View) -> bool:
    """Start the operator with its next write as its last. False if it lives on, with everything ready and still."""
    deaths = len(proxy.killed_at)
    proxy.arm(victim.kill, at=NO_LEASE)
    victim.start()

    def settled() -> bool:
        ready = condition(here.get("hurt"), "Ready").get("reason") == "Serving"
        return ready and victim.healthy() and passes(victim) >= 2

    try:
        here.wait(lambda: len(proxy.killed_at) > deaths or settled(), "another death, or rest")
    except AssertionError as error:
        raise AssertionError(
            f"{error}; {proxy.killed_at}; running: {victim.is_running}; {victim.log_lines()[-25:]}"
        ) from error
    return len(proxy.killed_at) > deaths


def test_what_happens_while_it_is_down_is_put_right_at_its_start(operator: OperatorProcess, here: View) -> None:
    here.apply("stays", **on_gpu("h100-sxm-80gb"))
    here.apply("loses-its-node", gpu={"allow": ["l40s-48gb", "a100-sxm-80gb"]})
    here.apply("comes-back", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("stays")
    first = here.wait_ready("comes-back")
    here.wait_ready("loses-its-node")
    [lost] = here.nodes_of("loses-its-node")
    operator.kill()

    here.control_plane.lose_node(lost)
    here.delete("inferencedeployments", "comes-back")
    here.wait(lambda: not here.get("comes-back"), "it deleted")
    here.apply("comes-back", contextLength=8192, **on_gpu("h100-sxm-80gb", 2))
    [dead] = here.pods("stays")
    here.control_plane.kubectl("delete", "pod", dead["metadata"]["name"], "--namespace", here.namespace, "--wait=false")
    operator.start()
    try:
        [other] = {"l40s-0", "a100-0"} - {lost}
        here.wait(lambda: here.nodes_of("loses-its-node") == [other], "another node")
        moved = here.wait_ready("loses-its-node")
        again = here.wait_ready("comes-back")
        here.wait_ready("stays")
    finally:
        here.control_plane.apply([node for node in mixed_fleet() if node["metadata"]["name"] == lost])

    assert moved["status"]["placement"]["gpuType"].startswith(other.removesuffix("-0"))
    assert moved["status"]["replicasSummary"] == "1/1"
    assert dead["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in here.pods("stays")}
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    here.wait(lambda: here.workloads("comes-back") == ["comes-back-h100-sxm-80gb-tp2"], "only the new pool")
    here.wait(lambda: len(here.all("pods", "comes-back")) == 1, "only its pod")


def test_a_placement_whose_gpus_vanish_before_its_first_pod_is_decided_again(
    operator: OperatorProcess, here: View
) -> None:
    forbid_workloads(here.control_plane, allowed=False)
    try:
        here.apply("homeless", gpu={"allow": ["l4-24gb", "h100-sxm-80gb"]})
        here.wait(lambda: [pool["gpuType"] for pool in here.pools("homeless")] == ["l4-24gb"], "the decision")
        operator.kill()
        here.control_plane.lose_node("l4-0")
        forbid_workloads(here.control_plane, allowed=True)
        operator.start()
        assert here.wait_ready("homeless")["status"]["placement"]["gpuType"] == "h100-sxm-80gb"
    finally:
        forbid_workloads(here.control_plane, allowed=True)
        here.control_plane.apply([gpu_node("l4-0", "L4", 1, zone="zone-b")])


def forbid_workloads(control_plane: ControlPlane, *, allowed: bool) -> None:
    """Take away, or give back, the operator's right to write Deployments."""
    role = json.loads(control_plane.kubectl("get", "clusterrole", "plimsoll", "-o", "json"))
    for rule in role["rules"]:
        if rule["apiGroups"] == ["apps"]:
            rule["verbs"] = ["get", "list", "watch", *(["create", "patch", "delete"] if allowed else [])]
    control_plane.kubectl("replace", "-f", "-", stdin=json.dumps(role))


def test_a_lost_status_is_read_back_from_what_runs(operator: OperatorProcess, here: View) -> None:
    here.control_plane.apply([gpu_deployment("squatter", here.namespace, node_selector=L4)])
    here.wait(lambda: here.nodes_of("squatter") == ["l4-0"], "the foreign pod")
    here.apply("forgets")
    before = here.wait_ready("forgets")
    [pod] = here.pods("forgets")
    assert before["status"]["placement"]["gpuType"] != "l4-24gb"
    here.delete("deployments", "squatter")
    here.wait(lambda: not here.all("pods", "squatter"), "the cheaper GPU free")

    status = ("--namespace", here.namespace, "--subresource=status", "--type=merge", '--patch={"status":null}')
    here.control_plane.kubectl("patch", "infd", "forgets", *status)
    here.wait(lambda: here.pools("forgets"), "the pools told again")
    after = here.wait_ready("forgets")

    assert after["status"]["placement"] == before["status"]["placement"]
    assert [found["metadata"]["uid"] for found in here.pods("forgets")] == [pod["metadata"]["uid"]]
    assert len(here.all("replicasets", "forgets")) == 1
    assert operator.is_running


def test_of_two_that_race_for_the_last_gpus_one_waits_and_gets_them_in_the_end(
    operator: OperatorProcess, here: View
) -> None:
    here.control_plane.apply(
        [inference_deployment(name, here.namespace, **WHOLE_H100_NODE) for name in ("left", "right")]
    )

    def decided() -> list[str]:
        reasons = {name: condition(here.get(name), "Planned").get("reason") for name in ("left", "right")}
        waiting = [name for name, reason in reasons.items() if reason == "WaitingForGpus"]
        return waiting if "PlacementDecided" in reasons.values() else []

    [loser] = here.wait(decided, "a winner and a loser")
    winner = {"left": "right", "right": "left"}[loser]
    here.wait_ready(winner)
    message = condition(here.get(loser), "Ready")["message"]
    assert "1 of 1 replica has no place" in message
    assert "takes 8 GPUs on one node and at most 0 are free" in message
    assert here.workloads(loser) == []
    assert "Stalled" not in {entry["type"] for entry in here.get(loser)["status"]["conditions"]}

    here.delete("inferencedeployments", winner)
    here.wait_ready(loser)
    assert here.nodes_of(loser) == ["h100-0"]
    assert operator.is_running


def test_gpus_of_foreign_pods_are_not_given_away(operator: OperatorProcess, here: View) -> None:
    here.control_plane.apply([gpu_deployment("notebook", here.namespace, node_selector=H100)])
    here.wait(lambda: here.nodes_of("notebook") == ["h100-0"], "the foreign pod")
    here.apply("all-eight", **WHOLE_H100_NODE)
    body = here.wait_condition("all-eight", "Ready", "False", "WaitingForGpus")
    assert "at most 7 are free" in condition(body, "Ready")["message"]

    here.delete("deployments", "notebook")
    here.wait_ready("all-eight")
    assert operator.is_running


def test_a_lost_node_moves_what_is_pending_and_nothing_that_runs(operator: OperatorProcess, here: View) -> None:
    here.apply("bystander", **on_gpu("h100-sxm-80gb"))
    here.apply("hit", replicas=2, gpu={"allow": ["l40s-48gb", "h100-sxm-80gb"]}, **on_gpu("l40s-48gb"))
    here.wait_ready("bystander")
    here.wait_ready("hit")
    here.patch("hit", {"overrides": None})
    here.wait_ready("hit")
    [before] = here.pods("bystander")
    here.control_plane.lose_node("l40s-0")
    try:
        here.wait(lambda: here.nodes_of("hit") == ["h100-0", "h100-0"], "both replicas moved")
        body = here.wait_ready("hit")
        assert [pool["gpuType"] for pool in body["status"]["pools"]] == ["h100-sxm-80gb"]
    finally:
        here.control_plane.apply([node for node in mixed_fleet() if node["metadata"]["name"] == "l40s-0"])
    assert [pod["metadata"]["uid"] for pod in here.pods("bystander")] == [before["metadata"]["uid"]]
    assert operator.is_running


def test_a_replica_whose_node_is_lost_moves_under_a_quota_that_is_used_up(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    """The quota counts the pod that waits for a node. It ends before its successor is made."""
    neighbour.apply("bystander", **on_gpu("l40s-48gb"))
    here.apply("hit", gpu={"allow": ["l4-24gb", "l40s-48gb"]})
    neighbour.wait_ready("bystander")
    here.wait_ready("hit")
    [before], [pod] = neighbour.pods("bystander"), here.pods("hit")
    assert here.nodes_of("hit") == ["l4-0"]
    used_up(here, pod)
    since = AuditLog(here.control_plane.audit_log).offset()
    here.control_plane.lose_node("l4-0")
    try:
        here.wait(lambda: here.nodes_of("hit") == ["l40s-0"], "it moved")
        body = here.wait_ready("hit")
    finally:
        here.control_plane.apply([node for node in mixed_fleet() if node["metadata"]["name"] == "l4-0"])
    assert [pool["gpuType"] for pool in body["status"]["pools"]] == ["l40s-48gb"]
    assert [entry["reason"] for entry in body["status"]["rehomings"]] == ["NodesUnavailable"]
    written = operator_writes(here.control_plane, since, here.namespace)
    workloads = [(event.verb, event.name) for event in written if event.resource == "deployments"]
    assert workloads[0] == ("delete", "hit-l4-24gb-tp1"), "the pod that waits ends first"
    assert set(workloads[1:]) == {("patch", "hit-l40s-48gb-tp1")}
    assert [pod["metadata"]["uid"] for pod in neighbour.pods("bystander")] == [before["metadata"]["uid"]]
    assert operator.is_running


def used_up(view: View, pod: Mapping[str, Any]) -> None:
    """Give a namespace a quota of exactly what its only pod takes."""
    asked = pod["spec"]["containers"][0]["resources"]["requests"]
    hard = {f"requests.{name}": amount for name, amount in asked.items() if name != "ephemeral-storage"}
    hard |= {"pods": "1"}
    head = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tight", "namespace": view.namespace}}
    view.control_plane.apply([head | {"spec": {"hard": hard}}])

    def counts() -> bool:
        [quota] = view.control_plane.client.get(f"/api/v1/namespaces/{view.namespace}/resourcequotas")["items"]
        return set((quota.get("status") or {}).get("used") or {}) == set(hard)

    view.wait(counts, "the quota counts the pod")


def test_gpus_are_kept_for_a_pod_behind_a_gate_that_opens_late(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    only = {"gpu": {"allow": ["l4-24gb"]}}
    with gated(here):
        here.apply("queued", **only)
        here.wait_condition("queued", "Placed", "False", "WaitingForScheduler")
        here.wait(
            lambda: waited_seconds(here, "queued") > 2 * float(IMPATIENT["PLIMSOLL_STRANDED_SECONDS"]),
            "a wait beyond the grace period",
        )
        neighbour.apply("later", **only)
        neighbour.wait_condition("later", "Planned", "False", "WaitingForGpus")
        [pod] = here.pods("queued")
        opened = (
            "--namespace",
            here.namespace,
            "--type=json",
            '--patch=[{"op":"remove","path":"/spec/schedulingGates"}]',
        )
        here.control_plane.kubectl("patch", "pod", pod["metadata"]["name"], *opened)
        body = here.wait_ready("queued")
        assert body["status"].get("rehomings") is None
        assert [each["metadata"]["uid"] for each in here.pods("queued")] == [pod["metadata"]["uid"]]
    here.delete("inferencedeployments", "queued")
    neighbour.wait_ready("later")
    assert operator.is_running


def waited_seconds(view: View, name: str) -> float:
    """How long the only pod of a deployment has waited for the scheduler."""
    [pod] = view.pods(name)
    [scheduled] = [each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
    return time.time() - datetime.fromisoformat(scheduled["lastTransitionTime"]).timestamp()


@contextmanager
def gated(view: View) -> Iterator[None]:
    """Put every new pod of a namespace behind a scheduling gate, as a queue does."""
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": f"gate-{view.namespace}"}}
    gate = 'Object{spec: Object.spec{schedulingGates: [Object.spec.schedulingGates{name: "queue.example/admission"}]}}'
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": view.namespace}},
            "resourceRules": [rule],
        },
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": gate}}],
    }
    binding = {"policyName": f"gate-{view.namespace}"}
    view.control_plane.apply(
        [
            kind | {"kind": "MutatingAdmissionPolicy", "spec": policy},
            kind | {"kind": "MutatingAdmissionPolicyBinding", "spec": binding},
        ]
    )
    try:
        view.wait(lambda: "schedulingGates" in tried_pod(view), "the policy in force")
        yield
    finally:
        kinds = "mutatingadmissionpolicybinding,mutatingadmissionpolicy"
        view.control_plane.kubectl("delete", kinds, f"gate-{view.namespace}")


def tried_pod(view: View) -> str:
    """A new pod as the API server would store it."""
    container = {"name": "c", "image": "registry.example/x"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": {"containers": [container]}}
    options = ("--namespace", view.namespace, "--dry-run=server", "-o", "json", "-f", "-")
    return view.control_plane.kubectl("create", *options, stdin=json.dumps(pod))


def test_cordoned_and_unready_nodes_get_nothing_new(operator: OperatorProcess, here: View) -> None:
    only = {"gpu": {"allow": ["l4-24gb", "l40s-48gb"]}}
    here.apply("runs-on", **on_gpu("l4-24gb"))
    here.wait_ready("runs-on")
    here.control_plane.kubectl("cordon", "l40s-0")
    try:
        here.apply("waits", **only)
        body = here.wait_condition("waits", "Ready", "False")
        assert here.workloads("waits") == []
        assert "l40s-0" not in here.nodes_of("waits")
        assert condition(body, "Planned")["status"] == "False"
        here.control_plane.set_node_ready("l4-0", ready=False)
        here.delete("inferencedeployments", "runs-on")
        here.wait(lambda: not here.all("pods", "runs-on"), "the L4 free, but its node not ready")
        here.apply("waits-too", **only)
        here.wait_condition("waits-too", "Planned", "False")
        assert here.workloads("waits-too") == []
    finally:
        here.control_plane.set_node_ready("l4-0", ready=True)
        here.control_plane.kubectl("uncordon", "l40s-0")
    here.wait_ready("waits")
    here.wait_ready("waits-too")
    assert operator.is_running


def test_a_namespace_goes_although_the_operator_is_down(operator: OperatorProcess, here: View) -> None:
    here.apply("orphaned", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("orphaned")
    operator.kill()
    here.control_plane.kubectl("delete", "namespace", here.namespace, "--wait=false")
    path = f"/api/v1/namespaces/{here.namespace}"
    here.wait(lambda: not here.control_plane.client.exists(path), "the namespace gone", timeout=60)


def test_it_outlives_the_api_server_and_notices_what_was_deleted_behind_its_back(
    operator: OperatorProcess, here: View
) -> None:
    plane = here.control_plane
    here.apply("ghost", **WHOLE_H100_NODE)
    here.wait_ready("ghost")
    process = operator.pid
    plane.stop_apiserver()
    os.killpg(process, signal.SIGSTOP)  # it hears nothing of what follows
    try:
        plane.start_apiserver()
        here.delete("inferencedeployments", "ghost")
        here.wait(lambda: not here.get("ghost") and not here.all("pods", "ghost"), "the ghost gone")
        revision = json.loads(plane.etcdctl("endpoint", "status", "--write-out=json"))[0]["Status"]["header"][
            "revision"
        ]
        plane.etcdctl("compact", str(revision))
        plane.stop_apiserver()
        plane.start_apiserver()
    finally:
        os.killpg(process, signal.SIGCONT)

    here.apply("heir", **WHOLE_H100_NODE)
    here.wait(lambda: started_again_if_it_lost_its_lease(operator) and here.pods("heir"), "the heir's pods", 60)
    here.wait_ready("heir", timeout=60)
    assert operator.is_running


def started_again_if_it_lost_its_lease(operator: OperatorProcess) -> bool:
    """Do what the kubelet does with an operator that was away for longer than its lease lasts, and so has ended."""
    if not operator.is_running:
        end = operator.log_lines()[-20:]
        assert any("the lease" in line and "is lost" in line for line in end), "\n".join(end)
        operator.start()
    return True


def test_no_secret_is_read_but_the_one_that_is_named(operator: OperatorProcess, here: View) -> None:
    plane = here.control_plane
    plane.kubectl("create", "secret", "generic", "token", "--namespace", here.namespace, "--from-literal=token=hf_x")
    before = secret_reads(plane)
    here.apply("open", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("open")
    assert secret_reads(plane) == before

    named = {"name": "meta-llama/Llama-3.1-8B-Instruct", "tokenSecretRef": {"name": "token"}}
    here.apply("gated", model=named, **on_gpu("h100-sxm-80gb"))
    here.wait_ready("gated")
    assert secret_reads(plane) == before  # the catalogue answers, so the token is of no use to the operator
    here.apply("pinned", model=named | {"revision": "v1"}, **on_gpu("h100-sxm-80gb"))
    here.wait_ready("pinned")
    assert secret_reads(plane) == before + 1
    assert operator.is_running
