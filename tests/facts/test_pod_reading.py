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


@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"lastState": {"terminated": {"exitCode": 2, "reason": "Error", "message": "a\nno disk"}}}, "code 2: no disk"),
        ({"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}, "OOMKilled, exit code 137"),
        ({"state": {"waiting": {"reason": "ErrImagePull", "message": "denied"}}}, "ErrImagePull: denied"),
    ],
)
def test_a_container_of_the_author_that_fails_is_named_and_is_no_crash_of_the_engine(
    field: str, state: Body, words: str
) -> None:
    """The kubelet sorts statuses by name: ``a`` comes before the engine."""
    other = {"name": "a", "restartCount": 5, "ready": False, **state}
    found: Body = {"containerStatuses": [{"name": "engine", **RUNS}]}
    found[field] = [other, *found.get(field, [])]
    seen = pod(SCHEDULED, STARTING, **found)
    assert seen.failure is not None
    assert (seen.failure.reason, seen.restarts) == (StartFailure.OTHER_CONTAINER, 5)
    assert seen.failure.message.startswith("container a failed, not the engine's: ")
    assert seen.failure.message.endswith(words)
    assert not seen.failure.is_of_place
    assert not seen.failure.is_about_memory
    assert pod(SCHEDULED, SERVING, **found).failure is None
    found["containerStatuses"][-1] = {"name": "engine", **crashed("CUDA out of memory")}
    both = pod(SCHEDULED, STARTING, **found)
    assert both.failure is not None
    assert (both.failure.reason, both.restarts) == (StartFailure.OUT_OF_MEMORY, 2)


def test_a_container_that_has_done_its_work_or_is_being_made_is_no_failure() -> None:
    done = {"name": "fetch", "ready": True, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    made = {"name": "log", "ready": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    seen = pod(SCHEDULED, STARTING, initContainerStatuses=[done], containerStatuses=[{"name": "engine", **RUNS}, made])
    assert (seen.failure, seen.restarts) == (None, 0)


def test_a_pod_without_a_status_is_one_that_was_just_made() -> None:
    assert read_pod({"metadata": {"name": "p"}, "spec": {}}, read_failure) == PodFacts("p", False, False, False, False)  # noqa: FBT003


def test_a_malformed_time_is_an_absent_one() -> None:
    seen = pod(SCHEDULED, condition("Ready", "True", "yesterday"))
    assert (seen.ready_since, seen.startup_seconds) == (None, None)
