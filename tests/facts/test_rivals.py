"""Two deployments on one pool, or at one host name of a Gateway: the younger is refused by name, and nobody else is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.rivals import rivals
from tests.support.bodies import Body

HOST = "chat.example.com"


def _asks(name: str, born: int = 0, namespace: str = "ml", **spec: Any) -> Body:
    head = {"name": name, "namespace": namespace, "creationTimestamp": f"2026-11-01T00:00:{born:02}Z"}
    return {"metadata": head, "spec": spec}


def _behind(pool: str) -> dict[str, Any]:
    return {"rebalancing": {"gateway": {"inferencePool": pool}}}


def _at(host: str, gateway: str = "shared", **more: Any) -> dict[str, Any]:
    return {"routing": {"mode": "Gateway", "gateway": {"name": gateway, "hostnames": [host], **more}}}


def _refused(*bodies: Body) -> dict[str, str]:
    return {key.name: str(InvalidInput(*why)) for key, why in rivals(bodies).items()}


def test_the_queue_of_a_routers_own_pool_counts_for_its_deployment_alone() -> None:
    older = _asks("reads", 1, **_behind("chat"))
    bodies = older, _asks("chat", 2, routing={"mode": "Standalone"}), _asks("honest", 3, **_behind("other"))
    found = {key.name: str(InvalidInput(*why)) for key, why in rivals(bodies, {ObjectKey("ml", "chat")}).items()}
    assert found.keys() == {"reads"}
    assert found["reads"] == (
        "spec.rebalancing.gateway.inferencePool: 'chat' cannot be used. InferenceDeployment chat counts the queue of "
        "that pool: name a pool of its own, or remove the field."
    )


def test_a_new_router_does_not_take_the_pool_whose_queue_an_older_one_counts() -> None:
    older, newer = _asks("reads", 1, **_behind("chat")), _asks("chat", 2, routing={"mode": "Standalone"})
    found = _refused(older, newer, _asks("honest", 3, routing={"mode": "Standalone"}))
    assert found.keys() == {"chat"}
    assert "spec.routing.mode: 'a router with InferencePool chat' cannot be used" in found["chat"]
    assert "InferenceDeployment reads counts the queue of that pool" in found["chat"]


def test_what_no_string_names_is_asked_for_by_nobody() -> None:
    nothing = [_asks(name, rebalancing={"gateway": {}}) for name in "ab"]
    for odd in (None, 5, ["pool"]):
        nothing += [_asks(f"{name}{odd}", rebalancing={"gateway": {"inferencePool": odd}}) for name in "ab"]
        nothing += [_asks(f"{name}-{odd}", **_at(odd)) for name in "ab"]  # type: ignore[arg-type]
    assert _refused(*nothing) == {}


def test_of_two_that_name_the_pool_of_somebody_else_the_younger_is_refused() -> None:
    found = _refused(_asks("b", 1, **_behind("pool")), _asks("a", 2, **_behind("pool")), _asks("honest", 0))
    assert found.keys() == {"a"}
    assert "InferenceDeployment b" in found["a"]


def test_of_two_at_one_host_name_of_a_listener_the_younger_is_refused() -> None:
    first, second = _asks("first", 1, **_at(HOST)), _asks("second", 2, **_at(HOST))
    found = _refused(second, first, _asks("honest", 3, **_at("other.example.com")))
    assert found.keys() == {"second"}
    assert f"spec.routing.gateway.hostnames: '{HOST}' cannot be used. InferenceDeployment first has" in found["second"]
    assert "at Gateway ml/shared" in found["second"]
    for other in (_at(HOST, "second"), _at(HOST, namespace="infra")):
        assert _refused(first, _asks("second", 2, **other)) == {}


def test_no_listener_is_all_listeners() -> None:
    every, inside, outside = (_at(HOST), _at(HOST, sectionName="inside"), _at(HOST, sectionName="outside"))
    for first, second in ((every, inside), (inside, every), (inside, inside)):
        assert _refused(_asks("first", 1, **first), _asks("second", 2, **second)).keys() == {"second"}
    assert _refused(_asks("first", 1, **inside), _asks("second", 2, **outside)) == {}
    both = _asks("first", 1, **inside), _asks("second", 2, **outside), _asks("third", 3, **every)
    assert _refused(*both).keys() == {"third"}


def test_another_namespace_keeps_nothing_from_this_one() -> None:
    theirs = _asks("theirs", 0, "evil", **_at(HOST, namespace="infra"))
    assert _refused(theirs, _asks("ours", 1, **_at(HOST, namespace="infra"))) == {}


def test_one_that_is_being_deleted_holds_nothing_any_more() -> None:
    leaving = _asks("leaving", 1, **_behind("pool"))
    leaving = {**leaving, "metadata": {**leaving["metadata"], "deletionTimestamp": "2026-11-02T00:00:00Z"}}
    assert _refused(leaving, _asks("stays", 2, **_behind("pool"))) == {}


_SPECS = st.sampled_from(
    [
        {},
        {"routing": {"mode": "Standalone"}},
        {"routing": {"mode": "Service"}},
        {"routing": None},
        _behind("d0"),
        _behind("pool"),
        _at(HOST),
        _at(HOST, "d1"),
        _at(HOST, sectionName="inside"),
    ]
)


@given(st.lists(st.tuples(_SPECS, st.integers(0, 2)), max_size=5), st.randoms(use_true_random=False))
def test_whatever_is_asked_each_pool_and_host_name_is_left_to_one_and_the_order_decides_nothing(
    asked: list[tuple[dict[str, Any], int]], random: Any
) -> None:
    bodies = [_asks(f"d{number}", born, **spec) for number, (spec, born) in enumerate(asked)]
    found = rivals(bodies)
    shuffled = list(bodies)
    random.shuffle(shuffled)
    assert rivals(shuffled) == found
    left = [body for body in bodies if ObjectKey("ml", body["metadata"]["name"]) not in found]
    assert rivals(left) == {}
    for body in bodies:
        if rivals([body]):
            raise AssertionError("nobody is refused for itself")
