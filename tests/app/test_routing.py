"""Routers: made before the Service leads to them, taken away after it does no more, and never in anybody's way."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plimsoll.adapters.cluster.api_errors import GONE, ClusterRefused
from plimsoll.adapters.cluster.client import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INFERENCE_DEPLOYMENTS,
    PODS,
    SERVICES,
)
from plimsoll.adapters.cluster.kinds import GATEWAYS, HTTP_ROUTES, INFERENCE_POOLS, OF_ROUTERS, ObjectKind
from plimsoll.app.reading import gathering
from plimsoll.app.watch.store import key_of, uid_of
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import GIB, KIB
from plimsoll.render.names import DEPLOYMENT_LABEL, ROUTER_LABEL
from testbed.fleet import cpu_node
from testbed.operator_process import USER
from tests.support.api_in_memory import CLUSTER, ApiInMemory, Clock
from tests.support.bodies import Body
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import LLAMA_8B, condition, inference_deployment
from tests.support.operator_in_memory import KILLS, OperatorInMemory, Trouble

TENANT, HONEST = "routed", "honest"
OF_ROUTER = {ObjectKey(TENANT, "chat-router"), ObjectKey(TENANT, "chat-picker")}
OF_PICKER = {
    "Deployment chat-picker",
    "ServiceAccount chat-picker",
    "Role chat-picker",
    "RoleBinding chat-picker",
    "NetworkPolicy chat-picker",
    "InferencePool chat",
}
OF_ENVOYS = {
    "Deployment chat-router",
    "PodDisruptionBudget chat-router",
    "Service chat-engines",
    "Service chat-picker",
}
PARTS = {
    "Service": set[str](),
    "Standalone": OF_PICKER | OF_ENVOYS,
    "Gateway": OF_PICKER | {"Service chat-epp", "HTTPRoute chat"},
}
SHARED = ObjectKey("infra", "shared")
CONTROLLER = "example.com/gateways"


@dataclass
class World:
    """A cluster with a tenant who asks for a router, and one who does not."""

    api: ApiInMemory
    operator: OperatorInMemory
    missing: set[ObjectKind] = field(default_factory=set)
    answers: dict[str, tuple[str, str]] = field(default_factory=lambda: {"Accepted": ("True", "Accepted")})
    controller: str = CONTROLLER

    @staticmethod
    async def open(clock: Clock, cache: Path, *missing: ObjectKind) -> World:
        api = ApiInMemory(clock)
        for node in (cpu_node("cpu"), *honest_nodes(2, TENANT), *honest_nodes(1, HONEST)):
            api.put(node)
        operator = OperatorInMemory(api, cache, [(tenant, LLAMA_8B) for tenant in (TENANT, HONEST)])
        world = World(api, operator, set(missing))
        operator.refused = world.refusal
        await operator.start()
        api.put(inference_deployment("n", HONEST, **honest_spec(HONEST)))
        return world

    def refusal(self, kind: ObjectKind) -> PlimsollError | None:
        return ClusterRefused(f"list {kind.plural}", GONE, "not found") if kind in self.missing else None

    def ask(self, mode: str = "Standalone", gateway: dict[str, Any] | None = None, **spec: Any) -> None:
        routing: dict[str, Any] = {"mode": mode, "replicas": 1}
        if mode == "Gateway":
            routing["gateway"] = gateway or {"name": SHARED.name, "namespace": SHARED.namespace}
        self.api.put(inference_deployment("chat", TENANT, **honest_spec(TENANT), routing=routing, **spec))

    def open_gateway(self, **listener: Any) -> None:
        """Make a Gateway whose controller answers for every route in :meth:`go_on`."""
        self.api.put(
            {
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": "Gateway",
                "metadata": {"name": SHARED.name, "namespace": SHARED.namespace},
                "spec": {"listeners": [{"name": "web", "port": 80, "protocol": "HTTP"} | listener]},
            }
        )
        self.api.put_status(GATEWAYS, SHARED, {"addresses": [{"type": "IPAddress", "value": "203.0.113.7"}]}, CLUSTER)

    async def go_on(self, passes: int = 1) -> None:
        """Make passes. The controller of the Gateway answers after each of them."""
        for _ in range(passes):
            await self.operator.go_on()
            if self.api.get(GATEWAYS, SHARED) is not None:
                self._answer()

    def _answer(self) -> None:
        for route in self.api.all(HTTP_ROUTES):
            head = route["metadata"]
            said = {"ResolvedRefs": ("True", "ResolvedRefs")} | self.answers
            conditions = [
                {"type": kind, "status": status, "reason": reason, "observedGeneration": head.get("generation", 0)}
                for kind, (status, reason) in said.items()
            ]
            [parent] = route["spec"]["parentRefs"]
            answer = {"parentRef": parent, "controllerName": self.controller, "conditions": conditions}
            if (route.get("status") or {}).get("parents") != [answer]:
                self.api.put_status(HTTP_ROUTES, key_of(route), {"parents": [answer]}, CLUSTER)

    def route(self) -> dict[str, Any]:
        """The spec of the HTTPRoute."""
        return dict((self.api.get(HTTP_ROUTES, ObjectKey(TENANT, "chat")) or {})["spec"])

    def troubled(self) -> dict[str, Any]:
        """The condition Troubled of the tenant's deployment."""
        return condition(self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(TENANT, "chat")) or {}, "Troubled")

    def status(self, tenant: str = TENANT, name: str = "chat") -> dict[str, Any]:
        return dict((self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(tenant, name)) or {}).get("status") or {})

    def leads_to(self) -> str:
        """The label by which the model's own Service finds its pods."""
        [label] = (self.api.get(SERVICES, ObjectKey(TENANT, "chat")) or {})["spec"]["selector"]
        return str(label)

    def engines(self) -> list[tuple[str, int]]:
        """The engines' Deployments with their uids and generations."""
        found = self.api.all(DEPLOYMENTS, TENANT)
        return [(uid_of(body), body["metadata"]["generation"]) for body in found if key_of(body) not in OF_ROUTER]

    def remembered_blocks(self) -> int:
        """The blocks of each replica that the picker remembers."""
        picker = self.api.get(DEPLOYMENTS, ObjectKey(TENANT, "chat-picker")) or {}
        arguments = picker["spec"]["template"]["spec"]["containers"][0]["args"]
        [text] = [each for each in arguments if each.startswith("--config-text=")]
        plugins = json.loads(text.partition("=")[2])["plugins"]
        [found] = [each for each in plugins if each["type"] == "approx-prefix-cache-producer"]
        return int(found["parameters"]["lruCapacityPerServer"])

    def router_parts(self) -> set[str]:
        """The objects of the router, whatever their kinds are."""
        kinds = (DEPLOYMENTS, SERVICES, DISRUPTION_BUDGETS, *OF_ROUTERS, HTTP_ROUTES)
        found = [(kind, body) for kind in kinds for body in self.api.all(kind) if self._is_part(kind, body)]
        return {f"{kind.kind} {key_of(body).name}" for kind, body in found}

    def _is_part(self, kind: ObjectKind, body: Body) -> bool:
        labels = body["metadata"].get("labels") or {}
        is_models_own = kind in (SERVICES, DISRUPTION_BUDGETS) and key_of(body).name == "chat"
        return labels.get(DEPLOYMENT_LABEL) == "chat" and "plimsoll.dev/pool" not in labels and not is_models_own

    def unready(self) -> None:
        """Let every pod of the router say that it takes no requests."""
        for body in self.api.all(PODS, TENANT):
            if ROUTER_LABEL in body["metadata"]["labels"]:
                status = {**body["status"], "conditions": [{"type": "Ready", "status": "False"}]}
                self.api.put_status(PODS, key_of(body), status, CLUSTER)

    def check_neighbour(self) -> None:
        """The neighbour serves, and nobody wrote what is not the operator's."""
        body = self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(HONEST, "n")) or {}
        assert condition(body, "Ready")["reason"] == "Serving"
        assert self.api.trespasses == []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "time", made.read)
    monkeypatch.setattr(time, "monotonic", made.read)
    return made


