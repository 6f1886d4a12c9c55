"""A router's objects: rights that are enough and no more, the restricted profile, and the arithmetic of its picker."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import USUAL_IMAGES, GatewayRef, RouterImages, Routing, RoutingMode
from plimsoll.engines.registry import engine_of
from plimsoll.render.names import DEPLOYMENT_LABEL, HASH_ANNOTATION, PICKER_LABEL, ROUTER_LABEL, engine_labels
from plimsoll.render.router import PICKER_RIGHTS, is_part, router_objects
from plimsoll.render.router_config import LONGEST_HOLD_SECONDS, PickerFacts, hold_seconds, picker_config, proxy_config
from tests.render.workloads import options
from tests.support.tables import every_case

VLLM, SGLANG = engine_of("vllm").metrics, engine_of("sglang").metrics
FACTS = PickerFacts(VLLM, block_tokens=16, cache_tokens=480_000, hold_seconds=900)
IMAGES = RouterImages("registry.example/epp@sha256:1", "registry.example/envoy:2")
PARTS = ("picker", "router")
DIGEST = re.compile("[^@]+:[^@:/]+@sha256:[0-9a-f]{64}")
METRICS = {"port": 9090, "protocol": "TCP"}
ROUTING = Routing(RoutingMode.STANDALONE, 3, images=IMAGES)


GATEWAY = GatewayRef(ObjectKey("infra", "shared"))


def _behind(gateway: GatewayRef) -> Routing:
    return Routing(RoutingMode.GATEWAY, images=IMAGES, gateway=gateway)


def _objects(facts: PickerFacts = FACTS, routing: Routing = ROUTING, **changes: Any) -> dict[str, dict[str, Any]]:
    made = router_objects(options(**changes), routing, facts, 75)
    return {f"{each['kind']} {each['metadata']['name']}": each for each in made}


def _parameters(config: dict[str, Any], kind: str) -> dict[str, Any]:
    [found] = [each for each in config["plugins"] if each["type"] == kind]
    return dict(found.get("parameters") or {})


def test_what_a_pod_of_the_router_needs_is_made_before_it_and_all_of_it_belongs_to_the_deployment() -> None:
    made = _objects()
    assert list(made) == [
        "ServiceAccount llama-picker",
        "Role llama-picker",
        "RoleBinding llama-picker",
        "InferencePool llama",
        "NetworkPolicy llama-picker",
        "Service llama-engines",
        "Service llama-picker",
        "Deployment llama-picker",
        "Deployment llama-router",
        "PodDisruptionBudget llama-router",
    ]
    for each in made.values():
        assert each["metadata"]["ownerReferences"][0]["name"] == "llama"
        assert each["metadata"]["labels"][DEPLOYMENT_LABEL] == "llama"
        assert each["metadata"]["annotations"][HASH_ANNOTATION]


@pytest.mark.parametrize(("routing", "pods"), [(ROUTING, 2), (_behind(GATEWAY), 1)], ids=["standalone", "gateway"])
def test_every_image_of_a_router_is_a_digest_and_ones_own_is_taken_as_it_is_written(
    routing: Routing, pods: int
) -> None:
    usual = _images(_objects(routing=replace(routing, images=USUAL_IMAGES)))
    assert len(usual) == pods
    assert all(DIGEST.fullmatch(each) for each in usual)
    assert _images(_objects(routing=routing)) == [IMAGES.picker, IMAGES.proxy][:pods]


def _images(made: dict[str, dict[str, Any]]) -> list[str]:
    pods = [each["spec"]["template"]["spec"] for kind, each in made.items() if kind.startswith("Deployment ")]
    return [one["image"] for pod in pods for one in (*pod.get("initContainers", ()), *pod["containers"])]


def test_its_pods_are_no_replicas_and_the_router_alone_connects_to_the_picker() -> None:
    made = _objects()
    pods = {each: made[f"Deployment llama-{each}"]["spec"]["template"]["metadata"]["labels"] for each in PARTS}
    assert pods == {"picker": {PICKER_LABEL: "llama"}, "router": {ROUTER_LABEL: "llama"}}
    policy = made["NetworkPolicy llama-picker"]["spec"]
    assert policy["podSelector"]["matchLabels"] == pods["picker"]
    asked, metrics = policy["ingress"]
    assert [peer["podSelector"]["matchLabels"] for peer in asked["from"]] == [pods["router"]]
    assert ([each["port"] for each in asked["ports"]], metrics) == ([9002, 9003], {"ports": [METRICS]})
    selector = {DEPLOYMENT_LABEL: "llama"}
    assert made["InferencePool llama"]["spec"]["selector"]["matchLabels"] == selector
    assert made["Service llama-engines"]["spec"]["selector"] == selector
    assert made["Service llama-picker"]["spec"]["selector"] == pods["picker"]
    assert [made[f"Deployment llama-{each}"]["spec"]["replicas"] for each in PARTS] == [1, 3]


def test_it_may_read_what_a_picker_reads_and_nothing_else() -> None:
    made = _objects()
    rules = made["Role llama-picker"]["rules"]
    assert {(rule["apiGroups"][0], kind) for rule in rules for kind in rule["resources"]} == {
        (group, kind) for group, kinds in PICKER_RIGHTS for kind in kinds
    }
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    [subject] = made["RoleBinding llama-picker"]["subjects"]
    assert (subject["name"], subject["namespace"]) == ("llama-picker", "ml")
    assert made["Deployment llama-picker"]["spec"]["template"]["spec"]["serviceAccountName"] == "llama-picker"
    assert made["Deployment llama-router"]["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


@every_case("part", PARTS)
def test_each_container_keeps_to_the_restricted_profile(part: str) -> None:
    spec = _objects()[f"Deployment llama-{part}"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["image"] == {"router": IMAGES.proxy, "picker": IMAGES.picker}[part]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "readinessProbe" in container


def test_an_envoy_that_ends_serves_on_for_as_long_as_an_answer_may_take() -> None:
    spec = _objects()["Deployment llama-router"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["lifecycle"]["preStop"]["sleep"]["seconds"] == 75 < spec["terminationGracePeriodSeconds"]


def test_the_picker_remembers_as_many_blocks_as_a_replica_keeps_and_reads_the_engines_own_names() -> None:
    for metrics in (VLLM, SGLANG):
        config = picker_config(PickerFacts(metrics, 16, 480_000, 900))
        assert _parameters(config, "approx-prefix-cache-producer")["lruCapacityPerServer"] == 30_000
        [engine] = _parameters(config, "core-metrics-extractor")["engineConfigs"]
        assert (engine["queuedRequestsSpec"], engine["kvUsageSpec"]) == (metrics.waiting, metrics.kv_usage)
        assert config["flowControl"] == {"defaultRequestTTL": "900s"}


@pytest.mark.parametrize(
    ("engine", "default", "known"),
    [("vllm", "served", {"served"}), ("sglang", "vllm", {"sglang"})],
    ids=["vllm", "other"],
)
def test_while_engines_change_pods_of_both_are_read_in_their_own_words(
    engine: str, default: str, known: set[str]
) -> None:
    """Pods without the label are vLLM's. The picker has configurations named ``vllm`` and ``sglang`` of its own."""
    config = picker_config(PickerFacts(engine_of(engine).metrics, 16, 480_000, 900, engine=engine))
    parameters = _parameters(config, "core-metrics-extractor")
    assert parameters["defaultEngine"] == default
    assert "engineLabelKey" not in parameters
    assert {each["name"] for each in parameters["engineConfigs"]} == known
    assert engine_labels(engine) == ({} if engine == "vllm" else {"inference.networking.k8s.io/engine-type": "sglang"})


