"""Mode Gateway on a real API server with the real kinds of the Gateway API and of InferencePools.

Nobody here is the controller of a Gateway, so its answers are played; ``test_real_gateway.py`` has a real one. The
tests build on one another in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import cpu_node
from testbed.operator_process import OperatorProcess
from testbed.played_controller import CONTROLLER, GATEWAY_API, PlayedController
from testbed.routing_kinds import install_gateways, install_pools
from tests.support.behind_gateway import LISTED_WITHIN_SECONDS, BehindGateway
from tests.support.faulty import PATIENT
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import condition, install, namespace_of
from tests.support.planes import borrowed_plane

pytestmark = [pytest.mark.cluster, pytest.mark.story]

TENANT, HONEST, INFRA = "behind-gateway", "honest", "infra"
THROUGH = {"mode": "Gateway", "gateway": {"name": "shared", "namespace": INFRA}}
PLAIN_URL = f"http://chat.{TENANT}.svc:8000/v1"
GATEWAY_URL = f"http://203.0.113.7/{TENANT}/chat/v1"


@dataclass(frozen=True, slots=True)
class Scene(BehindGateway):
    """The same, and who plays the Gateway's controller."""

    controller: PlayedController


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane([cpu_node("cpu"), *honest_nodes(1, TENANT), *honest_nodes(1, HONEST)]) as running:
        install_pools(running)
        install_gateways(running)
        install(running)
        running.create_namespace(INFRA)
        yield running


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane) -> Iterator[Scene]:
    with (
        namespace_of(control_plane, TENANT) as tenant,
        namespace_of(control_plane, HONEST) as neighbour,
        OperatorProcess(control_plane, environment=PATIENT),
    ):
        neighbour.apply("plain", **honest_spec(HONEST))
        neighbour.wait_ready("plain")
        yield Scene(tenant, neighbour, neighbour.pod_uids("plain"), PlayedController(control_plane.client))


def test_without_the_gateway_the_plain_service_goes_on_and_the_gateway_is_named(scene: Scene) -> None:
    scene.ask(**THROUGH)
    scene.tenant.wait_ready("chat")
    assert "Gateway infra/shared does not exist" in scene.wait_troubled("GatewayMissing")
    assert (scene.url(), scene.leads_to()) == (PLAIN_URL, "plimsoll.dev/deployment")
    scene.check_neighbour()


def test_the_api_server_takes_the_route_and_the_pool_as_they_are(scene: Scene) -> None:
    client = scene.tenant.control_plane.client
    spec = client.get(scene.path("httproutes"))["spec"]
    [parent], [rule] = spec["parentRefs"], spec["rules"]
    assert (parent["kind"], parent["namespace"], parent["name"]) == ("Gateway", INFRA, "shared")
    assert rule["backendRefs"][0] | {"weight": 1} == {
        "group": "inference.networking.k8s.io",
        "kind": "InferencePool",
        "name": "chat",
        "weight": 1,
    }
    assert rule["timeouts"] == {"request": "0s"}
    pool = client.get(scene.path("inferencepools"))["spec"]
    assert pool["endpointPickerRef"]["name"] == "chat-epp"
    assert scene.tenant.read("services", "chat-epp")["spec"]["clusterIP"] not in ("", "None")


def test_an_answer_of_the_controller_gives_the_address_that_clients_call(scene: Scene) -> None:
    scene.controller.open(INFRA, "shared")
    scene.controller.answer(TENANT, "chat")
    scene.wait_routed("Ready")
    scene.tenant.wait(lambda: scene.url() == GATEWAY_URL, "the address of the Gateway", LISTED_WITHIN_SECONDS)
    routing = scene.routing()
    assert routing["gateway"] == {
        "name": "shared",
        "namespace": INFRA,
        "controller": CONTROLLER,
        "accepted": True,
        "resolvedRefs": True,
    }
    assert (routing["endpoints"], routing["pickerReady"], routing["address"]) == (1, True, GATEWAY_URL)
    scene.check_neighbour()


def test_a_gateway_that_admits_no_routes_of_the_namespace_is_named(scene: Scene) -> None:
    scene.controller.answer(TENANT, "chat", Accepted=("False", "NotAllowedByListeners"))
    message = scene.wait_troubled("RouteNotAccepted")
    assert "Gateway infra/shared does not admit the HTTPRoute of this namespace" in message
    assert "NotAllowedByListeners: as played" in message
    assert scene.url() == PLAIN_URL
    scene.check_neighbour()


