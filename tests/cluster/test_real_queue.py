"""Kueue itself admits the pods by the quota of a queue: ``make test-kueue`` builds it and runs these tests.

``test_queue.py`` plays what is seen here with policies, in seconds and without Kueue.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from plimsoll.domain.kubernetes_names import QUEUE_LABEL, QUEUE_PRIORITY_LABEL
from testbed.audit import AuditLog
from testbed.binaries import ensure_kueue
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.kueue import USER, Kueue, priority, queue
from testbed.operator_process import OperatorProcess
from tests.support.faulty import IMPATIENT
from tests.support.installed import View, condition, install, namespace_of, on_gpu, operator_writes
from tests.support.kueue_in_memory import MANAGED, PARENT
from tests.support.queues import apply, living, queued, waiting

pytestmark = [pytest.mark.cluster, pytest.mark.at_length, pytest.mark.story]

TEAM_A = {QUEUE_LABEL: "team-a"}
LOW, HIGH = ({**TEAM_A, QUEUE_PRIORITY_LABEL: name} for name in ("low", "high"))
ON_H100, ON_L4 = on_gpu("h100-sxm-80gb"), on_gpu("l4-24gb")


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One of its own: Kueue's webhooks and custom resources stay on it."""
    with ControlPlane() as running:
        yield running


@pytest.fixture(scope="module")
def kueue(control_plane: ControlPlane) -> Iterator[Kueue]:
    process = Kueue(control_plane, ensure_kueue())
    try:
        process.install()
        install(control_plane)
        control_plane.add_nodes(mixed_fleet())
        yield process.start()
    finally:
        process.stop()


@pytest.fixture(scope="module")
def here(control_plane: ControlPlane, kueue: Kueue) -> Iterator[View]:
    assert kueue.is_running
    with namespace_of(control_plane, "queued") as view:
        control_plane.apply([priority("low", 1), priority("high", 100)])
        set_quota(view, "team-a", 2)
        set_quota(view, "team-b", 1)
        yield view


@pytest.fixture(scope="module")
def neighbour(control_plane: ControlPlane, kueue: Kueue) -> Iterator[View]:
    assert kueue.is_running
    with namespace_of(control_plane, "unqueued") as view:
        yield view


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, kueue: Kueue) -> Iterator[OperatorProcess]:
    assert kueue.is_running
    with OperatorProcess(control_plane, environment=IMPATIENT) as process:
        yield process


def set_quota(view: View, name: str, gpus: int) -> None:
    """Make a queue, or change the GPUs that its pods may have."""
    view.control_plane.apply(queue(name, view.namespace, {"nvidia.com/gpu": gpus, "cpu": 1000, "memory": "4Ti"}))


def made_pods(view: View, name: str) -> int:
    """How many pods were ever made for an object."""
    made = AuditLog(view.control_plane.audit_log).events(resource="pods", verbs={"create"})
    return sum(1 for event in made if event.body["metadata"].get("generateName", "").startswith(f"{name}-"))