@pytest.fixture
async def world(tmp_path: Path, clock: Clock) -> AsyncIterator[World]:
    made = await World.open(clock, tmp_path)
    yield made
    await made.operator.close()


async def test_a_router_comes_before_its_service_leads_to_it_and_goes_after_it_does_no_more(world: World) -> None:
    world.ask("Service")
    await world.operator.go_on(4)
    engines = world.engines()
    world.ask()
    await world.operator.go_on(1)
    assert world.leads_to() == DEPLOYMENT_LABEL, "no pod of the router takes requests yet"
    assert world.router_parts() == PARTS["Standalone"]
    await world.operator.go_on(3)
    assert world.leads_to() == ROUTER_LABEL
    assert world.status()["routing"] == {
        "mode": "Standalone",
        "state": "Ready",
        "readyReplicas": 1,
        "address": "http://chat.routed.svc:8000/v1",
        "endpoints": 1,
        "pickerReady": True,
    }
    assert world.status()["url"] == "http://chat.routed.svc:8000/v1"
    assert world.engines() == engines, "no engine is started again for it"
    since = len(world.api.writes)
    world.ask("Service")
    await world.operator.go_on(2)
    assert world.leads_to() == DEPLOYMENT_LABEL
    assert world.router_parts() == set()
    ours = [(each.verb, each.resource) for each in world.api.writes[since:] if each.user == USER]
    assert ours.index(("patch", "services")) < ours.index(("delete", "deployments"))
    assert "routing" not in world.status()
    assert world.engines() == engines
    world.check_neighbour()


