"""A Gateway and the route to it, as controllers and admins write them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import GatewayRef, GatewayView
from plimsoll.facts.cluster.gateway_reading import named_gateway, read_gateway
from tests.support.tables import every_case

REF = GatewayRef(ObjectKey("infra", "shared"))
PARENT = {"name": "shared", "namespace": "infra"}


def _gateway(*listeners: dict[str, Any], address: str = "203.0.113.7") -> dict[str, Any]:
    web = {"name": "web", "port": 80, "protocol": "HTTP"}
    return {"spec": {"listeners": [web | each for each in listeners]}, "status": {"addresses": [{"value": address}]}}


def _route(*parents: dict[str, Any], generation: int = 3) -> dict[str, Any]:
    head = {"namespace": "ml", "name": "chat", "generation": generation}
    return {"metadata": head, "status": {"parents": list(parents)}}


def _said(accepted: str, reason: str = "", *, at: int = 3, **parent: Any) -> dict[str, Any]:
    answer = {"type": "Accepted", "status": accepted, "reason": reason, "message": "so", "observedGeneration": at}
    return {"parentRef": PARENT | parent, "controllerName": "example.com/c", "conditions": [answer]}


def _read(ref: GatewayRef = REF, gateway: Any = None, route: Any = None, *, may_read: bool = True) -> GatewayView:
    return read_gateway(ref, gateway, route, may_read=may_read)


@every_case(
    "case",
    (
        ("the address of the Gateway", REF, _gateway({}), "http://203.0.113.7"),
        ("an IPv6 address", REF, _gateway({}, address="2001:db8::7"), "http://[2001:db8::7]"),
        ("another port", REF, _gateway({"port": 8080}), "http://203.0.113.7:8080"),
        ("a listener with a host name", REF, _gateway({"hostname": "ai.example.com"}), "http://ai.example.com"),
        ("one with a wildcard", REF, _gateway({"hostname": "*.example.com"}), "http://203.0.113.7"),
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
    assert _read(ref, gateway).url == url


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
        ([{"type": "Accepted", "status": "False", "reason": "HTTPRouteNotAccepted", "observedGeneration": 2}], True),
    ):
        pool = _route({"parentRef": PARENT, "conditions": conditions})
        found = read_gateway(REF, None, _route(good), pool, may_read=False)
        assert (found.is_accepted, found.is_resolved) == (True, resolved)
        assert ("InvalidExtensionRef" in found.complaint) is not resolved


def test_an_answer_without_a_generation_is_about_what_is_there() -> None:
    answer = _said("True")
    del answer["conditions"][0]["observedGeneration"]
    assert _read(route=_route(answer)).is_accepted is True


def test_a_gateway_is_missing_only_if_it_could_have_been_read() -> None:
    assert _read(may_read=True).is_missing
    assert not _read(may_read=False).is_missing
    assert not _read(gateway=_gateway({})).is_missing


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
