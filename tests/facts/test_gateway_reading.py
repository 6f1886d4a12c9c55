"""A Gateway and the route to it, as controllers and admins write them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import GatewayRef, GatewayView
from plimsoll.facts.cluster.gateway_reading import named_gateway, named_pool, pool_fault, read_gateway
from tests.support.tables import every_case

REF = GatewayRef(ObjectKey("infra", "shared"))
PARENT = {"name": "shared", "namespace": "infra"}


def _gateway(*listeners: dict[str, Any], address: str = "203.0.113.7") -> dict[str, Any]:
    web = {"name": "web", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
    return {"spec": {"listeners": [web | each for each in listeners]}, "status": {"addresses": [{"value": address}]}}


def _route(*parents: dict[str, Any], generation: int = 3) -> dict[str, Any]:
    head = {"namespace": "ml", "name": "chat", "generation": generation}
    return {"metadata": head, "status": {"parents": list(parents)}}


def _said(accepted: str, reason: str = "", *, at: int = 3, **parent: Any) -> dict[str, Any]:
    answer = {"type": "Accepted", "status": accepted, "reason": reason, "message": "so", "observedGeneration": at}
    return {"parentRef": PARENT | parent, "controllerName": "example.com/c", "conditions": [answer]}


def _from(whom: str) -> dict[str, Any]:
    return {"allowedRoutes": {"namespaces": {"from": whom}}}


def _leads(ref: GatewayRef) -> dict[str, Any]:
    entry = _said("True")
    entry["parentRef"] = PARENT | ({"sectionName": ref.listener} if ref.listener else {})
    entry["conditions"].append({**entry["conditions"][0], "type": "ResolvedRefs"})
    return _route(entry)


def _read(ref: GatewayRef = REF, gateway: Any = None, route: Any = None, *, may_read: bool = True) -> GatewayView:
    return read_gateway(ref, gateway, route, may_read=may_read)


@every_case(
    "case",
    (
        ("the address of the Gateway", REF, _gateway({}), "http://203.0.113.7"),
        ("an IPv6 address", REF, _gateway({}, address="2001:db8::7"), "http://[2001:db8::7]"),
        ("another port", REF, _gateway({"port": 8080}), "http://203.0.113.7:8080"),
        ("a listener with a host name", REF, _gateway({"hostname": "ai.example.com"}), "http://ai.example.com"),
        ("one with a wildcard", REF, _gateway({"hostname": "*.example.com"}), ""),
        (
            "one with a wildcard and another",
            REF,
            _gateway({"hostname": "*.a.com"}, {"port": 81}),
            "http://203.0.113.7:81",
        ),
        ("HTTPS after HTTP", REF, _gateway({}, {"port": 443, "protocol": "HTTPS"}), "https://203.0.113.7"),
        ("another namespace's", REF, _gateway(_from("Same"), {"port": 81}), "http://203.0.113.7:81"),
        ("nobody's", REF, _gateway(_from("None")), ""),
        ("labels decide", REF, _gateway(_from("Selector"), {"port": 81}), "http://203.0.113.7:81"),
        ("labels alone", REF, _gateway(_from("Selector")), "http://203.0.113.7"),
        ("no port", REF, _gateway({"port": None}), ""),
        ("no listener of HTTP", REF, _gateway({"protocol": "TCP"}), ""),
        ("no address yet", REF, _gateway({}, address=""), ""),
        (
            "the listener that serves the host name",
            GatewayRef(REF.key, hostnames=("chat.ai.example.com",)),
            _gateway({"hostname": "other.com"}, {"port": 443, "protocol": "HTTPS", "hostname": "*.ai.example.com"}),
            "https://chat.ai.example.com",
        ),
        (
            "the listener that is named",
            GatewayRef(REF.key, "inside"),
            _gateway({}, {"name": "inside", "port": 8000}),
            "http://203.0.113.7:8000",
        ),
    ),
)
def test_the_address_is_that_of_the_first_listener_that_serves_the_route(
    case: tuple[str, GatewayRef, dict[str, Any], str],
) -> None:
    _, ref, gateway, url = case
    assert _read(ref, gateway, _leads(ref)).url == url
    assert _read(ref, gateway, _route(_said("True"))).url == "", "no request comes through there yet"


def test_only_the_answer_for_this_gateway_this_listener_and_this_content_counts() -> None:
    assert _read(route=_route(_said("True"))).is_accepted is True
    assert _read(route=_route(_said("False", "NotAllowedByListeners"))).complaint == "NotAllowedByListeners: so"
    assert _read(route=_route(_said("Unknown"))).is_accepted is None
    for other in (_said("True", at=2), _said("True", name="other"), _said("True", namespace="ml")):
        assert _read(route=_route(other)).is_accepted is None
    named = _said("True", sectionName="web")
    assert _read(route=_route(named)).is_accepted is None
    assert _read(GatewayRef(REF.key, "web"), route=_route(named)).controller == "example.com/c"


def test_a_controller_that_turns_the_pool_down_cannot_lead_there_and_one_that_says_nothing_of_it_can() -> None:
    good = _said("True")
    good["conditions"].append({**good["conditions"][0], "type": "ResolvedRefs"})
    for conditions, resolved in (
        ([], True),
        ([{"type": "Accepted", "status": "True", "observedGeneration": 3}], True),
        (
            [{"type": "ResolvedRefs", "status": "False", "reason": "InvalidExtensionRef", "observedGeneration": 3}],
            False,
        ),
        ([{"type": "Accepted", "status": "False", "reason": "NotSupportedByParent", "observedGeneration": 2}], True),
    ):
        pool = _route({"parentRef": PARENT, "conditions": conditions})
        found = read_gateway(REF, None, _route(good), pool, may_read=False)
        assert (found.is_accepted, found.is_resolved) == (True, resolved)
        assert ("InvalidExtensionRef" in found.complaint) is not resolved


def test_a_route_of_somebody_else_to_the_pool_that_is_refused_says_nothing_of_this_one() -> None:
    """Istio takes the first route to a pool for the pool's own answer."""
    for accepted in ("True", "False"):
        said = _said(accepted, "NotAllowedByListeners")
        said["conditions"].append({**said["conditions"][0], "type": "ResolvedRefs", "status": "True"})
        for reason, resolved in (("HTTPRouteNotAccepted", True), ("NotSupportedByParent", False)):
            found = read_gateway(REF, None, _route(said), _route(_said("False", reason)), may_read=False)
            assert (found.is_accepted, found.is_resolved) == (accepted == "True", resolved)
            assert "HTTPRouteNotAccepted" not in found.complaint


