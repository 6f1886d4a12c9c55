"""What is kept of objects that come in by the hundred thousand."""

from __future__ import annotations

from plimsoll.app import pruning
from plimsoll.facts.cluster.quota_reading import read_quotas
from tests.support.bodies import Body, pod_body

GPUS = "requests.nvidia.com/gpu"


def plain(name: str) -> Body:
    body = pod_body(name)
    body["metadata"]["labels"] = {"app": "web"}
    body["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]
    return body


def test_of_a_pod_without_gpus_its_identity_its_node_and_two_sums_are_kept() -> None:
    kept = pruning.pod(plain("web"))
    assert kept == {
        "metadata": {"name": "web", "namespace": "ns", "uid": "pod-web", "resourceVersion": "1"},
        "spec": {"nodeName": "h100-0"},
        "requests": {"cpu": 100, "memory": 64 * 2**20},
    }


def test_equal_parts_of_many_pods_are_one_object() -> None:
    one, other = pruning.pod(plain("a")), pruning.pod(plain("b"))
    assert one is not None
    assert other is not None
    assert one["spec"] is other["spec"]
    assert one["requests"] is other["requests"]


def test_who_made_a_pod_is_kept_of_ours_alone() -> None:
    ours, foreign = pod_body("ours"), pod_body("foreign")
    foreign["metadata"]["labels"] = {}
    foreign["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    kept, other = pruning.pod(ours), pruning.pod(foreign)
    assert kept is not None
    assert other is not None
    [reference] = kept["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["controller"]) == ("ReplicaSet", True)
    assert "ownerReferences" not in other["metadata"]
    assert not pruning.is_plain(kept)
    assert not pruning.is_plain(other)


def test_of_a_quota_only_what_it_says_of_gpus_is_kept_and_others_are_not() -> None:
    head = {"name": "q", "namespace": "ns", "uid": "q", "resourceVersion": "1", "labels": {"a": "b"}}
    body = {
        "metadata": head,
        "spec": {"hard": {GPUS: "8", "pods": "9"}},
        "status": {"hard": {GPUS: "8", "pods": "9"}, "used": {GPUS: "3", "pods": "4"}},
    }
    kept = pruning.quota(body)
    assert kept is not None
    assert kept["status"] == {"used": {GPUS: "3"}}
    assert read_quotas([kept]) == read_quotas([body])
    assert pruning.quota({**body, "spec": {"hard": {"pods": "9"}}}) is None