@every_case("spec", ("", "vllm:lora_requests_info"))
def test_adapters_reach_the_picker_if_there_are_any(spec: str) -> None:
    config = picker_config(PickerFacts(VLLM, 16, 480_000, 900, has_adapters=bool(spec)))
    [engine] = _parameters(config, "core-metrics-extractor")["engineConfigs"]
    assert engine["loraSpec"] == spec
    refs = [each["pluginRef"] for each in config["schedulingProfiles"][0]["plugins"]]
    assert ("lora-affinity-scorer" in refs) is bool(spec)


def test_envoy_asks_about_requests_alone_and_takes_no_replica_from_a_client() -> None:
    config = proxy_config("llama-engines", "llama-picker")
    clients, picking = config["static_resources"]["listeners"]
    [route] = _manager(clients)["route_config"]["virtual_hosts"][0]["routes"]
    assert route["request_headers_to_remove"] == ["x-gateway-destination-endpoint"]
    [asking] = [each for each in _manager(picking)["http_filters"] if each["name"] == "ask-picker"]
    modes = asking["typed_config"]["processing_mode"]
    assert {modes[f"response_{part}_mode"] for part in ("header", "trailer")} == {"SKIP"}
    assert modes["response_body_mode"] == "NONE"
    assert picking["address"]["socket_address"]["address"] == "127.0.0.1"
    assert json.loads(json.dumps(config)) == config


