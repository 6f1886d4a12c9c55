"""The judge of an audit log: each offence is found, and an honest log has none."""

from __future__ import annotations

from typing import Any

from testbed.audit import AuditEvent
from testbed.operator_process import USER
from tests.support.tables import every_case
from tests.support.witness import Witness

GPUS = {"world-l4": 1, "world-l40s": 1}
OLD, NEW = "model-l4-24gb-tp1", "model-l40s-48gb-tp1"


def event(verb: str, resource: str, name: str, body: Any = None, *, user: str = USER, status: int = 200) -> AuditEvent:
    return AuditEvent(user, verb, resource, "world", name, status, "2026-01-01T00:00:00Z", body)


def asks(name: str, replicas: int, status: int = 200) -> AuditEvent:
    return event("patch", "deployments", name, {"spec": {"replicas": replicas}}, status=status)


def bound(pod: str, node: str) -> AuditEvent:
    return event("create", "pods/binding", pod, {"target": {"name": node}}, user="scheduler", status=201)


def ready(pod: str) -> AuditEvent:
    conditions = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    return event("patch", "pods/status", pod, conditions, user="kubelet")


def gone(pod: str) -> AuditEvent:
    return event("delete", "pods", pod, user="kubelet")


def changed(count: int) -> AuditEvent:
    body = {"status": {"rebalancing": {"changes": [{"kind": "Move"}] * count}}}
    return event("patch", "inferencedeployments/status", "model", body)


def answered(state: str) -> AuditEvent:
    return event("patch", "placementapprovals/status", "yes", {"status": {"state": state}})


MOVE = (
    asks(OLD, 1, 201),
    bound("old", "world-l4"),
    ready("old"),
    changed(1),
    answered("CarriedOut"),
    asks(NEW, 1, 201),
    bound("new", "world-l40s"),
    ready("new"),
    event("delete", "deployments", OLD),
    gone("old"),
)
PEACE = Witness(MOVE, GPUS)


def broken(*events: AuditEvent) -> list[str]:
    return list(Witness(events, GPUS).broken_by(PEACE))


def test_an_honest_log_has_no_offence() -> None:
    assert broken(*MOVE) == []
    assert broken(*MOVE[:4], answered("Waiting"), *MOVE[4:6], asks(NEW, 1), *MOVE[6:]) == [], "the same asked again"
    assert PEACE.asked_replicas() == {OLD: [1, 0], NEW: [1]}
    assert PEACE.most_pods() == PEACE.most_wanted() == GPUS


@every_case(
    ("events", "offence"),
    [
        ((*MOVE[:5], gone("old"), *MOVE[5:]), "there was a moment when nobody served"),
        ((*MOVE, bound("more", "world-l40s")), "2 pods were on world-l40s, which has 1 GPUs"),
        ((*MOVE, asks(NEW, 2)), "2 GPUs of world-l40s were wanted, and it has 1"),
        ((*MOVE, asks(NEW, 0), asks(NEW, 1)), "replicas asked for: "),
        ((*MOVE, event("patch", "services", "model-2", status=201)), "created: "),
        ((*MOVE, changed(2)), "2 changes were on record"),
        ((*MOVE, answered("Waiting"), answered("CarriedOut")), "approvals ended as "),
        (MOVE[:4] + MOVE[5:], "approvals ended as "),
    ],
)
def test_each_offence_is_named(events: tuple[AuditEvent, ...], offence: str) -> None:
    assert any(each.startswith(offence) for each in broken(*events)), broken(*events)


def test_a_pod_that_is_gone_leaves_its_node_to_the_next() -> None:
    assert Witness((bound("a", "world-l4"), gone("a"), bound("b", "world-l4")), GPUS).most_pods() == {"world-l4": 1}
    still = (bound("a", "world-l4"), gone("a"), bound("b", "world-l4"), gone("a"))
    assert Witness(still, GPUS).most_pods() == {"world-l4": 2}, "only its last deletion ends a pod"