def test_other_modes_take_the_route_away_and_bring_it_back(scene: Scene) -> None:
    client, engines = scene.tenant.control_plane.client, scene.tenant.pod_uids("chat")
    scene.ask(mode="Standalone", replicas=1)
    scene.tenant.wait(lambda: scene.leads_to() == "plimsoll.dev/router", "the Service leads to the router")
    scene.tenant.wait(lambda: not client.exists(scene.path("httproutes")), "the route gone", LISTED_WITHIN_SECONDS)
    scene.tenant.wait(lambda: not scene.tenant.read("services", "chat-epp"), "its Service gone", LISTED_WITHIN_SECONDS)
    scene.ask(**THROUGH)
    scene.tenant.wait(lambda: client.exists(scene.path("httproutes")), "the route back", LISTED_WITHIN_SECONDS)
    scene.tenant.wait(lambda: not scene.tenant.read("deployments", "chat-router"), "no Envoys", LISTED_WITHIN_SECONDS)
    scene.controller.answer(TENANT, "chat")
    scene.wait_routed("Ready")
    assert scene.leads_to() == "plimsoll.dev/deployment"
    assert scene.tenant.pod_uids("chat") == engines, "no engine was started again for it"
    scene.check_neighbour()


def test_a_foreign_route_of_that_name_is_named_and_stays_as_it_is(scene: Scene) -> None:
    foreign = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "taken", "namespace": TENANT},
        "spec": {"parentRefs": [{"name": "of-a-person"}]},
    }
    scene.tenant.control_plane.apply([foreign])
    scene.tenant.apply("taken", **honest_spec(TENANT), routing=THROUGH)
    body = scene.tenant.wait_condition("taken", "Ready", "False", "NameConflict", timeout=LISTED_WITHIN_SECONDS)
    assert f"HTTPRoute {TENANT}/taken exists" in condition(body, "Ready")["message"]
    route = scene.tenant.control_plane.client.get(f"{GATEWAY_API}/namespaces/{TENANT}/httproutes/taken")
    assert route["spec"]["parentRefs"][0]["name"] == "of-a-person"
    scene.check_neighbour()


def test_a_second_deployment_on_the_pool_of_the_first_is_refused_by_name(scene: Scene) -> None:
    loop = {"mode": "Auto", "maxReplicas": 2, "gateway": {"inferencePool": "chat"}}
    scene.tenant.apply("second", **honest_spec(TENANT), rebalancing=loop)
    body = scene.tenant.wait_condition("second", "Ready", "False", "InvalidSpec")
    message = condition(body, "Ready")["message"]
    assert "spec.rebalancing.gateway.inferencePool: 'chat' cannot be used" in message
    assert "InferenceDeployment chat counts the queue of that pool" in message
    assert scene.routing()["state"] == "Ready", "the first goes on"
    scene.check_neighbour()


def test_what_is_wrong_with_a_pool_that_somebody_names_is_said_by_name_and_the_engines_serve(scene: Scene) -> None:
    def hints() -> list[str]:
        live = (scene.tenant.get("third").get("status") or {}).get("rebalancing") or {}
        return [each for each in live.get("hints") or () if "InferencePool" in each]

    loop = {"mode": "Auto", "maxReplicas": 2, "gateway": {"inferencePool": "own"}}
    scene.tenant.apply("third", **honest_spec(TENANT), rebalancing=loop)
    scene.tenant.wait_ready("third")
    said = f"there is no InferencePool own (inference.networking.k8s.io/v1) in namespace {TENANT}: create it"
    scene.tenant.wait(lambda: said in "".join(hints()), "a pool that lacks is named", LISTED_WITHIN_SECONDS)

    control_plane = scene.tenant.control_plane
    pool = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "own", "namespace": TENANT},
        "spec": {
            "selector": {"matchLabels": {"plimsoll.dev/deployment": "third"}},
            "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "own-picker", "port": {"number": 9002}},
        },
    }
    control_plane.apply([pool])
    scene.tenant.wait(lambda: not hints(), "nothing is known against it", LISTED_WITHIN_SECONDS)
    path = f"/apis/inference.networking.k8s.io/v1/namespaces/{TENANT}/inferencepools/own"
    answer = control_plane.client.get(path)
    condition_of_it = {
        "type": "ResolvedRefs", "status": "False", "reason": "InvalidExtensionRef", "message": "no Service own-picker",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": answer["metadata"]["generation"],
    }  # fmt: skip
    parent = {"parentRef": {"name": "shared", "namespace": INFRA}, "conditions": [condition_of_it]}
    control_plane.client.send("PUT", f"{path}/status", answer | {"status": {"parents": [parent]}})
    said = "the endpoint picker of InferencePool own does not resolve (InvalidExtensionRef: no Service own-picker)"
    scene.tenant.wait(lambda: said in "".join(hints()), "a pool without a picker is named", LISTED_WITHIN_SECONDS)
    scene.tenant.wait_ready("third")
    assert control_plane.client.get(path)["spec"] == answer["spec"], "it belongs to a person"
    assert scene.routing()["state"] == "Ready", "the first goes on"
    scene.check_neighbour()