def test_behind_a_gateway_there_are_no_envoys_and_the_route_comes_last() -> None:
    made = _objects(routing=_behind(GATEWAY))
    assert list(made) == [
        "ServiceAccount llama-picker",
        "Role llama-picker",
        "RoleBinding llama-picker",
        "InferencePool llama",
        "NetworkPolicy llama-picker",
        "Service llama-epp",
        "Deployment llama-picker",
        "HTTPRoute llama",
    ]
    asked = made["InferencePool llama"]["spec"]["endpointPickerRef"]
    assert (asked["name"], asked["port"], asked["failureMode"]) == ("llama-epp", {"number": 9002}, "FailOpen")
    service = made["Service llama-epp"]["spec"]
    assert service["selector"] == {PICKER_LABEL: "llama"}
    assert "clusterIP" not in service, "some Gateways take a headless Service for the address of a client's own"
    assert [port["name"] for port in service["ports"]] == ["grpc-ext-proc"]
    for each in made.values():
        assert each["metadata"]["ownerReferences"][0]["name"] == "llama"


def test_any_pod_may_ask_the_picker_of_a_gateway_whose_pods_have_labels_of_its_own() -> None:
    policy = _objects(routing=_behind(GATEWAY))["NetworkPolicy llama-picker"]["spec"]
    asked, metrics = policy["ingress"]
    assert "from" not in asked
    assert ([each["port"] for each in asked["ports"]], metrics) == ([9002, 9003], {"ports": [METRICS]})


@every_case(
    "case",
    ((ROUTING, "false"), (_behind(GATEWAY), "true"), (_behind(replace(GATEWAY, picker_tls=False)), "false")),
)
def test_a_gateway_asks_by_tls_unless_the_spec_says_no(case: tuple[Routing, str]) -> None:
    routing, said = case
    made = _objects(routing=routing)
    [container] = made["Deployment llama-picker"]["spec"]["template"]["spec"]["containers"]
    assert f"--secure-serving={said}" in container["args"]


def test_the_route_leads_from_the_named_listener_to_the_pool_and_cuts_no_answer_short() -> None:
    named = replace(GATEWAY, listener="web", hostnames=("a.example.com", "b.example.com"))
    spec = _objects(routing=_behind(named))["HTTPRoute llama"]["spec"]
    [parent] = spec["parentRefs"]
    assert (parent["namespace"], parent["name"], parent["sectionName"]) == ("infra", "shared", "web")
    assert spec["hostnames"] == ["a.example.com", "b.example.com"]
    [rule] = spec["rules"]
    assert rule == {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "llama"}],
        "timeouts": {"request": "0s"},
    }


def test_without_host_names_deployments_share_a_gateway_by_their_paths_and_engines_see_none_of_it() -> None:
    spec = _objects(routing=_behind(GATEWAY))["HTTPRoute llama"]["spec"]
    assert "hostnames" not in spec
    assert "sectionName" not in spec["parentRefs"][0]
    [rule] = spec["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/ml/llama"}}]
    [rewrite] = rule["filters"]
    assert rewrite["urlRewrite"] == {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}


@every_case("mode", tuple(RoutingMode))
def test_exactly_the_objects_of_a_mode_are_parts_of_it(mode: RoutingMode) -> None:
    both = {**_objects(), **_objects(routing=_behind(GATEWAY))}
    kept = {name for name, each in both.items() if is_part(each, mode, "llama")}
    wanted: dict[RoutingMode, set[str]] = {
        RoutingMode.SERVICE: set(),
        RoutingMode.STANDALONE: set(_objects()),
        RoutingMode.GATEWAY: set(_objects(routing=_behind(GATEWAY))),
    }
    assert kept == wanted[mode]


def _manager(listener: dict[str, Any]) -> dict[str, Any]:
    return dict(listener["filter_chains"][0]["filters"][0]["typed_config"])


@given(st.floats(0, 1e9))
def test_a_request_is_held_for_longer_than_a_start_takes_within_what_envoy_can_wait(seconds: float) -> None:
    held = hold_seconds(seconds)
    assert 60 <= held <= LONGEST_HOLD_SECONDS
    assert held >= min(seconds, LONGEST_HOLD_SECONDS)


def test_tolerations_and_pull_secrets_of_the_user_are_the_routers_too() -> None:
    pod = options().pod.__class__(
        tolerations=({"key": "x", "operator": "Exists"},), image_pull_secrets=({"name": "s"},)
    )
    for part in PARTS:
        spec = _objects(pod=pod)[f"Deployment llama-{part}"]["spec"]["template"]["spec"]
        assert spec["tolerations"] == [{"key": "x", "operator": "Exists"}]
        assert spec["imagePullSecrets"] == [{"name": "s"}]
