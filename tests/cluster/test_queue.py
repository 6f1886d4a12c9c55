"""A queue admits the pods: on a real API server, with policies in place of Kueue's webhooks.

The policies do what ``deployment_webhook.go`` and ``pod_webhook.go`` do in kubernetes-sigs/kueue at ff69552e79.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from plimsoll.domain.kubernetes_names import QUEUE_LABEL, QUEUE_PRIORITY_LABEL
from plimsoll.render.names import FIELD_MANAGER
from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.operator_process import OperatorProcess
from tests.support.faulty import IMPATIENT
from tests.support.installed import (
    View,
    condition,
    install,
    namespace_of,
    on_gpu,
    operator_writes,
)
from tests.support.kueue_in_memory import GATES, PARENT
from tests.support.planes import borrowed_plane
from tests.support.policies import mutation, policy, tried_pod
from tests.support.queues import apply, living, queued

pytestmark = [pytest.mark.cluster, pytest.mark.story]

[(PARENT_ANNOTATION, PARENT_WORD)] = PARENT.items()
LABELS = {QUEUE_LABEL: "team-a", QUEUE_PRIORITY_LABEL: "low"}
COPIED = ", ".join(f'"{name}": string(object.metadata.labels["{name}"])' for name in LABELS)
FROM_DEPLOYMENT = (
    "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{"
    f'labels: {{"kueue.x-k8s.io/managed": "true", {COPIED}}}, '
    f'annotations: {{"{PARENT_ANNOTATION}": "{PARENT_WORD}"}}}}}}}}}}'
)
GATED = ", ".join(f'Object.spec.schedulingGates{{name: "{name}"}}' for name in GATES)
BEHIND_GATES = f"Object{{spec: Object.spec{{schedulingGates: [{GATED}]}}}}"
HAS_QUEUE = f'has(object.metadata.labels) && "{QUEUE_LABEL}" in object.metadata.labels'
HAS_PARENT = f'has(object.metadata.annotations) && "{PARENT_ANNOTATION}" in object.metadata.annotations'
QUEUE = f'(has({{0}}.metadata.labels) ? {{0}}.metadata.labels[?"{QUEUE_LABEL}"] : optional.none())'
MAY_CHANGE = (
    f"{QUEUE.format('object')} == {QUEUE.format('oldObject')} || ({QUEUE.format('object')}.hasValue() && "
    "(!has(oldObject.status.readyReplicas) || oldObject.status.readyReplicas == 0))"
)


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane(mixed_fleet()) as running:
        install(running)
        yield running


@pytest.fixture(scope="module")
def here(control_plane: ControlPlane) -> Iterator[View]:
    with namespace_of(control_plane, "queued") as view, kueue(view):
        yield view


@pytest.fixture(scope="module")
def neighbour(control_plane: ControlPlane) -> Iterator[View]:
    with namespace_of(control_plane, "unqueued") as view:
        yield view


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[OperatorProcess]:
    with OperatorProcess(control_plane, environment=IMPATIENT) as process:
        yield process


@contextmanager
def kueue(view: View) -> Iterator[None]:
    """Let policies play Kueue's webhooks in a namespace."""
    where, workloads = view.namespace, ("apps", "deployments", ["CREATE", "UPDATE"])
    immutable = {"failurePolicy": "Fail", "validations": [{"expression": MAY_CHANGE, "message": "field is immutable"}]}
    made = [
        *policy(f"workloads.{where}", "MutatingAdmissionPolicy", workloads, mutation(HAS_QUEUE, FROM_DEPLOYMENT)),
        *policy(
            f"pods.{where}", "MutatingAdmissionPolicy", ("", "pods", ["CREATE"]), mutation(HAS_PARENT, BEHIND_GATES)
        ),
        *policy(f"queue.{where}", "ValidatingAdmissionPolicy", ("apps", "deployments", ["UPDATE"]), immutable),
    ]
    view.control_plane.apply(made)
    try:
        view.wait(lambda: "schedulingGates" in tried_pod(view, PARENT), "the policies in force")
        yield
    finally:
        for each in made:
            view.control_plane.kubectl("delete", each["kind"], each["metadata"]["name"], "--wait=false")


def admit(view: View, pod: dict[str, Any]) -> None:
    """Open the gates of a pod."""
    opened = '[{"op":"remove","path":"/spec/schedulingGates"}]'
    options = ("--namespace", view.namespace, "--type=json", f"--patch={opened}")
    view.control_plane.kubectl("patch", "pod", pod["metadata"]["name"], *options)


def evict(view: View, pod: dict[str, Any]) -> None:
    """End a pod as Kueue does: a condition says so, then it is deleted."""
    ended = {
        "type": "TerminationTarget",
        "status": "True",
        "reason": "WorkloadEvictedDueToPreempted",
        "message": "Preempted",
    }
    options = (
        "--namespace",
        view.namespace,
        "--subresource=status",
        f"--patch={json.dumps({'status': {'conditions': [ended]}})}",
    )
    view.control_plane.kubectl("patch", "pod", pod["metadata"]["name"], *options)
    view.delete("pods", pod["metadata"]["name"])