async def test_the_picker_remembers_as_much_as_the_gpus_and_the_host_memory_of_a_replica_keep(world: World) -> None:
    world.ask()
    await world.operator.go_on(3)
    on_gpus = world.remembered_blocks()
    assert on_gpus * 16 == world.status()["estimate"]["kvCapacityTokens"]
    world.ask(kvCache={"hostMemory": "64Gi"})
    await world.operator.go_on(5)
    assert world.remembered_blocks() - on_gpus == pytest.approx(64 * GIB / (128 * KIB) / 16, rel=0.02)
    world.check_neighbour()


async def test_the_service_leads_to_the_replicas_while_no_pod_of_the_router_takes_requests(world: World) -> None:
    world.ask()
    await world.operator.go_on(5)
    assert world.leads_to() == ROUTER_LABEL
    world.unready()
    await world.operator.hear()
    await world.operator.one_pass()
    assert world.leads_to() == DEPLOYMENT_LABEL
    assert world.status()["routing"]["readyReplicas"] == 0
    world.check_neighbour()


@pytest.mark.parametrize("kind", [INFERENCE_POOLS, OF_ROUTERS[1]], ids=lambda kind: kind.plural)
async def test_without_the_kinds_that_it_needs_the_plain_service_goes_on_and_says_so(
    tmp_path: Path, clock: Clock, kind: ObjectKind
) -> None:
    world = await World.open(clock, tmp_path, kind)
    world.ask()
    await world.operator.go_on(5)
    assert world.leads_to() == DEPLOYMENT_LABEL
    assert world.router_parts() == set()
    body = world.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(TENANT, "chat")) or {}
    assert condition(body, "Ready")["reason"] == "Serving"
    troubled = condition(body, "Troubled")
    assert troubled["reason"] == "GatewayMissing"
    assert f"The cluster has no {kind.plural}" in troubled["message"]
    assert world.status()["routing"]["state"] == "Missing"
    world.missing.clear()
    await world.operator.go_on(5)
    assert world.leads_to() == ROUTER_LABEL
    assert world.status()["routing"]["state"] == "Ready"
    world.check_neighbour()
    await world.operator.close()


