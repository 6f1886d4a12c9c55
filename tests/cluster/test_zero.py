"""To zero and back on a real API server, scheduler and Prometheus, and a number that another controller owns.

All deployments are made at once and each lives on nodes of its own. The tests build on one another in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from testbed.gateway_metrics import PlayedGateway
from tests.support.installed import GROUP, condition
from tests.support.live_loop import L4_POOL, TIMING, Bench, bench_of, changes, stays

pytestmark = [pytest.mark.cluster, pytest.mark.story]

IDLE_SECONDS = 30
SLEEP_WITHIN_SECONDS = 150.0
"""The idle time, and a minute for starts and scrapes of a loaded machine."""

ZERO = {"mode": "Auto", "minReplicas": 0, "maxReplicas": 2, "idleSeconds": IDLE_SECONDS, **TIMING}
BY_HAND = ZERO | {"wake": "Manual"}
ASLEEP = ("gate", "hand")


def behind(pool: str) -> dict[str, Any]:
    return ZERO | {"gateway": {"inferencePool": pool}}


@dataclass(frozen=True, slots=True)
class Scene:
    """The running parts, and the played gateway in front of them."""

    bench: Bench
    gateway: PlayedGateway

    def hold(self, pool: str, waiting: float | str) -> None:
        self.gateway.hold(self.bench.view.namespace, pool, waiting)

    def scale(self, name: str, replicas: int) -> str:
        """As a person does it."""
        view = self.bench.view
        return view.control_plane.kubectl("scale", "-n", view.namespace, "infd", name, f"--replicas={replicas}")

    def write_scale(self, name: str, replicas: int, manager: str) -> None:
        """As an autoscaler does it."""
        view = self.bench.view
        path = f"{GROUP}/namespaces/{view.namespace}/inferencedeployments/{name}/scale"
        scale = view.control_plane.client.get(path)
        scale["spec"]["replicas"] = replicas
        view.control_plane.client.send("PUT", f"{path}?fieldManager={manager}", scale)

    def knows(self, name: str, replicas: int) -> bool:
        """Whether the live loop has seen this number."""
        return self.bench.rebalancing(name).get("baseReplicas") == replicas

    def summary(self, name: str) -> str:
        return str((self.bench.view.get(name).get("status") or {}).get("replicasSummary"))

    def is_at_zero(self, name: str) -> bool:
        return self.summary(name) == "0/0" and not self.bench.view.pods(name)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with PlayedGateway() as gateway, bench_of("zero", targets=[gateway.target]) as bench:
        made = Scene(bench, gateway)
        for pool in ("gate", "busy", "blind"):
            made.hold(pool, 0)
        made.hold("blind", "NaN")
        for name in ("gate", "hand", "busy", "blind", "external", "contested"):
            bench.add_nodes(name, L4=2)
        bench.deploy("gate", behind("gate"))
        bench.deploy("hand", BY_HAND)
        bench.deploy("busy", behind("busy"))
        bench.deploy("blind", behind("blind"))
        bench.deploy("external", {"mode": "Auto", "scale": "External", **TIMING})
        bench.deploy("contested", {"mode": "Auto", "maxReplicas": 2, **TIMING})
        for name in ("gate", "hand", "busy", "blind", "external", "contested"):
            bench.view.wait_ready(name)
        bench.load("busy", kv_tokens=2_000, running=1)
        yield made


@pytest.fixture(scope="module")
def sleeping(scene: Scene) -> Scene:
    for name in ASLEEP:
        scene.bench.view.wait(partial(scene.is_at_zero, name), f"{name} at zero", SLEEP_WITHIN_SECONDS)
    return scene


@pytest.mark.parametrize("name", ASLEEP)
def test_an_idle_deployment_goes_to_zero_and_its_object_is_current(sleeping: Scene, name: str) -> None:
    view = sleeping.bench.view
    body = view.get(name)
    assert [each["reason"] for each in body["status"]["rebalancing"]["changes"]] == ["NoRequests"]
    ready = condition(body, "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "ScaledToZero")
    assert {each["type"] for each in body["status"]["conditions"]} == {"Ready", "Planned", "Placed", "Available"}
    assert view.read("services", name), "the Service stays"
    row = view.control_plane.kubectl("get", "infd", "-n", view.namespace, name)
    assert "0/0" in row


def test_one_that_serves_and_one_whose_gateway_is_unreadable_stay(sleeping: Scene) -> None:
    bench = sleeping.bench
    assert bench.replicas("busy") == {L4_POOL: 1}
    assert bench.replicas("blind") == {L4_POOL: 1}
    [hint] = bench.rebalancing("blind")["hints"]
    assert hint.endswith("not counted: the queue of blind is an impossible number in three scrapes in a row.")


def test_at_zero_nothing_is_written(sleeping: Scene) -> None:
    bench = sleeping.bench
    since = bench.now()
    stays(lambda: all(sleeping.is_at_zero(name) for name in ASLEEP), 10.0, "they stay at zero")
    assert [event for name in ASLEEP for event in bench.writes(since, name)] == []


def test_a_request_at_the_gateway_wakes_its_deployment_and_no_other(sleeping: Scene) -> None:
    bench = sleeping.bench
    since = bench.now()
    sleeping.hold("gate", 3)
    bench.wait_settled("gate", {L4_POOL: 1})
    bench.load("gate", kv_tokens=2_000, running=1)
    sleeping.hold("gate", 0)
    assert [each["reason"] for each in bench.rebalancing("gate")["changes"]] == ["NoRequests", "RequestsWaitAtGateway"]
    assert sleeping.is_at_zero("hand")
    assert changes(bench.writes(since, "busy")) == []


def test_a_person_wakes_it_by_kubectl_scale_although_the_number_was_the_same(sleeping: Scene) -> None:
    bench = sleeping.bench
    sleeping.scale("hand", 1)
    stays(lambda: sleeping.is_at_zero("hand"), 5.0, "a write that changes nothing is none")
    sleeping.scale("hand", 0)
    sleeping.scale("hand", 1)
    bench.wait_settled("hand", {L4_POOL: 1})
    assert [each["kind"] for each in bench.rebalancing("hand")["changes"]] == ["Remove"]


def test_an_external_scalers_number_is_kept(scene: Scene) -> None:
    bench = scene.bench
    bench.load("external", kv_tokens=79_200)
    assert bench.wait_reason("external", "ScaledExternally")["targetReplicas"] == 1
    for replicas in (2, 1):
        scene.write_scale("external", replicas, "kube-controller-manager")
        bench.wait_settled("external", {L4_POOL: replicas})
        view = bench.view
        path = f"{GROUP}/namespaces/{view.namespace}/inferencedeployments/external/scale"
        status = view.control_plane.client.get(path)["status"]
        assert status["replicas"] == replicas
        pods = view.control_plane.client.pods(status["selector"])
        assert {pod["metadata"]["name"] for pod in pods} == {pod["metadata"]["name"] for pod in view.pods("external")}


def test_an_autoscaler_on_a_number_of_the_loops_is_named_and_not_fought(scene: Scene) -> None:
    bench = scene.bench
    for replicas in (2, 1, 2):
        scene.write_scale("contested", replicas, "keda-operator")
        bench.view.wait(partial(scene.knows, "contested", replicas), "the number is seen")
    bench.view.wait(lambda: "hints" in bench.rebalancing("contested"), "the contest is said")
    assert bench.rebalancing("contested")["hints"][0].startswith("spec.replicas was changed 3 times within an hour")
    bench.wait_settled("contested", {L4_POOL: 2})
    stays(lambda: bench.rebalancing("contested")["targetReplicas"] == 2, 15.0, "nothing idle is removed")
    assert "hints" not in bench.rebalancing("busy")
