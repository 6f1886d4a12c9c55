"""The shell's picture of the cluster: never older than what it has seen, never fuller than what there is."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES, PODS, ObjectKind
from plimsoll.app.watch import pruning
from plimsoll.app.watch.store import VANISH_GUARD, Store, is_stored, key_of, uid_of, version_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.record.reading import record_of, whole_status
from tests.support.bodies import inference_deployment_body, node_body, pod_body

KEY = ObjectKey("ns", "llama")


class Bell:
    """Counts how often the planner would be woken."""

    def __init__(self) -> None:
        self.rings = 0

    def __call__(self) -> None:
        self.rings += 1


@pytest.fixture
def bell() -> Bell:
    return Bell()


def new_store(bell: Bell | None = None) -> Store:
    return Store({INFERENCE_DEPLOYMENTS: pruning.whole, NODES: pruning.node, PODS: pruning.pod}, bell or Bell())


@pytest.fixture
def store(bell: Bell) -> Store:
    return new_store(bell)


def version(store: Store, kind: ObjectKind = INFERENCE_DEPLOYMENTS, key: ObjectKey = KEY) -> int | None:
    body = store.get(kind, key)
    return None if body is None else version_of(body)


def test_an_older_version_never_replaces_a_newer_one(store: Store, bell: Bell) -> None:
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(version=7))
    store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", inference_deployment_body(version=6, spec={"replicas": 9}))
    assert version(store) == 7
    assert bell.rings == 1


def test_versions_are_compared_as_numbers(store: Store) -> None:
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(version=99))
    store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", inference_deployment_body(version=100))
    assert version(store) == 100


def test_a_new_version_shares_its_unchanged_parts_with_the_one_before(store: Store) -> None:
    store.observe(PODS, "ADDED", pod_body("a", version=1))
    key = ObjectKey("ns", "a")
    before = store.get(PODS, key)
    store.observe(PODS, "MODIFIED", pod_body("a", version=2))
    after = store.get(PODS, key)
    assert before is not None
    assert after is not None
    assert (version_of(before), version_of(after)) == (1, 2)
    assert after["spec"] is before["spec"]
    assert after["status"] is before["status"]


def test_a_change_of_what_is_only_shown_is_in_the_record() -> None:
    store = Store({INFERENCE_DEPLOYMENTS: pruning.inference_deployment}, lambda: None)
    for version, omitted in ((1, 3), (2, 4)):
        status = {"replicas": 1, "rejectionsOmitted": omitted}
        store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", inference_deployment_body(version=version, status=status))
    held = store.get(INFERENCE_DEPLOYMENTS, KEY)
    assert held is not None
    assert whole_status(record_of(held)).rejections_omitted == 4


def test_a_namesake_replaces_what_was_there_whatever_its_version(store: Store) -> None:
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(uid="old", version=50))
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(uid="new", version=40))
    held = store.get(INFERENCE_DEPLOYMENTS, KEY)
    assert held is not None
    assert uid_of(held) == "new"


def test_what_was_deleted_does_not_come_back_with_a_late_event_or_a_late_list(store: Store) -> None:
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(version=7))
    store.observe(INFERENCE_DEPLOYMENTS, "DELETED", inference_deployment_body(version=9))
    store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", inference_deployment_body(version=8))
    store.replace(INFERENCE_DEPLOYMENTS, [inference_deployment_body(version=8)])
    assert version(store) is None


def test_the_deletion_of_a_namesake_does_not_touch_its_successor(store: Store) -> None:
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(uid="new", version=12))
    store.observe(INFERENCE_DEPLOYMENTS, "DELETED", inference_deployment_body(uid="old", version=11))
    assert version(store) == 12


def test_a_list_takes_away_what_it_does_not_hold(store: Store, bell: Bell) -> None:
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body("ghost", version=3))
    rings = bell.rings
    assert store.replace(INFERENCE_DEPLOYMENTS, [inference_deployment_body(version=4)])
    assert [body["metadata"]["name"] for body in store.all(INFERENCE_DEPLOYMENTS)] == ["llama"]
    assert bell.rings > rings


def test_what_was_created_while_the_list_was_under_way_is_not_missing_from_it(store: Store) -> None:
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body("ghost", uid="g", version=3))
    known = store.uids(INFERENCE_DEPLOYMENTS)
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body("fresh", uid="f", version=5))
    store.replace(INFERENCE_DEPLOYMENTS, [], known)
    assert [body["metadata"]["name"] for body in store.all(INFERENCE_DEPLOYMENTS)] == ["fresh"]


def test_a_listed_object_that_is_stored_already_keeps_its_stored_content(store: Store) -> None:
    known, newer = inference_deployment_body("a", version=5), inference_deployment_body("b", version=5)
    store.replace(INFERENCE_DEPLOYMENTS, [known, newer])
    held = store.get(INFERENCE_DEPLOYMENTS, key_of(known))
    changed = inference_deployment_body("b", version=6)
    heads = [store.only_if_new(INFERENCE_DEPLOYMENTS, body) for body in (known, changed)]
    assert [is_stored(head) for head in heads] == [True, False]
    assert store.replace(INFERENCE_DEPLOYMENTS, [heads[0], store.take(INFERENCE_DEPLOYMENTS, changed)])
    assert store.get(INFERENCE_DEPLOYMENTS, key_of(known)) is held
    assert version(store, key=key_of(changed)) == 6


def test_an_object_of_a_list_is_stored_as_it_is_read_and_never_replaces_a_newer_one(store: Store) -> None:
    listed = [inference_deployment_body(name, uid=name, version=5) for name in ("a", "b", "gone")]
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body("b", uid="b", version=7))
    store.observe(INFERENCE_DEPLOYMENTS, "DELETED", inference_deployment_body("gone", uid="gone", version=9))
    heads = [store.take(INFERENCE_DEPLOYMENTS, body) for body in listed]
    assert version(store, key=key_of(listed[0])) == 5, "it is there before the list is complete"
    assert not any("spec" in head or "kind" in head for head in heads)
    assert store.replace(INFERENCE_DEPLOYMENTS, heads)
    assert [version(store, key=key_of(body)) for body in listed[:2]] == [5, 7]
    assert store.get(INFERENCE_DEPLOYMENTS, key_of(listed[2])) is None


def test_a_watch_that_misses_what_a_list_brought_is_noticed(store: Store) -> None:
    store.replace(NODES, [node_body(version=1)])
    assert store.deaf_seconds(NODES) == 0
    store.take(NODES, node_body(version=5))
    assert store.deaf_seconds(NODES) > 0
    store.begin_watch(NODES)
    assert store.deaf_seconds(NODES) == 0


@given(steps=st.lists(st.sampled_from(["change", "begin", "deliver", "request", "answer"]), max_size=30))
@example(steps=["request", "answer", "change", "begin", "request", "answer"])
@example(steps=["request", "answer", "change", "request", "begin", "answer"])
def test_a_watch_that_delivers_every_change_since_it_began_is_never_called_silent(steps: list[str]) -> None:
    store = new_store()
    now, heard, known = 1, 1, cast("frozenset[str] | None", None)
    for step in [*steps, "answer", "deliver"]:
        match step:
            case "change":
                now += 1
            case "begin":
                store.begin_watch(NODES)
                heard = now
            case "deliver" if heard < now:
                heard += 1
                store.observe(NODES, "MODIFIED", node_body(version=heard))
            case "request":
                known = store.uids(NODES)
            case "answer" if known is not None:
                store.replace(NODES, [store.take(NODES, node_body(version=now))], known, list_version=now)
                known = None
    while heard < now:
        heard += 1
        store.observe(NODES, "MODIFIED", node_body(version=heard))
    assert store.deaf_seconds(NODES) == 0


def test_a_watch_that_began_after_the_first_list_is_called_silent_once_a_list_of_its_own_time_was_read(
    store: Store,
) -> None:
    store.replace(NODES, [node_body(version=1)], store.uids(NODES))
    store.begin_watch(NODES)
    for version, is_silent in ((5, False), (9, True)):
        known = store.uids(NODES)
        store.replace(NODES, [store.take(NODES, node_body(version=version))], known)
        assert (store.deaf_seconds(NODES) > 0) == is_silent


def test_an_object_without_content_is_never_stored(store: Store) -> None:
    """It was deleted while the list was read, and its deletion is not remembered any more."""
    body = inference_deployment_body("a", version=5)
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", body)
    slim = store.only_if_new(INFERENCE_DEPLOYMENTS, body)
    store.replace(INFERENCE_DEPLOYMENTS, [])
    store.replace(INFERENCE_DEPLOYMENTS, [slim])
    assert store.get(INFERENCE_DEPLOYMENTS, key_of(body)) is None


def test_a_list_that_lost_most_is_believed_only_the_second_time(store: Store) -> None:
    many = [pod_body(f"p{index}") for index in range(2 * VANISH_GUARD + 2)]
    store.replace(PODS, many)
    assert not store.replace(PODS, [])
    assert len(store.all(PODS)) == len(many)
    assert store.replace(PODS, [])
    assert store.all(PODS) == ()


def test_a_list_between_two_short_ones_ends_the_doubt(store: Store) -> None:
    many = [pod_body(f"p{index}") for index in range(2 * VANISH_GUARD + 2)]
    store.replace(PODS, many)
    assert not store.replace(PODS, [])
    assert store.replace(PODS, many)
    assert not store.replace(PODS, [])


def test_few_losses_are_believed_at_once(store: Store) -> None:
    store.replace(PODS, [pod_body(f"p{index}") for index in range(VANISH_GUARD)])
    assert store.replace(PODS, [])
    assert store.all(PODS) == ()


def test_a_heartbeat_wakes_nobody_and_a_lost_node_does(store: Store, bell: Bell) -> None:
    store.observe(NODES, "ADDED", node_body(version=1))
    rings = bell.rings
    store.observe(NODES, "MODIFIED", node_body(version=2, beat="03:00:10"))
    assert bell.rings == rings
    assert version(store, NODES, ObjectKey("", "h100-0")) == 2
    store.observe(NODES, "MODIFIED", node_body(version=3, ready="Unknown"))
    assert bell.rings == rings + 1


def test_managed_fields_alone_wake_nobody(store: Store, bell: Bell) -> None:
    body = inference_deployment_body(version=1)
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", body)
    later = inference_deployment_body(version=2)
    later["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", later)
    assert bell.rings == 1


def test_a_namesake_that_looks_the_same_does_wake(store: Store, bell: Bell) -> None:
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(uid="old"))
    store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(uid="new"))
    assert bell.rings == 2


def test_a_pod_that_takes_nothing_of_a_node_and_is_not_ours_is_not_kept(store: Store, bell: Bell) -> None:
    for name, node, phase in (("unbound", None, "Pending"), ("ended", "h100-0", "Succeeded")):
        plain = pod_body(name, phase=phase)
        plain["metadata"]["labels"] = {"app": "web"}
        plain["spec"]["nodeName"] = node
        store.observe(PODS, "ADDED", plain)
    assert store.all(PODS) == ()
    assert bell.rings == 0
    store.observe(PODS, "ADDED", pod_body("ours", version=4))
    ended = pod_body("ours", version=5, phase="Failed")
    ended["metadata"]["labels"] = {}
    store.observe(PODS, "MODIFIED", ended)
    assert store.all(PODS) == ()


def test_nothing_is_complete_before_every_kind_was_listed(store: Store) -> None:
    assert not store.is_complete()
    store.replace(INFERENCE_DEPLOYMENTS, [])
    store.replace(NODES, [])
    assert not store.is_complete()
    store.replace(PODS, [])
    assert store.is_complete()
    age = store.list_age_seconds(PODS)
    assert age is not None
    assert age >= 0
    assert store.kinds == (INFERENCE_DEPLOYMENTS, NODES, PODS)