def test_a_pod_waits_for_its_queue_with_its_gpus_and_nobody_fights(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    apply(here, "queued", LABELS, **on_gpu("l4-24gb"))
    pod = queued(here, "queued")
    [name] = here.workloads("queued")
    workload = here.read("deployments", name)
    assert LABELS.items() <= workload["metadata"]["labels"].items()
    assert LABELS.items() <= pod["metadata"]["labels"].items()
    assert workload["spec"]["template"]["metadata"]["annotations"].items() >= PARENT.items()
    since, began = AuditLog(here.control_plane.audit_log).offset(), time.monotonic()
    neighbour.apply("later", **on_gpu("l4-24gb"))
    neighbour.wait_condition("later", "Planned", "False", "WaitingForGpus")
    neighbour.apply("served", **on_gpu("h100-sxm-80gb"))
    neighbour.wait_ready("served")
    grace = 2 * float(IMPATIENT["PLIMSOLL_STRANDED_SECONDS"])
    here.wait(lambda: time.monotonic() - began > grace, "longer than the grace period")
    neighbour.patch("served", {"replicas": 2})
    neighbour.wait(lambda: len(living(neighbour, "served")) == 2, "the change")
    assert queued(here, "queued")["metadata"]["uid"] == pod["metadata"]["uid"]
    written = operator_writes(here.control_plane, since, here.namespace)
    assert [event.name for event in written if event.resource == "deployments"] in ([], [name]), "the strategy at most"
    assert operator.is_running


def test_a_change_replaces_the_pod_that_waits_and_makes_no_second_one(here: View) -> None:
    """There is room for one more, so an update would make the new pod first, and leave the old one in the queue."""
    apply(here, "changed", LABELS, **on_gpu("h100-sxm-80gb"))
    before = queued(here, "changed")
    [name] = here.workloads("changed")
    replaces = {"maxSurge": 0, "maxUnavailable": 1}
    here.wait(lambda: here.read("deployments", name)["spec"]["strategy"]["rollingUpdate"] == replaces, "no surge")
    here.patch("changed", {"contextLength": 2048})
    here.wait(lambda: before["metadata"]["uid"] not in here.pod_uids("changed"), "the old pod gone")
    admit(here, queued(here, "changed"))
    here.wait_ready("changed")
    here.delete("inferencedeployments", "changed")


def test_an_admitted_pod_serves(here: View, neighbour: View) -> None:
    pod = queued(here, "queued")
    admit(here, pod)
    body = here.wait_ready("queued")
    assert here.pod_uids("queued") == [pod["metadata"]["uid"]]
    assert body["status"].get("rehomings") is None
    assert condition(neighbour.get("served"), "Ready")["status"] == "True"


def test_an_evicted_pod_has_one_successor_that_waits(here: View, neighbour: View) -> None:
    [pod] = living(here, "queued")
    evict(here, pod)
    here.wait(lambda: pod["metadata"]["uid"] not in here.pod_uids("queued"), "the evicted pod gone")
    successor = queued(here, "queued")
    assert condition(neighbour.get("later"), "Planned")["reason"] == "WaitingForGpus"
    admit(here, successor)
    body = here.wait_ready("queued")
    assert here.pod_uids("queued") == [successor["metadata"]["uid"]]
    assert body["status"].get("rehomings") is None


def test_a_queue_that_kueue_does_not_let_change_is_named_and_the_pod_serves_on(here: View) -> None:
    uids = here.pod_uids("queued")
    here.patch_object("inferencedeployments", "queued", {"metadata": {"labels": {QUEUE_LABEL: "team-b"}}})
    body = here.wait_condition("queued", "Placed", "False", "PodsNotCreated")
    assert "field is immutable" in condition(body, "Placed")["message"]
    here.patch_object("inferencedeployments", "queued", {"metadata": {"labels": {QUEUE_LABEL: "team-a"}}})
    here.wait_ready("queued")
    assert here.pod_uids("queued") == uids


def test_a_queueing_system_may_suspend_the_object_and_let_it_go_on(here: View, neighbour: View) -> None:
    apply(here, "held", LABELS, suspend=True, **on_gpu("h100-sxm-80gb"))
    here.wait_condition("held", "Ready", "True", "Suspended")
    neighbour.patch("served", {"replicas": 1})
    neighbour.wait(lambda: len(living(neighbour, "served")) == 1, "the neighbour's change")
    assert here.workloads("held") == []
    here.patch("held", {"suspend": False})
    pod = queued(here, "held")
    here.patch("held", {"suspend": True})
    here.wait_condition("held", "Ready", "True", "Suspended")
    admit(here, pod)
    here.wait(lambda: here.pods("held")[0]["spec"].get("nodeName"), "a node")
    here.patch("held", {"suspend": False})
    body = here.wait_ready("held")
    assert here.pod_uids("held") == [pod["metadata"]["uid"]]
    own = [entry for entry in body["metadata"].get("managedFields") or () if entry["manager"] == FIELD_MANAGER]
    assert not any("f:spec" in entry["fieldsV1"] for entry in own)