def test_an_answer_without_a_generation_is_about_what_is_there() -> None:
    answer = _said("True")
    del answer["conditions"][0]["observedGeneration"]
    assert _read(route=_route(answer)).is_accepted is True


def test_a_gateway_is_missing_only_if_it_could_have_been_read() -> None:
    assert _read(may_read=True).is_missing
    assert not _read(may_read=False).is_missing
    assert not _read(gateway=_gateway({})).is_missing


def test_after_a_change_of_the_class_the_newest_answer_counts_and_of_equals_the_refusal() -> None:
    old, new = _said("True"), _said("False", "NotAllowedByListeners")
    old["conditions"][0]["lastTransitionTime"] = "2026-11-01T00:00:00Z"
    new["conditions"][0]["lastTransitionTime"] = "2026-11-02T00:00:00Z"
    for route in (_route(old, new), _route(new, old)):
        assert _read(route=route).is_accepted is False
    old["conditions"][0]["lastTransitionTime"] = "2026-11-03T00:00:00Z"
    assert _read(route=_route(old, new)).is_accepted is True
    for each in (old, new):
        del each["conditions"][0]["lastTransitionTime"]
    for route in (_route(old, new), _route(new, old)):
        assert _read(route=route).is_accepted is False


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(_ANYTHING, _ANYTHING)
def test_whatever_an_older_crd_let_through_names_a_gateway_or_none(routing: Any, gateway: Any) -> None:
    for spec in ({"routing": routing}, {"routing": {"gateway": gateway}}, {"routing": {"gateway": {"name": gateway}}}):
        ref = named_gateway(spec, "ml")
        assert ref is None or isinstance(ref.key.name, str)


