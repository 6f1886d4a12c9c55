"""Large objects: of them only the identity is kept, and their neighbours are served as usual."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS
from plimsoll.api.bounds import MOST_CHARACTERS, MOST_MEMBERS
from plimsoll.app.shell import BOUNDS
from plimsoll.app.watch import pruning
from plimsoll.app.watch.sizes import (
    MEMBER_BYTES,
    MOST_OF_ALL,
    MOST_OF_NAMESPACE,
    SMALL_BYTES,
    ObjectSize,
    Shares,
    size_of,
    size_sentence,
)
from plimsoll.app.watch.store import Bounds, Store
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.record.reading import record_of
from tests.app.test_rolled_back import status
from tests.support.bodies import inference_deployment_body
from tests.support.live_passes import L4, Open

LARGEST = ObjectSize(0, MOST_MEMBERS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nested(levels: int) -> Any:
    node: Any = 1
    for _ in range(levels):
        node = [node]
    return node


@given(value=JSON)
def test_every_character_and_every_member_counts(value: Any) -> None:
    def counted(node: Any) -> tuple[int, int]:
        if isinstance(node, str):
            return len(node), 0
        if not isinstance(node, list | dict):
            return 8, 0
        inner = [counted(child) for child in (node.values() if isinstance(node, dict) else node)]
        keys = sum(map(len, node)) if isinstance(node, dict) else 0
        return keys + sum(each for each, _ in inner), len(node) + sum(each for _, each in inner)

    def levels(node: Any) -> int:
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return 1 + max(map(levels, inner)) if inner else 0

    assert size_of(value) == (*counted(value), levels(value))


@pytest.mark.parametrize(
    "value",
    [
        {f"{index}": 0 for index in range(10**6)},
        [[0] * 1000] * 1000,
        ["x" * 1000] * 1000,
        {"x" * (MOST_CHARACTERS + 1): None},
        "x" * 10**7,
        nested(10_000),
    ],
)
def test_what_is_over_a_limit_is_seen_without_counting_it_all(value: Any) -> None:
    found = size_of(value)
    assert not found.is_allowed
    assert found.members <= max(MOST_MEMBERS + 1000, len(value))


def test_a_member_takes_more_than_its_characters() -> None:
    assert ObjectSize(100, 10).held_bytes == 100 + 10 * 128
    assert [
        size.is_allowed for size in (ObjectSize(MOST_CHARACTERS, MOST_MEMBERS), ObjectSize(MOST_CHARACTERS + 1, 0))
    ] == [
        True,
        False,
    ]


def large(name: str, *, members: int, created: int = 0, namespace: str = "ns", version: int = 1) -> dict[str, Any]:
    body = inference_deployment_body(name, uid=f"uid-{namespace}-{name}")
    spec = {"contextLength": 4096, "model": {"name": "a/b", "config": {f"{index}": 0 for index in range(members)}}}
    head = {
        **body["metadata"],
        "namespace": namespace,
        "resourceVersion": str(version),
        "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
    }
    return {**body, "metadata": head, "spec": spec}


def store_of(bounds: Bounds | None = None) -> Store:
    fresh = BOUNDS[INFERENCE_DEPLOYMENTS]
    bounds = bounds or Bounds(fresh.measure, fresh.reduce, fresh.reason)
    prune = {INFERENCE_DEPLOYMENTS: pruning.inference_deployment}
    return Store(prune, lambda: None, bounds={INFERENCE_DEPLOYMENTS: bounds})


def whole(store: Store) -> set[str]:
    """The names of the objects that are kept whole."""
    return {body["metadata"]["name"] for body in store.all(INFERENCE_DEPLOYMENTS) if "spec" in body}


def test_of_an_object_over_the_limit_only_the_identity_and_our_own_status_are_kept() -> None:
    store = store_of()
    body = large("huge", members=MOST_MEMBERS + 1) | {"status": {"replicas": 3}}
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", body)
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", large("honest", members=1500))
    assert whole(store) == {"honest"}
    kept = store.get(INFERENCE_DEPLOYMENTS, ObjectKey("ns", "huge"))
    assert kept is not None
    assert record_of(kept).status.replicas == 3
    assert kept["metadata"]["uid"] == "uid-ns-huge"
    assert size_of({name: part for name, part in kept.items() if name in ("metadata", "status")}).members < 20
    reason = pruning.why_reduced(kept)
    assert reason is not None
    assert "8,192 members" in size_sentence(reason)
    store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", large("huge", members=5, version=2))
    assert whole(store) == {"honest", "huge"}, "it was shrunk"


def test_a_namespace_keeps_its_older_large_objects_and_all_small_ones() -> None:
    store = store_of()
    for index in reversed(range(12)):
        store.observe(INFERENCE_DEPLOYMENTS, "ADDED", large(f"large-{index}", members=8000, created=index))
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", large("small", members=10, created=59))
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", large("neighbour", members=8000, created=59, namespace="other"))
    kept = whole(store)
    assert {"small", "neighbour", "large-0", "large-1"} <= kept
    assert "large-11" not in kept
    refused = store.get(INFERENCE_DEPLOYMENTS, ObjectKey("ns", "large-11"))
    assert refused is not None
    reason = pruning.why_reduced(refused)
    assert reason is not None
    assert "a namespace may fill 8.0 MiB" in size_sentence(reason)


def test_what_a_deleted_object_leaves_is_read_again_for_the_next_one() -> None:
    store = store_of()
    bodies = [large(f"large-{index}", members=8000, created=index) for index in range(12)]
    for body in bodies:
        store.observe(INFERENCE_DEPLOYMENTS, "ADDED", body)
    before = whole(store)
    next_one = bodies[len(before)]
    assert next_one["metadata"]["name"] not in before
    assert "spec" not in store.only_if_new(INFERENCE_DEPLOYMENTS, next_one), "it is stored, and there is no room for it"
    store.observe(INFERENCE_DEPLOYMENTS, "DELETED", bodies[0])
    listed = [store.take(INFERENCE_DEPLOYMENTS, body) for body in bodies[1:]]
    assert store.replace(INFERENCE_DEPLOYMENTS, listed)
    assert whole(store) == (before | {next_one["metadata"]["name"]}) - {"large-0"}


async def test_a_deployment_that_grows_too_large_keeps_its_replicas_and_its_neighbour_is_served(opened: Open) -> None:
    there = opened(l4=4)
    there.put("grows", L4, replicas=2)
    await there.settle()
    there.change("grows", model={"name": "a/b", "config": {f"{index}": 0 for index in range(MOST_MEMBERS)}})
    there.put("neighbour", L4, created="04:00:00")
    await there.settle()
    cases = there.make()
    grown, neighbour = (status(cases[name]) for name in ("grows", "neighbour"))
    [stalled] = [each for each in grown["conditions"] if each["type"] == "Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "TooLarge")
    assert "8,192 members" in stalled["message"]
    assert cases["grows"].manifests == ()
    assert [pool["replicas"] for pool in grown["pools"]] == [2]
    assert grown["replicasSummary"] == "2/2"
    assert neighbour["replicasSummary"] == "1/1"


@given(
    sizes=st.dictionaries(
        st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 30)), st.integers(0, MOST_MEMBERS), max_size=60
    )
)
def test_all_large_objects_together_never_take_more_than_there_is(sizes: dict[tuple[str, int], int]) -> None:
    shares = Shares()
    for (namespace, number), members in sizes.items():
        shares.note(ObjectKey(namespace, f"{number}"), f"{namespace}{number}", f"{number:02}", ObjectSize(0, members))
    refused = shares.refused()
    taken: dict[str, int] = {}
    asked: dict[str, int] = {}
    for (namespace, number), members in sizes.items():
        each = MEMBER_BYTES * members
        if each > SMALL_BYTES:
            asked[namespace] = asked.get(namespace, 0) + each
            if f"{namespace}{number}" not in refused:
                taken[namespace] = taken.get(namespace, 0) + each
    assert sum(taken.values()) <= MOST_OF_ALL
    assert max(taken.values(), default=0) <= MOST_OF_NAMESPACE
    share = MOST_OF_ALL // max(1, len(asked))
    for namespace, wanted in asked.items():
        if wanted <= min(share, MOST_OF_NAMESPACE):
            assert taken[namespace] == wanted, "who takes no more than an equal share gets it"


@pytest.mark.parametrize(("namespaces", "objects", "kept"), [(1, 9, 8), (6, 8, 8), (6, 9, 8), (7, 9, 6), (48, 9, 1)])
def test_so_many_objects_of_the_largest_size_are_kept(namespaces: int, objects: int, kept: int) -> None:
    shares = Shares()
    for namespace in range(namespaces):
        for index in range(objects):
            key = ObjectKey(f"{namespace}", f"{index}")
            shares.note(key, f"{namespace}-{index}", f"{index}", LARGEST)
    assert len(shares.refused()) == namespaces * (objects - kept)


class LargeObjects(RuleBasedStateMachine):
    """Objects come, grow, shrink and go in any order: which are kept follows from what is there alone."""

    def __init__(self) -> None:
        super().__init__()
        self.store, self.there, self.version = self.fresh(), dict[tuple[str, str], dict[str, Any]](), 0

    @staticmethod
    def fresh() -> Store:
        """Small objects that say how many members they have."""
        ours = BOUNDS[INFERENCE_DEPLOYMENTS]
        return store_of(Bounds(lambda body: ObjectSize(0, body["spec"]["contextLength"]), ours.reduce, ours.reason))

    @rule(
        namespace=st.sampled_from("ab"),
        number=st.integers(0, 9),
        members=st.sampled_from([5, 60, 3000, 8000, MOST_MEMBERS + 1]),
    )
    def write(self, namespace: str, number: int, members: int) -> None:
        self.version += 1
        name = f"x{number}"
        event = "MODIFIED" if (namespace, name) in self.there else "ADDED"
        body = large(name, members=0, created=number, namespace=namespace, version=self.version)
        body["spec"]["contextLength"] = members
        self.there[namespace, name] = body
        self.store.observe(INFERENCE_DEPLOYMENTS, event, body)

    @rule(namespace=st.sampled_from("ab"), number=st.integers(0, 9))
    def delete(self, namespace: str, number: int) -> None:
        body = self.there.pop((namespace, f"x{number}"), None)
        if body is not None:
            self.store.observe(INFERENCE_DEPLOYMENTS, "DELETED", body)

    @rule()
    def list(self) -> None:
        heads = [self.store.take(INFERENCE_DEPLOYMENTS, body) for body in self.there.values()]
        self.store.replace(INFERENCE_DEPLOYMENTS, heads)
        self.store.replace(INFERENCE_DEPLOYMENTS, heads)

    @invariant()
    def after_a_list_it_is_what_a_new_process_would_keep(self) -> None:
        self.list()
        fresh = self.fresh()
        fresh.replace(INFERENCE_DEPLOYMENTS, list(self.there.values()))
        fresh.replace(INFERENCE_DEPLOYMENTS, list(self.there.values()))
        assert self.kept(self.store) == self.kept(fresh)

    @staticmethod
    def kept(store: Store) -> set[tuple[str, bool]]:
        return {(body["metadata"]["uid"], "spec" in body) for body in store.all(INFERENCE_DEPLOYMENTS)}


TestLargeObjects = LargeObjects.TestCase