async def test_pods_with_the_label_of_a_router_that_it_did_not_make_count_for_nothing(world: World) -> None:
    forged = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "forged", "namespace": TENANT, "labels": {ROUTER_LABEL: "chat"}},
        "spec": {"nodeName": "cpu", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    world.api.put(forged)
    world.ask("Service")
    await world.operator.go_on(3)
    world.ask()
    await world.operator.go_on(1)
    assert world.leads_to() == DEPLOYMENT_LABEL


async def test_a_gateway_that_admits_the_route_gives_the_address_and_the_service_leads_to_the_replicas(
    world: World,
) -> None:
    world.open_gateway()
    world.ask("Gateway")
    await world.go_on(5)
    assert world.router_parts() == PARTS["Gateway"]
    assert world.leads_to() == DEPLOYMENT_LABEL
    assert world.status()["url"] == "http://203.0.113.7/routed/chat/v1"
    assert world.status()["routing"] == {
        "mode": "Gateway",
        "state": "Ready",
        "address": "http://203.0.113.7/routed/chat/v1",
        "endpoints": 1,
        "pickerReady": True,
        "gateway": {
            "name": "shared",
            "namespace": "infra",
            "controller": CONTROLLER,
            "accepted": True,
            "resolvedRefs": True,
        },
    }
    assert world.troubled() == {}
    [rule] = world.route()["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/routed/chat"}}]
    assert rule["backendRefs"] == [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "chat"}]
    world.check_neighbour()


@pytest.mark.parametrize(
    ("controller", "options", "is_told"),
    [
        ("istio.io/gateway-controller", {}, True),
        ("istio.io/gateway-controller", {"pickerTls": False}, False),
        (CONTROLLER, {}, False),
    ],
)
async def test_who_has_a_gateway_of_istio_is_told_how_it_asks_the_picker(
    world: World, controller: str, options: dict[str, Any], *, is_told: bool
) -> None:
    world.controller = controller
    world.open_gateway()
    world.ask("Gateway", {"name": SHARED.name, "namespace": SHARED.namespace} | options)
    await world.go_on(5)
    routing = world.status()["routing"]
    assert (routing["state"], routing["gateway"]["controller"]) == ("Ready", controller)
    assert ("spec.routing.gateway.pickerTls to false" in routing.get("message", "")) is is_told
    assert world.troubled() == {}
    world.check_neighbour()


async def test_host_names_are_the_address_at_the_port_of_the_listener_that_serves_them(world: World) -> None:
    world.open_gateway(port=8443, protocol="HTTPS", hostname="*.example.com")
    world.ask("Gateway", {"name": "shared", "namespace": "infra", "hostnames": ["chat.example.com"]})
    await world.go_on(5)
    assert world.status()["url"] == "https://chat.example.com:8443/v1"
    assert world.route()["hostnames"] == ["chat.example.com"]
    [rule] = world.route()["rules"]
    assert "filters" not in rule
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        ("Accepted", "NotAllowedByListeners", "Gateway infra/shared does not admit the HTTPRoute of this namespace"),
        ("ResolvedRefs", "InvalidKind", "Gateway infra/shared cannot send requests to the InferencePool"),
    ],
)
async def test_a_gateway_that_turns_the_route_down_is_named_and_the_plain_service_goes_on(
    world: World, kind: str, reason: str, words: str
) -> None:
    world.open_gateway()
    world.answers[kind] = "False", reason
    world.ask("Gateway")
    await world.go_on(5)
    assert world.troubled()["reason"] == "RouteNotAccepted"
    assert f"{words} ({reason})" in world.troubled()["message"]
    assert world.status()["url"] == "http://chat.routed.svc:8000/v1"
    assert world.status()["routing"]["state"] == "NotReady"
    assert world.leads_to() == DEPLOYMENT_LABEL
    world.answers.clear()
    world.answers["Accepted"] = "True", "Accepted"
    await world.go_on(3)
    assert world.troubled() == {}
    assert world.status()["url"] == "http://203.0.113.7/routed/chat/v1"
    world.check_neighbour()