_PARTS = st.sampled_from(
    (
        *("metadata", "spec", "status", "listeners", "addresses", "parents", "parentRef", "conditions", "name"),
        *("namespace", "sectionName", "type", "port", "observedGeneration", "lastTransitionTime", "protocol"),
        *("hostname", "value", "allowedRoutes", "namespaces", "from", "generation", "creationTimestamp"),
    )
)
_NEARLY = st.recursive(
    st.none() | st.integers() | st.sampled_from(["x", "shared", "infra", "Accepted", "ResolvedRefs", "True", "HTTP"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_PARTS, inner, max_size=4),
    max_leaves=12,
)
_OBJECTS = st.none() | st.fixed_dictionaries({"metadata": _NEARLY, "spec": _NEARLY, "status": _NEARLY})
_MALFORMED: list[Any] = [
    {"parents": [{"parentRef": "x"}]},
    {"parents": [None]},
    {"parents": 5},
    5,
    {"parents": [{"parentRef": PARENT, "conditions": ["x"]}]},
    {"parents": [{"parentRef": PARENT, "conditions": [{"type": "Accepted", "observedGeneration": "x"}]}]},
]


@given(_OBJECTS, _OBJECTS, _OBJECTS)
def test_whatever_a_gateway_a_route_and_a_pool_hold_they_are_read(gateway: Any, route: Any, pool: Any) -> None:
    found = read_gateway(REF, gateway, route, pool, may_read=True)
    assert found.leads_to_replicas or found.url == ""


@every_case("status", _MALFORMED)
def test_a_malformed_answer_is_none(status: Any) -> None:
    for gateway in (None, {"spec": {"listeners": [{"protocol": "HTTP"}, None]}}, {"spec": status, "status": status}):
        found = read_gateway(
            REF, gateway, {**_route(), "status": status}, {**_route(), "status": status}, may_read=True
        )
        assert (found.is_accepted, found.is_resolved, found.url) == (None, None, "")


NO_POOL = (
    "there is no InferencePool own (inference.networking.k8s.io/v1) in namespace ml: create it, or correct the name."
)
UNRESOLVED = (
    "the endpoint picker of InferencePool own does not resolve (InvalidExtensionRef: no Service own-picker): "
    "correct its spec.endpointPickerRef."
)


def _judged(*answers: tuple[str, int]) -> dict[str, Any]:
    """A pool of generation 3 with an answer of the controller of each Gateway, and the generation that it is about."""
    says = {"reason": "InvalidExtensionRef", "message": "no Service own-picker", "type": "ResolvedRefs"}
    conditions = [says | {"status": status, "observedGeneration": about} for status, about in answers]
    return {"metadata": {"generation": 3}, "status": {"parents": [{"conditions": [each]} for each in conditions]}}


@every_case(
    ("pool", "fault"),
    [
        (None, NO_POOL),
        ({"spec": {}}, ""),
        (_judged(), ""),
        (_judged(("True", 3)), ""),
        (_judged(("False", 3)), UNRESOLVED),
        (_judged(("False", 2)), ""),
        (_judged(("False", 3), ("True", 3)), ""),
        (_judged(("Unknown", 3), ("False", 3)), UNRESOLVED),
    ],
)
def test_a_pool_that_lacks_or_whose_picker_no_gateway_finds_holds_no_queue(pool: Any, fault: str) -> None:
    assert pool_fault("own", "ml", pool) == fault


@given(_NEARLY, _OBJECTS)
def test_whatever_a_spec_and_a_pool_hold_they_are_read(value: Any, pool: Any) -> None:
    assert named_pool({"rebalancing": {"gateway": {"inferencePool": "own"}}}) == "own"
    for spec in ({"rebalancing": value}, {"rebalancing": {"gateway": value}}):
        assert named_pool(spec) == ""
    assert pool_fault("own", "ml", {"status": value}) == ""
    assert (pool is None) == pool_fault("own", "ml", pool).startswith("there is no")
