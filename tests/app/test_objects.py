"""One InferenceDeployment as the store shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from plimsoll.adapters.cluster import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS
from plimsoll.app import pruning
from plimsoll.app.objects import Surroundings, pool_views, read_pools, surroundings_of, wanted_replicas
from plimsoll.app.record.reading import Record, read
from plimsoll.app.store import Store
from plimsoll.domain.engine_failures import StartFailure
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.outcomes import Split, Target
from plimsoll.placement.pools import Pool, PoolState
from plimsoll.placement.rehoming import of_last_hour
from tests.support.bodies import POOL, inference_deployment_body, pod_body, workload_body

KEY = ObjectKey("ns", "llama")
NOW = datetime(2026, 11, 21, 3, 1, tzinfo=UTC).timestamp()
GRACE_SECONDS = 10.0
RECORDED: dict[str, Any] = {
    "name": POOL,
    "gpuType": "h100-sxm-80gb",
    "tensorParallel": 1,
    "nodeSelector": {"nvidia.com/gpu.product": "H100"},
    "resource": "nvidia.com/gpu",
    "state": "Retiring",
    "generation": 3,
    "replicas": 2,
}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T03:00:30Z"}


@pytest.fixture
def store() -> Store:
    kinds = {INFERENCE_DEPLOYMENTS: pruning.whole, PODS: pruning.pod, DEPLOYMENTS: pruning.whole}
    filled = Store(kinds, lambda: None)
    filled.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body())
    return filled


def around(store: Store) -> Surroundings:
    return surroundings_of(store.picture())[KEY]


def pools(store: Store, *recorded: dict[str, Any]) -> tuple[Pool, ...]:
    record = read({"pools": [{**entry, "readyReplicas": 0} for entry in recorded]})
    return read_pools(record, around(store), wanted=5, now=NOW, grace_seconds=GRACE_SECONDS)


def unschedulable(since: str) -> dict[str, Any]:
    message = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {a: b}."
    failed = {"type": "PodScheduled", "status": "False", "lastTransitionTime": since, "message": message}
    return {"phase": "Pending", "conditions": [failed]}


def test_pods_and_workloads_are_found_by_label_and_owner(store: Store) -> None:
    store.observe(PODS, "ADDED", pod_body("one"))
    store.observe(PODS, "ADDED", pod_body("other", owner="somebody-else"))
    store.observe(DEPLOYMENTS, "ADDED", workload_body())
    assert [pod.name for pod in around(store).pods[POOL]] == ["one"]
    assert list(around(store).workloads) == [POOL]


def test_what_a_deleted_namesake_left_is_not_counted(store: Store) -> None:
    store.observe(DEPLOYMENTS, "ADDED", workload_body(uid="of-the-namesake"))
    older = pod_body("older")
    older["metadata"]["creationTimestamp"] = "2026-11-21T02:59:59Z"
    store.observe(PODS, "ADDED", older)
    assert around(store).workloads == {}
    assert around(store).pods == {}


def test_ended_pods_are_gone(store: Store) -> None:
    store.observe(PODS, "ADDED", pod_body("done", phase="Failed"))
    assert around(store).pods == {}


def test_a_recorded_pool_is_read_back_whole(store: Store) -> None:
    store.observe(DEPLOYMENTS, "ADDED", workload_body())
    store.observe(PODS, "ADDED", pod_body("ready", conditions=[READY]))
    store.observe(PODS, "ADDED", pod_body("starting"))
    assert pools(store, RECORDED) == (
        Pool(
            name=POOL,
            target=Target("h100-sxm-80gb", Split(1), ("nvidia.com/gpu.product", "H100"), "nvidia.com/gpu"),
            state=PoolState.RETIRING,
            generation=3,
            replicas=2,
            bound=2,
            ready=1,
        ),
    )


def test_the_step_of_a_pool_s_engines_is_remembered(store: Store) -> None:
    [pool] = pools(store, RECORDED | {"batchedTokens": 2048})
    assert pool.batched_tokens == 2048


def test_a_pool_whose_engines_fail_for_memory_is_too_large_unless_one_serves(store: Store) -> None:
    ended = {"terminated": {"message": "CUDA out of memory. Tried to allocate 2.00 GiB", "exitCode": 1}}
    broken = [{"name": "engine", "restartCount": 3, "lastState": ended, "state": {"waiting": {}}}]
    store.observe(PODS, "ADDED", pod_body("broken", containerStatuses=broken))
    [pool] = pools(store, RECORDED)
    assert pool.too_large
    store.observe(PODS, "ADDED", pod_body("ready", conditions=[READY]))
    [pool] = pools(store, RECORDED)
    assert not pool.too_large


def test_a_pool_that_has_served_under_its_spec_is_not_left_for_an_old_crash(store: Store) -> None:
    ended = {"terminated": {"message": "CUDA out of memory. Tried to allocate 2.00 GiB", "exitCode": 1}}
    blinking = [{"name": "engine", "restartCount": 1, "lastState": ended, "state": {"running": {}}}]
    store.observe(PODS, "ADDED", pod_body("blinking", containerStatuses=blinking))
    assert [pool.too_large for pool in pools(store, {**RECORDED, "served": True})] == [False]
    assert [pool.too_large for pool in pools(store, RECORDED)] == [True]


def test_the_view_of_a_pool_shows_the_failure_with_the_most_restarts(store: Store) -> None:
    def crashed(name: str, restarts: int, message: str) -> None:
        ended = {"terminated": {"message": message, "exitCode": 1}}
        container = {"name": "engine", "restartCount": restarts, "lastState": ended, "state": {"waiting": {}}}
        store.observe(PODS, "ADDED", pod_body(name, containerStatuses=[container]))

    store.observe(PODS, "ADDED", pod_body("ready", conditions=[READY]))
    [fine] = pool_views(around(store), Record(), {})
    assert (fine.failure, fine.restarts) == (None, 0)
    crashed("once", 1, "No available memory for the cache blocks.")
    crashed("often", 4, "CUDA out of memory. Tried to allocate 2.00 GiB")
    [view] = pool_views(around(store), Record(), {})
    assert view.failure is not None
    assert (view.failure.reason, view.restarts) == (StartFailure.OUT_OF_MEMORY, 4)
    assert (view.pods, view.ready) == (3, 1)


def test_a_pool_without_a_workload_exists_on_record_only(store: Store) -> None:
    [pool] = pools(store, RECORDED)
    assert not pool.exists


def test_a_workload_that_no_status_speaks_of_tells_itself_what_it_is(store: Store) -> None:
    store.observe(DEPLOYMENTS, "ADDED", workload_body(replicas=3))
    [pool] = pools(store)
    assert (pool.gpu_type, pool.split, pool.replicas) == ("h100-sxm-80gb", Split(1), 3)
    assert pool.state is PoolState.ACTIVE
    assert pool.exists


@pytest.mark.parametrize(("since", "stranded"), [("2026-11-21T03:00:49Z", 1), ("2026-11-21T03:00:55Z", 0)])
def test_a_pod_without_a_node_is_stranded_after_the_grace_period(store: Store, since: str, stranded: int) -> None:
    store.observe(PODS, "ADDED", pod_body("waits", **unschedulable(since)))
    [pool] = pools(store, RECORDED)
    assert pool.stranded == stranded


def test_nobody_is_stranded_while_a_pod_of_the_pool_is_leaving(store: Store) -> None:
    store.observe(PODS, "ADDED", pod_body("waits", **unschedulable("2026-11-21T03:00:00Z")))
    leaving = pod_body("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T03:00:59Z"
    store.observe(PODS, "ADDED", leaving)
    [pool] = pools(store, RECORDED)
    assert (pool.stranded, pool.bound) == (0, 2)


CPU = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."


def refusing(since: str) -> dict[str, Any]:
    body = workload_body()
    failed = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": since, "message": "exceeded quota"}
    body["status"] = {"conditions": [failed]}
    return body


def test_a_pod_that_waits_for_something_else_is_stuck_and_not_stranded(store: Store) -> None:
    waits = unschedulable("2026-11-21T03:00:00Z")
    waits["conditions"][0]["message"] = CPU
    store.observe(PODS, "ADDED", pod_body("waits", **waits))
    [pool] = pools(store, RECORDED)
    assert (pool.stranded, pool.stuck, pool.obstacle) == (0, 1, "")


def test_a_stranded_pool_knows_what_the_scheduler_has_against_it(store: Store) -> None:
    store.observe(PODS, "ADDED", pod_body("waits", **unschedulable("2026-11-21T03:00:00Z")))
    [pool] = pools(store, RECORDED)
    assert (pool.stranded, pool.stuck, pool.obstacle) == (1, 0, "InsufficientGpus")


@pytest.mark.parametrize(("since", "over"), [("2026-11-21T02:59:59Z", True), ("2026-11-21T03:00:01Z", False)])
def test_pods_that_are_refused_for_a_minute_have_no_promise_any_more(
    store: Store,
    since: str,
    over: bool,  # noqa: FBT001 - a table's column
) -> None:
    store.observe(DEPLOYMENTS, "ADDED", refusing(since))
    store.observe(PODS, "ADDED", pod_body("one"))
    [pool] = pools(store, RECORDED)
    assert (pool.uncreated, pool.refused, pool.promise_over) == (1, True, over)


def test_pods_that_nobody_refuses_are_promised_however_long_they_take(store: Store) -> None:
    store.observe(DEPLOYMENTS, "ADDED", workload_body())
    [pool] = pools(store, RECORDED)
    assert (pool.uncreated, pool.refused, pool.promise_over) == (2, False, False)


@pytest.mark.parametrize(("seconds", "over"), [(61, True), (59, False)])
def test_so_it_is_where_the_workload_itself_is_refused(
    store: Store,
    seconds: int,
    over: bool,  # noqa: FBT001 - a table's column
) -> None:
    record = read({"pools": [{**RECORDED, "readyReplicas": 0}]})
    seen = around(store)
    [pool] = read_pools(
        record, seen, wanted=5, now=NOW, grace_seconds=GRACE_SECONDS, refused_since={POOL: NOW - seconds}
    )
    assert (pool.refused, pool.promise_over) == (True, over)


def test_where_it_was_re_homed_from_is_read_back_for_an_hour() -> None:
    entry = {"gpuType": "l4-24gb", "tensorParallel": 2, "at": "2026-11-21T03:00:00Z", "reason": "NodesUnavailable"}
    recorded = read({"rehomings": [entry]}).rehomings
    [seen] = of_last_hour(recorded, NOW)
    assert (seen.place, seen.at, seen.reason) == (("l4-24gb", Split(2)), NOW - 60, "NodesUnavailable")
    assert of_last_hour(recorded, NOW + 3600) == ()


def test_how_many_are_wanted_is_the_user_s_number_or_the_live_loop_s_where_it_may_change_it() -> None:
    loop = {"decision": "Keep", "reason": "R", "message": "", "baseReplicas": 2, "targetReplicas": 4}
    for mode, wanted in (("Auto", 4), ("Recommend", 2)):
        spec = {"replicas": 2, "rebalancing": {"mode": mode}}
        assert wanted_replicas(inference_deployment_body(spec=spec, status={"rebalancing": loop})) == wanted