def uids(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def delete(view: View, name: str) -> None:
    view.delete("inferencedeployments", name)
    view.wait(lambda: not view.pods(name), f"{name} gone")


def test_what_the_quota_holds_is_admitted_and_serves(operator: OperatorProcess, here: View) -> None:
    apply(here, "first", LOW, replicas=2, **ON_H100)
    here.wait_ready("first")
    pods = living(here, "first")
    assert [pod["spec"].get("schedulingGates") for pod in pods] == [None, None]
    assert all(pod["metadata"]["labels"].items() >= {**LOW, **MANAGED}.items() for pod in pods)
    assert all(pod["metadata"]["annotations"].items() >= PARENT.items() for pod in pods)
    assert all("kueue.x-k8s.io/workload" in pod["metadata"]["annotations"] for pod in pods)
    assert made_pods(here, "first") == 2
    assert operator.is_running


def test_the_next_one_waits_with_its_gpu_and_a_neighbour_without_a_queue_is_served(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    apply(here, "next", LOW, **ON_L4)
    pod = queued(here, "next")
    began, since = time.monotonic(), AuditLog(here.control_plane.audit_log).offset()
    neighbour.apply("later", **ON_L4)
    neighbour.wait_condition("later", "Planned", "False", "WaitingForGpus")
    neighbour.apply("served", **ON_H100)
    neighbour.wait_ready("served")
    assert "schedulingGates" not in living(neighbour, "served")[0]["spec"]
    grace = 2 * float(IMPATIENT["PLIMSOLL_STRANDED_SECONDS"])
    here.wait(lambda: time.monotonic() - began > grace, "longer than the grace period")
    neighbour.patch("served", {"replicas": 2})
    neighbour.wait_ready("served")
    assert queued(here, "next")["metadata"]["uid"] == pod["metadata"]["uid"]
    written = operator_writes(here.control_plane, since, here.namespace)
    assert {event.name for event in written if event.resource == "deployments"} <= set(here.workloads("next"))
    assert operator.is_running


def test_a_change_of_what_waits_replaces_its_pod(here: View) -> None:
    before = queued(here, "next")
    [name] = here.workloads("next")
    replaces = {"maxSurge": 0, "maxUnavailable": 1}
    here.wait(lambda: here.read("deployments", name)["spec"]["strategy"]["rollingUpdate"] == replaces, "no surge")
    here.patch("next", {"contextLength": 2048})
    here.wait(lambda: before["metadata"]["uid"] not in here.pod_uids("next"), "the old pod gone")
    assert queued(here, "next")["metadata"]["uid"] != before["metadata"]["uid"]
    assert made_pods(here, "next") == 2


def test_a_deletion_frees_quota_and_the_pod_that_waited_serves(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    pod, made = queued(here, "next"), made_pods(here, "next")
    delete(here, "first")
    body = here.wait_ready("next")
    assert here.pod_uids("next") == [pod["metadata"]["uid"]]
    assert made_pods(here, "next") == made
    assert body["status"].get("rehomings") is None
    assert condition(neighbour.get("later"), "Planned")["reason"] == "WaitingForGpus"
    assert condition(neighbour.get("served"), "Ready")["status"] == "True"
    assert operator.is_running


def test_a_change_of_what_serves_waits_for_quota_of_one_replica_more(here: View) -> None:
    apply(here, "changed", {QUEUE_LABEL: "team-b"}, **ON_H100)
    here.wait_ready("changed")
    before = uids(living(here, "changed"))
    here.patch("changed", {"contextLength": 2048})
    body = here.wait_condition("changed", "Placed", "False", "WaitingForQueue")
    assert condition(body, "Available")["status"] == "True"
    here.wait(lambda: len(waiting(here, "changed")) == 1, "the new pod")
    assert before < uids(living(here, "changed"))
    set_quota(here, "team-b", 2)
    here.wait_ready("changed")
    here.wait(lambda: not before & uids(living(here, "changed")), "the old pod gone")
    assert made_pods(here, "changed") == 2
    set_quota(here, "team-b", 1)
    delete(here, "changed")


def test_an_evicted_pod_has_one_successor_that_waits(here: View, neighbour: View) -> None:
    apply(here, "usual", LOW, **ON_H100)
    here.wait_ready("usual")
    before, since = uids(living(here, "usual")), AuditLog(here.control_plane.audit_log).offset()
    apply(here, "urgent", HIGH, replicas=2, **ON_H100)
    here.wait_ready("urgent")
    evictions = AuditLog(here.control_plane.audit_log).events(since, user=USER, resource="pods/status")
    ended = [entry for event in evictions for entry in event.body["status"]["conditions"]]
    assert {(each["type"], each["reason"]) for each in ended} == {
        ("TerminationTarget", "WorkloadEvictedDueToPreempted")
    }
    successors = {name: queued(here, name)["metadata"]["uid"] for name in ("next", "usual")}
    assert not before & set(successors.values())
    assert condition(neighbour.get("later"), "Planned")["reason"] == "WaitingForGpus"
    assert condition(neighbour.get("served"), "Ready")["status"] == "True"
    delete(here, "urgent")
    for name, uid in successors.items():
        body = here.wait_ready(name)
        assert here.pod_uids(name) == [uid]
        assert body["status"].get("rehomings") is None
    delete(here, "usual")


def test_another_queue_is_refused_while_a_pod_serves_and_taken_while_it_waits(here: View) -> None:
    pods = here.pod_uids("next")
    here.patch_object("inferencedeployments", "next", {"metadata": {"labels": {QUEUE_LABEL: "team-b"}}})
    body = here.wait_condition("next", "Placed", "False", "PodsNotCreated")
    assert "field is immutable" in condition(body, "Placed")["message"]
    here.patch_object("inferencedeployments", "next", {"metadata": {"labels": {QUEUE_LABEL: "team-a"}}})
    here.wait_ready("next")
    assert here.pod_uids("next") == pods
    apply(here, "large", TEAM_A, **on_gpu("h100-sxm-80gb", 2))
    queued(here, "large")
    set_quota(here, "team-b", 2)
    here.patch_object("inferencedeployments", "large", {"metadata": {"labels": {QUEUE_LABEL: "team-b"}}})
    here.wait_ready("large")
    assert [pod["metadata"]["labels"][QUEUE_LABEL] for pod in living(here, "large")] == ["team-b"]
    delete(here, "large")


def test_another_queue_together_with_no_replica_ends_the_pods_and_is_taken_then(here: View, neighbour: View) -> None:
    set_quota(here, "team-a", 3)
    apply(here, "moved", TEAM_A, **ON_H100)
    here.wait_ready("moved")
    set_quota(here, "team-b", 1)
    apply(here, "moved", {QUEUE_LABEL: "team-b"}, replicas=0, **ON_H100)
    here.wait(lambda: not here.pods("moved"), "its pods gone")
    [workload] = here.workloads("moved")
    here.wait(
        lambda: here.read("deployments", workload)["metadata"]["labels"][QUEUE_LABEL] == "team-b", "the new queue"
    )
    assert condition(here.wait_condition("moved", "Ready", "True"), "Ready")["reason"] == "ScaledToZero"
    apply(here, "moved", {QUEUE_LABEL: "team-b"}, replicas=1, **ON_H100)
    here.wait_ready("moved")
    assert [pod["metadata"]["labels"][QUEUE_LABEL] for pod in living(here, "moved")] == ["team-b"]
    assert condition(neighbour.get("served"), "Ready")["status"] == "True"
    delete(here, "moved")


def test_while_kueue_is_away_its_webhook_is_named_and_what_waits_is_served_later(
    operator: OperatorProcess, kueue: Kueue, here: View, neighbour: View
) -> None:
    serving = uids(living(neighbour, "served"))
    kueue.kill()
    apply(here, "missed", LOW, **ON_H100)
    body = here.wait_condition("missed", "Placed", "False", "PodsNotCreated")
    assert 'failed calling webhook "mdeployment.kb.io"' in condition(body, "Placed")["message"]
    assert uids(living(neighbour, "served")) == serving
    kueue.start()
    here.wait_ready("missed")
    assert made_pods(here, "missed") == 1
    neighbour.patch("served", {"replicas": 1})
    neighbour.wait_ready("served")
    neighbour.wait(lambda: len(living(neighbour, "served")) == 1, "the change")
    assert uids(living(neighbour, "served")) < serving
    assert operator.is_running