@pytest.mark.parametrize("reason", ["NoMatchingParent", "NoMatchingListenerHostname"])
async def test_what_the_users_own_fields_cause_is_said_to_him(world: World, reason: str) -> None:
    world.open_gateway()
    world.answers["Accepted"] = "False", reason
    world.ask("Gateway")
    await world.go_on(5)
    field = {"NoMatchingParent": "sectionName", "NoMatchingListenerHostname": "hostnames"}[reason]
    assert f"correct spec.routing.gateway.{field}" in world.troubled()["message"]
    assert "allowedRoutes" not in world.troubled()["message"]
    world.check_neighbour()


async def test_a_controller_that_does_not_answer_within_two_minutes_is_a_trouble(world: World, clock: Clock) -> None:
    world.open_gateway()
    world.ask("Gateway")
    await world.operator.go_on(5)
    assert (world.status()["routing"]["state"], world.troubled()) == ("Starting", {})
    clock.now += 121
    await world.operator.go_on(2)
    assert world.troubled()["reason"] == "RouteNotAccepted"
    assert "No controller of Gateway infra/shared has answered" in world.troubled()["message"]
    world.answers = {"ResolvedRefs": ("Unknown", "Pending"), "Accepted": ("True", "Accepted")}
    await world.go_on(3)
    assert "has accepted the HTTPRoute, and does not say" in world.troubled()["message"]
    assert "address" not in world.status()["routing"], "no request comes through there"
    world.check_neighbour()


@pytest.mark.parametrize(
    ("mode", "part"), [(mode, part) for mode in sorted(PARTS) for part in sorted(PARTS[mode])], ids=" ".join
)
async def test_whichever_object_of_a_router_is_refused_the_engine_serves_and_the_status_says_so(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch, mode: str, part: str
) -> None:
    refused, applied = [part], world.api.apply

    def refuse(manifest: Body, user: str) -> Any:
        if f"{manifest['kind']} {manifest['metadata']['name']}" in refused:
            raise ClusterRefused("apply it", 403, "exceeded quota: few")
        return applied(manifest, user)

    monkeypatch.setattr(world.api, "apply", refuse)
    world.open_gateway()
    world.ask(mode)
    await world.go_on(5)
    body = world.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(TENANT, "chat")) or {}
    assert (condition(body, "Ready")["reason"], condition(body, "Placed")["reason"]) == ("Serving", "PodsScheduled")
    assert world.troubled()["reason"] == "RouterRefused"
    assert "refused to apply it: exceeded quota: few. No engine needs it." in world.troubled()["message"]
    refused.clear()
    clock.now += 61
    await world.go_on(4)
    assert world.router_parts() == PARTS[mode]
    assert world.troubled().get("reason") != "RouterRefused"
    world.check_neighbour()


