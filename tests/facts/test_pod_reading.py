"""One of our pods, from its first second to its last."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.domain.engines.failures import StartFailure
from plimsoll.engines.failures import read_failure
from plimsoll.facts.cluster.pod_reading import PodFacts, read_pod

Body = dict[str, Any]
BOUND, READY = "2026-01-01T00:00:00Z", "2026-01-01T00:02:30Z"
BOUND_AT = 1767225600.0


def condition(kind: str, status: str, since: str, **more: str) -> Body:
    return {"type": kind, "status": status, "lastTransitionTime": since, **more}


def pod(*conditions: Body, node: str | None = "n", container: Body | None = None, **changes: Any) -> PodFacts:
    metadata = {"name": "p"} | ({"deletionTimestamp": READY} if changes.pop("terminating", False) else {})
    status: Body = {"phase": "Running", "conditions": list(conditions)} | changes
    if container is not None:
        status["containerStatuses"] = [container]
    return read_pod({"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}, read_failure)


SCHEDULED = condition("PodScheduled", "True", BOUND)
SERVING = condition("Ready", "True", READY)
STARTING = condition("Ready", "False", BOUND)
RUNS: Body = {"restartCount": 0, "state": {"running": {}}}


def crashed(message: str, *, restarts: int = 2, reason: str = "Error", code: int = 1) -> Body:
    ended = {"exitCode": code, "reason": reason, "message": message}
    return {"restartCount": restarts, "lastState": {"terminated": ended}, "state": {"waiting": {}}}


def test_a_pod_that_serves() -> None:
    seen = pod(SCHEDULED, SERVING, container=RUNS)
    assert (seen.bound, seen.ready, seen.ended, seen.terminating) == (True, True, False, False)
    assert (seen.ready_since, seen.startup_seconds) == (BOUND_AT + 150, 150)
    assert (seen.failure, seen.restarts, seen.unscheduled_since) == (None, 0, None)


def test_a_pod_has_an_address_once_it_is_given_one() -> None:
    assert pod(SCHEDULED, SERVING, podIP="10.0.0.7").address == "10.0.0.7"
    assert pod(SCHEDULED, STARTING).address == ""


def test_a_pod_that_still_loads() -> None:
    seen = pod(SCHEDULED, STARTING, container=RUNS)
    assert (seen.bound, seen.ready, seen.startup_seconds, seen.failure) == (True, False, None, None)


def test_a_pod_that_the_scheduler_cannot_bind() -> None:
    waits = condition("PodScheduled", "False", BOUND, reason="Unschedulable", message="0/3 nodes: 3 Insufficient gpu")
    seen = pod(waits, node=None, phase="Pending")
    assert (seen.bound, seen.unscheduled_since) == (False, BOUND_AT)
    assert seen.scheduler_message == "0/3 nodes: 3 Insufficient gpu"


@pytest.mark.parametrize(("reason", "gated"), [("SchedulingGated", True), ("Unschedulable", False)])
def test_a_pod_behind_a_gate_waits_for_the_queue_that_its_label_names(
    reason: str,
    gated: bool,  # noqa: FBT001 - a table's column
) -> None:
    waits = condition("PodScheduled", "False", BOUND, reason=reason, message="x")
    assert pod(waits, node=None, phase="Pending").is_gated is gated
    assert pod(waits, node=None, phase="Pending").queue == ""


def test_a_pod_on_its_way_out_does_not_serve_any_more() -> None:
    seen = pod(SCHEDULED, SERVING, terminating=True)
    assert (seen.terminating, seen.ready, seen.bound) == (True, False, True)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended(phase: str) -> None:
    assert pod(phase=phase).ended


def test_a_crash_is_read_from_the_last_state_and_a_restarted_start_teaches_no_duration() -> None:
    seen = pod(SCHEDULED, STARTING, container=crashed("CUDA out of memory. Tried to allocate 2 GiB"))
    assert seen.failure is not None
    assert (seen.failure.reason, seen.restarts) == (StartFailure.OUT_OF_MEMORY, 2)
    recovered = pod(SCHEDULED, SERVING, container=crashed("CUDA out of memory"))
    assert (recovered.failure, recovered.restarts, recovered.startup_seconds) == (None, 2, None)


def test_a_crash_that_has_just_happened_is_in_the_present_state() -> None:
    body = {"restartCount": 0, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    seen = pod(SCHEDULED, STARTING, container=body)
    assert seen.failure is not None
    assert seen.failure.reason is StartFailure.HOST_MEMORY


def test_an_orderly_end_is_no_failure() -> None:
    assert pod(SCHEDULED, STARTING, container=crashed("", code=0)).failure is None


@pytest.mark.parametrize(
    ("kubelet", "reason"),
    [
        ("ImagePullBackOff", StartFailure.IMAGE),
        ("ErrImagePull", StartFailure.IMAGE),
        ("CreateContainerConfigError", StartFailure.CONFIGURATION),
        ("ContainerCreating", None),
        ("CrashLoopBackOff", None),
    ],
)
def test_a_container_that_cannot_be_made(kubelet: str, reason: StartFailure | None) -> None:
    waiting = {"restartCount": 0, "state": {"waiting": {"reason": kubelet, "message": "told by the kubelet"}}}
    failure = pod(SCHEDULED, STARTING, container=waiting).failure
    assert (failure.reason if failure else None) is reason


def test_a_pod_without_a_status_is_one_that_was_just_made() -> None:
    assert read_pod({"metadata": {"name": "p"}, "spec": {}}, read_failure) == PodFacts("p", False, False, False, False)  # noqa: FBT003


def test_a_malformed_time_is_an_absent_one() -> None:
    seen = pod(SCHEDULED, condition("Ready", "True", "yesterday"))
    assert (seen.ready_since, seen.startup_seconds) == (None, None)
