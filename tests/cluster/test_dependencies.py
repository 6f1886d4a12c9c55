"""An API server that is slow, refuses, lies or is away: nothing is lost or made twice, and health stays true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fault_proxy import FaultProxy
from testbed.faults import (
    Answer,
    Cut,
    Delay,
    EmptyList,
    Hang,
    Lines,
    Rule,
    Silence,
    Truncate,
    Verb,
    html,
    timeout_after_applying,
    too_many_requests,
    version_gone,
)
from testbed.fleet import gpu_node, mixed_fleet
from testbed.operator_process import OperatorProcess
from tests.support.faulty import Calm, fault_proxy, operator_through, sampled_health
from tests.support.honest import Honest, honest_nodes
from tests.support.installed import (
    View,
    condition,
    inference_deployment,
    install,
    namespace_of,
    on_gpu,
    operator_writes,
)
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

WRITES, READS, WATCHES = frozenset({Verb.WRITE}), frozenset({Verb.READ}), frozenset({Verb.WATCH})
MANY = 24
"""More than are written at the same time in one namespace."""
MINUTE = 60.0
SETTINGS = {
    "PLIMSOLL_RELIST_SECONDS": "1",
    "PLIMSOLL_LEASE_SECONDS": "60",
    "PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS": "50",
}
"""A list every second: what a watch loses is noticed while a test waits. No fault lasts as long as the lease."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane() as running:
        spare = [gpu_node(f"spare-{index}", "H100-80GB-HBM3", 8) for index in range(MANY // 8)]
        running.apply([*mixed_fleet(), *honest_nodes(), *spare])
        install(running)
        yield running


@pytest.fixture(scope="module")
def proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    with fault_proxy(control_plane) as running:
        yield running


@pytest.fixture(scope="module")
def running(control_plane: ControlPlane, proxy: FaultProxy) -> Iterator[OperatorProcess]:
    with operator_through(control_plane, proxy, environment=SETTINGS) as process:
        yield process


@pytest.fixture
def operator(running: OperatorProcess, proxy: FaultProxy) -> Iterator[OperatorProcess]:
    """The operator, healthy; a test that broke it fails, and the next one gets it started again."""
    if not running.healthy():
        running.kill()
        running.start()
    yield running.wait_healthy()
    proxy.clear()


@pytest.fixture(scope="module")
def tenant(control_plane: ControlPlane, running: OperatorProcess) -> Iterator[Honest]:
    """A tenant with an object that serves through all of these tests."""
    assert running.is_running
    with namespace_of(control_plane, "tenant-honest") as view:
        made = Honest(view)
        with made.standing("stands"):
            yield made


@pytest.fixture
def honest(tenant: Honest) -> Iterator[Honest]:
    """The same tenant; what it has running is served by the very same pod after a test."""
    before = tenant.view.pod_uids("stands")
    yield tenant
    assert before
    assert tenant.view.pod_uids("stands") == before


def put(view: View, names: list[str]) -> None:
    """Apply objects that differ in nothing but their name."""
    view.control_plane.apply([inference_deployment(name, view.namespace, **on_gpu("h100-sxm-80gb")) for name in names])


def serving(view: View) -> int:
    """How many InferenceDeployments of the namespace serve."""
    return sum(condition(body, "Ready").get("status") == "True" for body in view.all("inferencedeployments"))


def assert_made_once(view: View, since: int) -> None:
    """Every object of ours was created once and never deleted, and every InferenceDeployment has one pod."""
    writes = [event for event in operator_writes(view.control_plane, since, view.namespace) if event.status < 300]
    created = Counter(
        (event.resource, event.name) for event in writes if event.status == 201 and event.resource != "events"
    )
    assert [key for key, count in created.items() if count > 1] == []
    assert [event for event in writes if event.verb == "delete"] == []
    names = [body["metadata"]["name"] for body in view.all("inferencedeployments")]
    assert Counter(pod["metadata"]["labels"]["plimsoll.dev/deployment"] for pod in view.all("pods")) == Counter(names)


def test_many_objects_are_served_although_every_request_takes_100_ms(
    operator: OperatorProcess, proxy: FaultProxy, honest: Honest, here: View
) -> None:
    calm, since = Calm.now(operator), AuditLog(here.control_plane.audit_log).offset()
    with sampled_health(operator) as health, proxy.fault(Delay(0.1)):
        put(here, [f"slow-{index:02}" for index in range(MANY)])
        here.wait(lambda: serving(here) == MANY, f"{MANY} objects served", 2 * MINUTE)
        honest.assert_served()
    assert health.bad == []
    assert_made_once(here, since)
    calm.assert_kept(tracebacks=0)


@pytest.mark.usefixtures("honest")
def test_half_of_all_answers_may_be_429(operator: OperatorProcess, proxy: FaultProxy, here: View) -> None:
    calm, since = Calm.now(operator), AuditLog(here.control_plane.audit_log).offset()
    not_streams = WRITES | READS
    with sampled_health(operator) as health, proxy.fault(too_many_requests(1), verbs=not_streams, share=0.5, seed=5):
        put(here, [f"refused-{index}" for index in range(5)])
        here.wait(lambda: serving(here) == 5, "5 objects served", MINUTE)
    assert health.bad == []
    assert_made_once(here, since)
    calm.assert_kept(tracebacks=0)


def test_one_write_that_hangs_keeps_nobody_else_waiting(
    operator: OperatorProcess, proxy: FaultProxy, honest: Honest, here: View
) -> None:
    calm = Calm.now(operator)
    with sampled_health(operator) as health:
        path = f"/namespaces/{here.namespace}/deployments/a-hangs"
        with proxy.fault(Hang(), verbs=WRITES, path=path) as rule:
            put(here, ["a-hangs", "b-goes-on", "c-goes-on"])
            here.wait(lambda: rule.hits, "the write that hangs")
            here.wait_ready("b-goes-on")
            here.wait_ready("c-goes-on")
            honest.assert_served()
            assert here.workloads("a-hangs") == []
        here.wait_ready("a-hangs", timeout=MINUTE)
    assert health.bad == []
    calm.assert_kept(tracebacks=0)


@pytest.mark.usefixtures("honest")
def test_an_answer_that_is_no_kubernetes_object_is_a_failure_and_no_crash(
    operator: OperatorProcess, proxy: FaultProxy, here: View
) -> None:
    calm, since = Calm.now(operator), AuditLog(here.control_plane.audit_log).offset()
    lies = (html(), Answer(), Answer(body="[]"), Answer(body="null"), Truncate())
    rules = [proxy.add(lie, verbs=WRITES | READS, path=here.namespace, times=3) for lie in lies]
    put(here, ["lied-to-a", "lied-to-b", "lied-to-c"])
    here.wait(lambda: all(rule.hits == 3 for rule in rules), "three lies of each kind", MINUTE)
    here.wait(lambda: serving(here) == 3, "all served", MINUTE)
    assert_made_once(here, since)
    calm.assert_kept(tracebacks=0)


def test_lists_that_lie_move_nothing(operator: OperatorProcess, proxy: FaultProxy, honest: Honest, here: View) -> None:
    put(here, ["stays"])
    here.wait_ready("stays")
    before = here.pod_uids("stays")
    calm, since = Calm.now(operator), AuditLog(here.control_plane.audit_log).offset()
    rules = [
        proxy.add(lie, verbs=READS, path=rf"/{plural}\?", times=1)
        for plural in ("nodes", "pods", "deployments", "inferencedeployments", "services")
        for lie in (html(), Answer(), EmptyList(), Truncate())
    ]
    here.wait(lambda: all(rule.hits for rule in rules), "every lie about every kind", MINUTE)
    honest.assert_served()
    here.wait_ready("stays")
    assert [
        event for event in operator_writes(here.control_plane, since, here.namespace) if event.verb == "delete"
    ] == []
    assert here.pod_uids("stays") == before
    calm.assert_kept(tracebacks=0)


@pytest.mark.usefixtures("honest")
def test_writes_whose_answers_are_lost_make_nothing_twice(
    operator: OperatorProcess, proxy: FaultProxy, here: View
) -> None:
    calm, since = Calm.now(operator), AuditLog(here.control_plane.audit_log).offset()
    rules = [
        proxy.add(fault, verbs=WRITES, path=here.namespace, share=0.4, seed=11)
        for fault in (timeout_after_applying(), Cut(applied=True))
    ]
    put(here, ["told", "nothing", "at-all"])
    here.wait(lambda: serving(here) == 3, "all served", MINUTE)
    assert all(rule.hits >= 2 for rule in rules)
    proxy.clear()
    assert_made_once(here, since)
    calm.assert_kept(tracebacks=0)


def test_silent_watches_delay_and_lose_nothing(
    operator: OperatorProcess, proxy: FaultProxy, honest: Honest, here: View
) -> None:
    calm = Calm.now(operator)
    with sampled_health(operator) as health:
        with proxy.fault(Silence(), verbs=WATCHES) as rule:
            put(here, ["unheard"])
            here.wait(lambda: rule.hits, "a watch that fell silent")
            here.wait_ready("unheard", timeout=MINUTE)
            here.delete("inferencedeployments", "unheard")
            here.wait(lambda: not here.all("pods"), "its pods gone")
            honest.assert_served()
        proxy.cut_streams()
    assert health.bad == []
    calm.assert_kept(tracebacks=0)


def test_a_watch_whose_version_is_gone_begins_anew(
    operator: OperatorProcess, proxy: FaultProxy, honest: Honest, here: View
) -> None:
    put(here, ["ghost"])
    here.wait_ready("ghost")
    calm = Calm.now(operator)
    with proxy.fault(version_gone(), verbs=WATCHES, times=20) as rule:
        proxy.cut_streams()
        here.delete("inferencedeployments", "ghost")
        put(here, ["heir"])
        here.wait_ready("heir", timeout=MINUTE)
        here.wait(lambda: not here.all("pods", "ghost"), "the ghost's pods gone")
        here.wait(lambda: rule.hits >= 5, "watches that had to begin anew")
        honest.assert_served()
    calm.assert_kept(tracebacks=0)


def test_watch_lines_lost_and_repeated_change_nothing(
    operator: OperatorProcess, proxy: FaultProxy, honest: Honest, here: View
) -> None:
    calm, since = Calm.now(operator), AuditLog(here.control_plane.audit_log).offset()
    everything = frozenset({"ADDED", "MODIFIED", "DELETED"})
    rules: list[Rule] = [
        proxy.add(Lines(everything), verbs=WATCHES, share=0.3, seed=3),
        proxy.add(Lines(everything, copies=3), verbs=WATCHES, share=0.5, seed=4),
    ]
    put(here, ["a", "b", "c"])
    here.wait(lambda: serving(here) == 3, "all served", MINUTE)
    here.delete("inferencedeployments", "b")
    honest.assert_served()
    here.wait(lambda: len(here.all("pods")) == 2, "two pods left")
    assert all(rule.hits for rule in rules)
    for rule in rules:
        proxy.remove(rule)
    assert_made_once(here, since)
    calm.assert_kept(tracebacks=0)


@pytest.mark.usefixtures("honest")
def test_an_api_server_that_is_away_for_some_seconds_is_outlived(
    operator: OperatorProcess, proxy: FaultProxy, here: View
) -> None:
    calm, since = Calm.now(operator), AuditLog(here.control_plane.audit_log).offset()
    with sampled_health(operator) as health:
        with proxy.partition():
            put(here, ["meanwhile"])
            gone = len(proxy.exchanges)
            here.wait(lambda: len(proxy.exchanges) - gone >= 12, "a dozen requests to nobody", MINUTE)
        here.wait_ready("meanwhile", timeout=MINUTE)
    assert {status for _, status in health.samples} == {HTTPStatus.OK}
    assert_made_once(here, since)
    calm.assert_kept(tracebacks=0)