@pytest.mark.parametrize(
    ("mode", "verb"), [("Standalone", "delete"), ("Gateway", "delete"), ("Gateway", "apply")], ids=str
)
async def test_who_wants_no_router_any_more_and_is_refused_has_engines_that_are_ready_in_every_status(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch, mode: str, verb: str
) -> None:
    """The status names the refused removal, and no more the refused object, which is not wanted any more."""
    refused, said = [True], list[list[str]]()
    forwarded, stored = getattr(world.api, verb), world.api.replace_status

    def refuse(*about: Any, **more: Any) -> Any:
        key = key_of(about[0]) if verb == "apply" else about[1]
        if refused and key == ObjectKey(TENANT, "chat-picker"):
            raise ClusterRefused(f"{verb} it", 403, "a policy forbids it")
        return forwarded(*about, **more)

    def store(kind: ObjectKind, known: Body, status: dict[str, Any], user: str) -> Any:
        if known["metadata"]["namespace"] == TENANT:
            said.append([condition({"status": status}, which)["reason"] for which in ("Ready", "Placed")])
        return stored(kind, known, status, user)

    world.open_gateway()
    if verb == "apply":
        monkeypatch.setattr(world.api, verb, refuse)
    world.ask(mode)
    await world.go_on(5)
    monkeypatch.setattr(world.api, "replace_status", store)
    if verb == "delete":
        monkeypatch.setattr(world.api, verb, refuse)
    world.ask("Service")
    await world.go_on(3)
    assert said
    assert all(each == ["Serving", "PodsScheduled"] for each in said)
    if verb == "delete":
        assert world.troubled()["reason"] == "RouterRefused"
        assert "refused to delete it: a policy forbids it. No engine needs it." in world.troubled()["message"]
        assert "spec.routing.mode" not in world.troubled()["message"]
    refused.clear()
    clock.now += 61
    await world.go_on(3)
    assert (world.router_parts(), world.troubled()) == (set(), {})
    world.check_neighbour()


async def test_what_the_engines_need_is_written_at_once_while_a_refused_router_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, applied = list[str](), world.api.apply

    def refuse(manifest: Body, user: str) -> Any:
        if manifest["metadata"]["name"] == "chat-picker":
            asked.append(manifest["kind"])
            raise ClusterRefused("apply it", 403, "a policy forbids it")
        return applied(manifest, user)

    monkeypatch.setattr(world.api, "apply", refuse)
    world.ask()
    await world.go_on(40)
    assert 2 <= len(asked) <= 10, "the pauses grow"
    for _ in range(5):
        [(kind, key)] = [(DEPLOYMENTS, key_of(body)) for body in world.api.all(DEPLOYMENTS, TENANT)]
        world.api.delete(kind, key)
        await world.go_on(1)
        assert [key_of(body) for body in world.api.all(DEPLOYMENTS, TENANT)] == [key]
        assert world.troubled()["reason"] == "RouterRefused"
    world.check_neighbour()


async def test_an_engine_that_is_refused_next_to_a_router_is_no_fault_of_the_router(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = world.api.apply

    def refuse(manifest: Body, user: str) -> Any:
        if "plimsoll.dev/pool" in manifest["metadata"]["labels"] and manifest["metadata"]["namespace"] == TENANT:
            raise ClusterRefused("apply it", 403, "exceeded quota: few")
        return applied(manifest, user)

    monkeypatch.setattr(world.api, "apply", refuse)
    world.ask()
    await world.go_on(4)
    body = world.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(TENANT, "chat")) or {}
    assert {condition(body, kind)["reason"] for kind in ("Ready", "Placed", "Stalled")} == {"PodsNotCreated"}
    assert not any(each["type"] == "Troubled" for each in body["status"]["conditions"])
    world.check_neighbour()


async def test_a_route_that_an_admission_webhook_refuses_is_not_the_controllers_to_answer_for(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = world.api.apply

    def refuse_routes(manifest: Body, user: str) -> Any:
        if manifest["kind"] == "HTTPRoute":
            raise ClusterRefused("apply httproutes chat", 403, 'admission webhook "w" denied')
        return applied(manifest, user)

    monkeypatch.setattr(world.api, "apply", refuse_routes)
    world.open_gateway()
    world.ask("Gateway")
    await world.go_on(5)
    clock.now += 121
    await world.go_on(2)
    body = world.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(TENANT, "chat")) or {}
    assert (condition(body, "Ready")["status"], condition(body, "Placed")["reason"]) == ("True", "PodsScheduled")
    assert world.troubled()["reason"] == "RouterRefused"
    assert 'refused to apply httproutes chat: admission webhook "w" denied' in world.troubled()["message"]
    assert world.status()["routing"]["message"] == world.troubled()["message"].partition(" What helps: ")[0]
    assert world.status()["readyReplicas"] == 1, "the engine runs, and the plain Service leads to it"
    assert world.status()["url"] == "http://chat.routed.svc:8000/v1"
    world.check_neighbour()


