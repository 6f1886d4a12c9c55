"""Istio itself accepts and refuses routes: ``make test-gateway`` builds it and runs these tests.

``test_gateway.py`` plays what is seen here, in seconds and without Istio. The tests build on one another in their
order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import GatewayRef, GatewayView
from plimsoll.facts.cluster.gateway_reading import read_gateway
from testbed.binaries import ensure_istiod
from testbed.control_plane import ControlPlane
from testbed.fleet import cpu_node
from testbed.istiod import ADDRESS, CONTROLLER, Istiod
from testbed.operator_process import OperatorProcess
from testbed.played_controller import GATEWAY_API
from tests.support.behind_gateway import LISTED_WITHIN_SECONDS, BehindGateway
from tests.support.faulty import PATIENT
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import install, namespace_of

pytestmark = [pytest.mark.cluster, pytest.mark.at_length, pytest.mark.story]

TENANT, HONEST, INFRA = "behind-istio", "honest", "infra"
PLAIN_URL = f"http://chat.{TENANT}.svc:8000/v1"
WEB = {"name": "web", "port": 80, "protocol": "HTTP"}


def admits(namespaces: str) -> dict[str, Any]:
    return {**WEB, "allowedRoutes": {"namespaces": {"from": namespaces}}}


def through(name: str, **more: Any) -> dict[str, Any]:
    return {"mode": "Gateway", "gateway": {"name": name, "namespace": INFRA, **more}}


@dataclass(frozen=True, slots=True)
class Scene(BehindGateway):
    """The same, with Istio and the operator."""

    istiod: Istiod
    operator: OperatorProcess

    def read(self, gateway: str) -> GatewayView:
        """Return what the operator makes of the objects as they are now."""
        client, ref = self.tenant.control_plane.client, GatewayRef(ObjectKey(INFRA, gateway))
        made = client.get(f"{GATEWAY_API}/namespaces/{INFRA}/gateways/{gateway}")
        route, pool = (client.get(self.path(kind)) for kind in ("httproutes", "inferencepools"))
        return read_gateway(ref, made, route, pool, may_read=True)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """On a control plane of its own: Istio's objects stay on it."""
    program = ensure_istiod()
    with ControlPlane() as plane, Istiod(plane, program) as istiod:
        plane.add_nodes([cpu_node("cpu"), *honest_nodes(1, TENANT), *honest_nodes(1, HONEST)])
        install(plane)
        plane.create_namespace(INFRA)
        istiod.open(INFRA, "shared", admits("All"))
        istiod.open(INFRA, "private", admits("Same"))
        with (
            namespace_of(plane, TENANT) as tenant,
            namespace_of(plane, HONEST) as neighbour,
            OperatorProcess(plane, environment=PATIENT) as operator,
        ):
            neighbour.apply("plain", **honest_spec(HONEST))
            neighbour.wait_ready("plain")
            yield Scene(tenant, neighbour, neighbour.pod_uids("plain"), istiod, operator)


def test_an_unknown_gateway_is_named_and_istio_says_nothing_of_the_route(scene: Scene) -> None:
    scene.ask(**through("unknown"))
    scene.tenant.wait_ready("chat")
    assert "Gateway infra/unknown does not exist" in scene.wait_troubled("GatewayMissing")
    route = scene.tenant.control_plane.client.get(scene.path("httproutes"))
    assert not (route.get("status") or {}).get("parents")
    assert scene.url() == PLAIN_URL
    scene.check_neighbour()


def test_a_listener_that_does_not_admit_the_namespace_is_said_in_istios_words(scene: Scene) -> None:
    scene.ask(**through("private"))
    message = scene.wait_troubled("RouteNotAccepted")
    assert "Gateway infra/private does not admit the HTTPRoute of this namespace (NotAllowedByListeners: " in message
    assert scene.routing()["gateway"] | {"resolvedRefs": None} == {
        "name": "private",
        "namespace": INFRA,
        "controller": CONTROLLER,
        "accepted": False,
        "resolvedRefs": None,
    }
    assert scene.url() == PLAIN_URL
    scene.check_neighbour()


def test_a_listener_that_the_gateway_does_not_have_is_the_users_to_correct(scene: Scene) -> None:
    scene.ask(**through("shared", sectionName="other"))
    message = scene.wait_troubled("RouteNotAccepted")
    assert "NoMatchingParent" in message
    assert "correct spec.routing.gateway.sectionName" in message
    scene.check_neighbour()


def test_an_accepted_route_gives_the_address_that_istio_writes(scene: Scene) -> None:
    scene.ask(**through("shared"))
    scene.wait_routed("Ready")
    scene.tenant.wait(
        lambda: scene.url() == f"http://{ADDRESS}/{TENANT}/chat/v1", "the address of the Gateway", LISTED_WITHIN_SECONDS
    )
    assert scene.routing()["gateway"] == {
        "name": "shared",
        "namespace": INFRA,
        "controller": CONTROLLER,
        "accepted": True,
        "resolvedRefs": True,
    }
    assert scene.leads_to() == "plimsoll.dev/deployment"
    scene.check_neighbour()


def test_a_pool_without_its_pickers_service_is_turned_down_when_istio_looks_at_it_again(scene: Scene) -> None:
    """It looks when the pool or its route changes, and not when the Service goes or comes."""
    client, service = scene.tenant.control_plane.client, f"/api/v1/namespaces/{TENANT}/services/chat-epp"
    scene.operator.kill()
    client.send("DELETE", service)
    touch(scene, "gone")
    scene.tenant.wait(lambda: scene.read("shared").is_resolved is False, "istio's refusal", LISTED_WITHIN_SECONDS)
    assert scene.read("shared").complaint.startswith("InvalidExtensionRef: ")
    assert scene.read("shared").url == "", "no request comes through there"
    scene.operator.start()
    scene.tenant.wait(lambda: client.exists(service), "the Service again", LISTED_WITHIN_SECONDS)
    touch(scene, "back")
    scene.tenant.wait(lambda: scene.read("shared").leads_to_replicas, "istio's consent", LISTED_WITHIN_SECONDS)
    scene.wait_routed("Ready")
    scene.check_neighbour()


def touch(scene: Scene, text: str) -> None:
    """Change the InferencePool where it means nothing."""
    annotation = {"metadata": {"annotations": {"example.com/touched": text}}}
    scene.tenant.control_plane.client.merge_patch(scene.path("inferencepools"), annotation)