@pytest.mark.parametrize("reason", ["BackendNotFound", "InvalidExtensionRef"])
async def test_a_controller_that_has_yet_to_see_the_parts_of_a_new_route_is_no_trouble_for_two_minutes(
    world: World, clock: Clock, reason: str
) -> None:
    """Istio says BackendNotFound until it has made a Service of its own for the pool."""
    world.open_gateway()
    world.answers = {"ResolvedRefs": ("False", reason), "Accepted": ("True", "Accepted")}
    world.ask("Gateway")
    await world.go_on(5)
    routing = world.status()["routing"]
    assert (routing["state"], world.troubled()) == ("Starting", {})
    assert f"does not say that it can send requests there yet ({reason})" in routing["message"]
    assert world.status()["url"] == "http://chat.routed.svc:8000/v1"
    clock.now += 121
    await world.go_on(2)
    assert world.troubled()["reason"] == "RouteNotAccepted"
    assert f"cannot send requests to the InferencePool ({reason})" in world.troubled()["message"]
    world.answers["ResolvedRefs"] = "True", "ResolvedRefs"
    await world.go_on(3)
    assert (world.status()["routing"]["state"], world.troubled()) == ("Ready", {})
    world.check_neighbour()


@pytest.mark.parametrize("status", [{"parents": [{"parentRef": "x"}]}, {"parents": [None]}, {"parents": 5}])
async def test_a_malformed_answer_stays_with_its_route(world: World, status: Any) -> None:
    world.open_gateway()
    world.ask("Gateway")
    await world.operator.go_on(3)
    world.api.put_status(HTTP_ROUTES, ObjectKey(TENANT, "chat"), status, CLUSTER)
    world.api.put(inference_deployment("late", HONEST, **honest_spec(HONEST)))
    await world.operator.go_on(3)
    assert world.status()["routing"]["state"] == "Starting"
    assert "pools" in world.status(HONEST, "late"), "the neighbour was planned in that pass"
    world.check_neighbour()


async def test_what_cannot_be_read_of_one_router_stays_with_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.open_gateway()
    world.ask("Gateway")
    await world.go_on(5)
    monkeypatch.setattr(gathering, "read_gateway", lambda *_, **__: 1 / 0)
    world.api.put(inference_deployment("late", HONEST, **honest_spec(HONEST)))
    await world.operator.go_on(3)
    assert "pools" in world.status(HONEST, "late"), "the neighbour was planned in that pass"
    assert world.router_parts() == PARTS["Gateway"]
    world.check_neighbour()


async def test_without_the_gateway_the_plain_service_goes_on_and_says_so(world: World) -> None:
    world.ask("Gateway")
    await world.go_on(5)
    assert world.troubled()["reason"] == "GatewayMissing"
    assert "Gateway infra/shared does not exist" in world.troubled()["message"]
    assert "correct name and namespace in spec.routing.gateway" in world.troubled()["message"]
    assert "CRDs" not in world.troubled()["message"]
    assert world.status()["routing"]["state"] == "Missing"
    assert world.status()["url"] == "http://chat.routed.svc:8000/v1"
    world.open_gateway()
    await world.go_on(3)
    assert world.status()["routing"]["state"] == "Ready"
    world.check_neighbour()


async def test_without_httproutes_mode_gateway_makes_nothing_and_mode_standalone_goes_on(
    tmp_path: Path, clock: Clock
) -> None:
    world = await World.open(clock, tmp_path, HTTP_ROUTES, GATEWAYS)
    world.ask("Gateway")
    await world.go_on(5)
    assert world.router_parts() == set()
    assert world.troubled()["reason"] == "GatewayMissing"
    assert "The cluster has no httproutes" in world.troubled()["message"]
    assert "set the chart's value gatewayRouting to true" in world.troubled()["message"]
    world.ask("Standalone")
    await world.go_on(5)
    assert world.leads_to() == ROUTER_LABEL
    assert world.troubled() == {}
    world.check_neighbour()
    await world.operator.close()


async def test_without_the_right_to_read_gateways_the_controller_says_whether_requests_come_through(
    tmp_path: Path, clock: Clock
) -> None:
    world = await World.open(clock, tmp_path, GATEWAYS)
    world.ask("Gateway")
    await world.go_on(5)
    routing = world.status()["routing"]
    assert (routing["state"], world.troubled()) == ("Starting", {})
    assert routing["message"] == "No controller of Gateway infra/shared has answered for the HTTPRoute yet."
    world.open_gateway()
    await world.go_on(3)
    assert world.status()["routing"]["state"] == "Ready"
    assert world.status()["url"] == "http://chat.routed.svc:8000/v1", "nobody says where the Gateway is"
    world.check_neighbour()
    await world.operator.close()


async def test_an_answer_for_an_earlier_route_or_another_gateway_counts_for_nothing(world: World) -> None:
    world.open_gateway()
    world.ask("Gateway")
    await world.go_on(5)
    world.ask("Gateway", {"name": "other", "namespace": "infra"})
    await world.operator.go_on(3)
    assert world.troubled()["message"].startswith("Gateway infra/other does not exist")
    gateway = world.status()["routing"]["gateway"]
    assert gateway == {"name": "other", "namespace": "infra"}, "nobody has answered for it"


@pytest.mark.parametrize("kind", ["HTTPRoute", "InferencePool"])
async def test_a_foreign_object_of_that_name_is_named_and_stays(world: World, kind: str) -> None:
    group = {"HTTPRoute": "gateway.networking.k8s.io", "InferencePool": "inference.networking.k8s.io"}[kind]
    foreign = {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": "chat", "namespace": TENANT},
        "spec": {"of": "somebody"},
    }
    world.api.put(foreign)
    world.ask("Gateway")
    await world.operator.go_on(4)
    body = world.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(TENANT, "chat")) or {}
    assert f"{kind} routed/chat exists and is not controlled by" in condition(body, "Ready")["message"]
    world.check_neighbour()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    modes=st.lists(st.sampled_from(["Service", "Standalone", "Gateway"]), min_size=1, max_size=4),
    at=st.integers(0, 60),
    trouble=st.sampled_from([*KILLS, Trouble.ERROR, Trouble.LOST_ANSWER, Trouble.CONFLICT]),
)
@example(modes=["Gateway", "Service"], at=21, trouble=Trouble.CONFLICT)
async def test_whatever_is_asked_and_whenever_it_is_killed_the_end_is_what_was_asked_last(
    tmp_path: Path, clock: Clock, modes: list[str], at: int, trouble: Trouble
) -> None:
    world = await World.open(clock, tmp_path)
    world.open_gateway()
    writes = iter(range(10_000))
    world.operator.trouble = lambda: trouble if next(writes) == at else None
    await world.operator.restart()
    for mode in modes:
        world.ask(mode)
        await world.go_on(2)
    await world.go_on(20)
    assert world.leads_to() == (ROUTER_LABEL if modes[-1] == "Standalone" else DEPLOYMENT_LABEL)
    assert world.router_parts() == PARTS[modes[-1]]
    at_gateway = world.status()["url"] == "http://203.0.113.7/routed/chat/v1"
    assert at_gateway is (modes[-1] == "Gateway")
    world.check_neighbour()
    await world.operator.close()
