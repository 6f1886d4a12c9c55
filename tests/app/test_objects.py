"""One InferenceDeployment as the store shows it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS
from plimsoll.adapters.cluster.kinds import JOBS
from plimsoll.app.reading.gathering import surroundings_of
from plimsoll.app.watch import pruning
from plimsoll.app.watch.store import Body, Store
from plimsoll.decision.surroundings import (
    Surroundings,
    held_back,
    is_updating,
    pool_views,
    read_pools,
    wanted_replicas,
)
from plimsoll.domain.decisions.outcomes import ReplicaShape, Split, Target
from plimsoll.domain.engines.failures import OF_NODE, StartFailure
from plimsoll.domain.kubernetes_names import QUEUE_LABEL, ObjectKey
from plimsoll.domain.requests.routing import RouterView
from plimsoll.engines.failures import read_failure
from plimsoll.facts.cluster.pod_reading import PodFacts, read_pod
from plimsoll.placement.demands.pools import Pool, PoolState
from plimsoll.placement.demands.rehoming import of_last_hour
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL
from plimsoll.status.record.reading import Record, read
from testbed.broken_node import LAST_WORDS
from testbed.rejecting_kubelet import REASONS
from tests.support.bodies import POOL, inference_deployment_body, pod_body, workload_body
from tests.support.tables import every_case

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
    kinds = {
        INFERENCE_DEPLOYMENTS: pruning.whole,
        PODS: pruning.pod,
        **dict.fromkeys((DEPLOYMENTS, JOBS), pruning.whole),
    }
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
    assert pool.limits.step_tokens == 2048


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
    [fine] = pool_views(around(store), Record(), {}, now=NOW)
    assert (fine.failure, fine.restarts) == (None, 0)
    crashed("once", 1, "No available memory for the cache blocks.")
    crashed("often", 4, "CUDA out of memory. Tried to allocate 2.00 GiB")
    [view] = pool_views(around(store), Record(), {}, now=NOW)
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


def test_a_pod_that_never_ends_on_a_lost_node_keeps_nobody_waiting(store: Store) -> None:
    """Nobody there confirms its end. ``deletionTimestamp`` is when its grace period is over."""
    store.observe(PODS, "ADDED", pod_body("waits", **unschedulable("2026-11-21T03:00:00Z")))
    dead = pod_body("dead")
    dead["metadata"]["deletionTimestamp"] = "2026-11-21T03:00:29Z"
    store.observe(PODS, "ADDED", dead)
    [pool] = pools(store, RECORDED)
    assert (pool.stranded, pool.bound) == (1, 2)


def test_gpus_are_kept_for_a_pod_behind_a_gate(store: Store) -> None:
    """Whoever removes the gate, such as a queue, does so for these GPUs."""
    gated = unschedulable("2026-11-21T03:00:00Z")
    gated["conditions"][0] |= {"reason": "SchedulingGated", "message": "Scheduling is blocked"}
    store.observe(PODS, "ADDED", pod_body("gated", **gated))
    [pool] = pools(store, RECORDED)
    assert (pool.stranded, pool.stuck, pool.bound) == (0, 0, 1)


def broken(name: str, cause: str, *, restarts: int = 2, bound: str = "2026-11-21T03:00:50Z") -> dict[str, Any]:
    ended = {"terminated": {"message": LAST_WORDS[cause], "exitCode": 1}}
    container = {"name": "engine", "restartCount": restarts, "lastState": ended, "state": {"waiting": {}}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}
    return pod_body(name, conditions=[scheduled], containerStatuses=[container])


@pytest.mark.parametrize("cause", [*LAST_WORDS])
def test_a_pod_whose_node_or_type_is_to_blame_may_leave_it(store: Store, cause: str) -> None:
    store.observe(PODS, "ADDED", broken("broken", cause))
    [pool] = pools(store, RECORDED)
    assert (pool.failing, pool.stranded, pool.bound, pool.obstacle) == (1, 0, 1, cause)
    assert pool.bad_nodes == ((("h100-0", cause),) if cause in OF_NODE else ())
    assert pool.claim is not None
    [view] = pool_views(around(store), Record(), {}, now=NOW)
    assert view.failed_on == "h100-0"


def test_one_restart_of_a_young_pod_is_no_certain_failure(store: Store) -> None:
    """Memory that another process holds is often that of a pod that has just ended."""
    store.observe(PODS, "ADDED", broken("young", "GpuMemoryHeldByOthers", restarts=1))
    assert pools(store, RECORDED)[0].failing == 0
    store.observe(PODS, "ADDED", broken("old", "GpuMemoryHeldByOthers", restarts=1, bound="2026-11-21T03:00:00Z"))
    assert pools(store, RECORDED)[0].failing == 1


def test_a_crash_that_any_node_would_see_moves_nothing(store: Store) -> None:
    ended = {"terminated": {"message": "KeyError: 'model'", "exitCode": 1}}
    container = {"name": "engine", "restartCount": 9, "lastState": ended, "state": {"waiting": {}}}
    store.observe(PODS, "ADDED", pod_body("broken", containerStatuses=[container]))
    [pool] = pools(store, RECORDED)
    assert (pool.failing, pool.bad_nodes) == (0, ())


def test_a_pod_on_a_node_that_its_pool_avoids_leaves_already(store: Store) -> None:
    store.observe(PODS, "ADDED", broken("broken", "GpuUnusable"))
    [pool] = pools(store, {**RECORDED, "avoidedNodes": ["h100-0"]})
    assert (pool.failing, pool.bad_nodes, pool.target.avoids) == (0, (), ("h100-0",))


def test_while_a_pod_of_the_pool_is_leaving_no_other_is_sent_away(store: Store) -> None:
    store.observe(PODS, "ADDED", broken("broken", "GpuUnusable"))
    leaving = pod_body("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T03:00:59Z"
    store.observe(PODS, "ADDED", leaving)
    assert pools(store, RECORDED)[0].failing == 0


def test_a_container_that_its_runtime_refuses_to_start_has_the_runtimes_words(store: Store) -> None:
    words = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver"
    waiting = {"waiting": {"reason": "RunContainerError", "message": words}}
    container = {"name": "engine", "restartCount": 2, "state": waiting}
    store.observe(PODS, "ADDED", pod_body("refused", containerStatuses=[container]))
    assert pools(store, RECORDED)[0].bad_nodes == (("h100-0", "DriverTooOld"),)


def test_rejections_of_a_node_that_the_pool_avoids_count_no_longer(store: Store) -> None:
    for second in (56, 57, 58, 59):
        store.observe(PODS, "ADDED", rejected(f"pod-{second}", second))
    [pool] = pools(store, RECORDED)
    assert (pool.bad_nodes, held_back(around(store), pool, NOW)) == ((("h100-0", "PodsRejected"),), 0)
    [pool] = pools(store, {**RECORDED, "avoidedNodes": ["h100-0"]})
    assert (pool.bad_nodes, pool.stranded, held_back(around(store), pool, NOW)) == ((), 0, None)


def rejected(name: str, second: int, reason: str = "UnexpectedAdmissionError") -> dict[str, Any]:
    body = pod_body(name, phase="Failed", reason=reason, message=f"Pod was rejected: {REASONS[reason]}")
    body["metadata"]["creationTimestamp"] = f"2026-11-21T03:00:{second:02}Z"
    return body


@pytest.mark.parametrize("reason", [*REASONS])
def test_pods_that_a_kubelet_rejects_are_read_with_its_words_whatever_it_says(store: Store, reason: str) -> None:
    for second in (28, 29, 30):
        store.observe(PODS, "ADDED", rejected(f"pod-{second}", second, reason))
    rejections = around(store).rejecting(POOL, 1, NOW)
    assert [(each.node, each.reason) for each in rejections] == [("h100-0", reason)] * 3
    assert REASONS[reason][:200] in rejections[0].message
    [pool] = pools(store, RECORDED | {"state": "Active", "replicas": 1})
    assert (pool.stranded, pool.obstacle, pool.claim) == (1, "PodsRejected", None)
    [view] = pool_views(around(store), Record(), {}, now=NOW)
    assert "the kubelet of h100-0 has rejected 3 pods" in view.rejected
    assert held_back(around(store), pool, NOW - 25) == 0
    assert held_back(around(store), pool, NOW) is None, "the pause is over"


def test_a_pod_that_waits_for_a_node_is_not_counted_among_those_that_kubelets_reject(store: Store) -> None:
    """Of two replicas one waits for CPU, which no other place is sought for, and the other one is rejected."""
    for second in (27, 28, 29, 30):
        store.observe(PODS, "ADDED", rejected(f"pod-{second}", second))
    waits = unschedulable("2026-11-21T03:00:00Z")
    waits["conditions"][0]["message"] = CPU
    body = pod_body("waits", **waits)
    del body["spec"]["nodeName"]
    store.observe(PODS, "ADDED", body)
    [pool] = pools(store, RECORDED | {"state": "Active", "replicas": 2})
    assert (pool.stranded, pool.stuck) == (1, 1)


def test_a_node_that_shuts_down_ends_all_its_pods_once_and_that_is_no_rejection(store: Store) -> None:
    for number in range(4):
        store.observe(PODS, "ADDED", rejected(f"pod-{number}", 20 + number, "Terminated"))
    [pool] = pools(store, RECORDED | {"replicas": 4})
    assert (pool.stranded, held_back(around(store), pool, NOW)) == (0, None)
    assert around(store).rejecting(POOL, 3, NOW) == ()
    assert len(around(store).rejecting(POOL, 2, NOW)) == 4


def test_two_rejections_hold_nothing_back_and_a_pod_that_came_up_later_ends_them(store: Store) -> None:
    for second in (10, 20):
        store.observe(PODS, "ADDED", rejected(f"pod-{second}", second))
    assert around(store).rejecting(POOL, 1, NOW) == ()
    store.observe(PODS, "ADDED", rejected("pod-25", 25))
    assert len(around(store).rejecting(POOL, 1, NOW)) == 3
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T03:00:29Z"}
    store.observe(PODS, "ADDED", pod_body("runs", conditions=[scheduled, READY]))
    assert around(store).rejecting(POOL, 1, NOW) == ()
    [pool] = pools(store, RECORDED)
    assert (pool.stranded, pool.bound, pool.ready) == (0, 1, 1)


def test_the_pods_that_run_stay_while_others_are_held_back(store: Store) -> None:
    store.observe(PODS, "ADDED", pod_body("runs"))
    for second in (40, 50, 58, 59):
        store.observe(PODS, "ADDED", rejected(f"pod-{second}", second))
    [pool] = pools(store, RECORDED)
    assert held_back(around(store), pool, NOW) == 1
    assert (pool.replicas, pool.bound, pool.stranded) == (2, 1, 1)


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


def test_how_many_are_wanted_is_what_the_live_loop_made_of_the_user_s_number_unless_another_controller_scales() -> None:
    loop = {"decision": "Keep", "reason": "R", "message": "", "baseReplicas": 2, "targetReplicas": 4}
    for given, wanted in (
        ({"mode": "Auto"}, 4),
        ({"mode": "Recommend"}, 4),
        ({"mode": "Off"}, 4),
        ({"mode": "Auto", "scale": "External"}, 2),
        ({"mode": "Auto", "scale": "Plimsoll"}, 4),
    ):
        spec = {"replicas": 2, "rebalancing": given}
        assert wanted_replicas(inference_deployment_body(spec=spec, status={"rebalancing": loop})) == wanted


def test_a_pod_that_cannot_be_read_is_named_and_the_others_of_its_pool_count(store: Store) -> None:
    for name in ("odd", "plain"):
        store.observe(PODS, "ADDED", pod_body(name))

    def fail_on_one(body: Body) -> PodFacts:
        if body["metadata"]["name"] == "odd":
            raise TypeError("no such thing")
        return read_pod(body, read_failure)

    seen = surroundings_of(store.picture(), fail_on_one)[KEY]
    assert [pod.name for pod in seen.pods[POOL]] == ["plain"]
    assert seen.complaints == ("Pod ns/odd cannot be read: TypeError: no such thing",)


def test_a_pod_with_one_of_the_two_labels_belongs_to_no_pool(store: Store) -> None:
    for name, label in (("without-pool", POOL_LABEL), ("without-owner", DEPLOYMENT_LABEL)):
        body = pod_body(name)
        del body["metadata"]["labels"][label]
        store.observe(PODS, "ADDED", body)
        made = workload_body()
        made["metadata"] |= {"name": name, "uid": name}
        made["metadata"]["labels"] = body["metadata"]["labels"]
        store.observe(DEPLOYMENTS, "ADDED", made)
    found = around(store)
    assert replace(found, router=RouterView()) == Surroundings({}, {})


def test_a_pod_that_waits_for_something_else_is_not_stuck_while_another_leaves(store: Store) -> None:
    waits = unschedulable("2026-11-21T03:00:00Z")
    waits["conditions"][0]["message"] = CPU
    store.observe(PODS, "ADDED", pod_body("waits", **waits))
    leaving = pod_body("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T03:00:59Z"
    store.observe(PODS, "ADDED", leaving)
    [pool] = pools(store, RECORDED)
    assert (pool.stranded, pool.stuck) == (0, 0)


def test_a_pod_that_is_deleted_before_it_had_a_node_holds_nothing_up_and_is_not_stranded(store: Store) -> None:
    for name in ("gone", "waits"):
        body = pod_body(name, **unschedulable("2026-11-21T03:00:00Z"))
        del body["spec"]["nodeName"]
        if name == "gone":
            body["metadata"]["deletionTimestamp"] = "2026-11-21T03:00:59Z"
        store.observe(PODS, "ADDED", body)
    [pool] = pools(store, RECORDED)
    assert (pool.stranded, pool.bound) == (1, 0)


@pytest.mark.parametrize(("pod", "workload", "kept"), [
    ("02:59:59", None, False), ("03:00:00", None, True),
    ("02:30:00", "02:00:00", True), ("02:00:00", "02:00:00", True), ("01:59:59", "02:00:00", False), (None, None, True),
])  # fmt: skip
def test_an_older_pod_counts_only_if_its_workload_is_not_newer(
    store: Store, pod: str | None, workload: str | None, *, kept: bool
) -> None:
    body = pod_body("one")
    body["metadata"]["creationTimestamp"] = None if pod is None else f"2026-11-21T{pod}Z"
    store.observe(PODS, "ADDED", body)
    if workload is not None:
        adopted = workload_body()
        adopted["metadata"] |= {"creationTimestamp": f"2026-11-21T{workload}Z", "ownerReferences": []}
        store.observe(DEPLOYMENTS, "ADDED", adopted)
    assert bool(around(store).pods) is kept


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [({}, 1), ({"replicas": "many"}, 1), ({"replicas": 0}, 0), ({"replicas": -3}, 0), ({"replicas": 5000}, 1000)],
    ids=str,
)
def test_how_many_are_wanted_is_a_number_from_0_to_1000_and_1_where_none_is_given(
    spec: dict[str, Any], wanted: int
) -> None:
    assert wanted_replicas(inference_deployment_body(spec=spec)) == wanted


def test_a_target_of_the_live_loop_counts_only_for_the_number_that_it_began_with() -> None:
    loop = {"decision": "Keep", "reason": "R", "message": "", "baseReplicas": 2, "targetReplicas": 4}
    for replicas, wanted in ((2, 4), (3, 3)):
        spec = {"replicas": replicas, "rebalancing": {"mode": "Auto"}}
        assert wanted_replicas(inference_deployment_body(spec=spec, status={"rebalancing": loop})) == wanted
    spec = {"replicas": 2, "rebalancing": {"mode": "Auto"}}
    assert wanted_replicas(inference_deployment_body(spec=spec)) == 2


def test_a_pool_that_is_read_from_its_workload_has_no_generation_and_none_of_replicas_that_are_not_set(
    store: Store,
) -> None:
    body = workload_body()
    del body["spec"]["replicas"]
    store.observe(DEPLOYMENTS, "ADDED", body)
    [pool] = pools(store)
    assert (pool.replicas, pool.generation) == (0, 0)


def test_more_pods_than_replicas_leave_none_to_create(store: Store) -> None:
    for name in ("one", "two", "three"):
        store.observe(PODS, "ADDED", pod_body(name))
    [pool] = pools(store, RECORDED)
    assert (pool.bound, pool.uncreated) == (3, 0)


def test_a_promise_lasts_for_the_whole_sixtieth_second(store: Store) -> None:
    store.observe(DEPLOYMENTS, "ADDED", refusing("2026-11-21T03:00:00Z"))
    [pool] = pools(store, RECORDED)
    assert (pool.refused, pool.promise_over) == (True, False)


def test_a_pod_is_not_stranded_at_the_last_moment_of_its_grace_period(store: Store) -> None:
    store.observe(PODS, "ADDED", pod_body("waits", **unschedulable("2026-11-21T03:00:50Z")))
    [pool] = pools(store, RECORDED)
    assert pool.stranded == 0


def test_the_view_of_a_pool_shows_what_a_waiting_pod_waits_for(store: Store) -> None:
    body = pod_body("waits", **unschedulable("2026-11-21T03:00:00Z"))
    del body["spec"]["nodeName"]
    store.observe(PODS, "ADDED", pod_body("ready", conditions=[READY]))
    store.observe(PODS, "ADDED", body)
    leaving = pod_body("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T03:00:59Z"
    store.observe(PODS, "ADDED", leaving)
    [view] = pool_views(around(store), Record(), {}, now=NOW)
    assert (view.pods, view.ready, view.unbound) == (2, 1, 1)
    assert view.scheduler_message.startswith("0/2 nodes are available: 1 Insufficient nvidia.com/gpu")
    assert "GPU" in view.waits_for


def test_the_view_of_a_pool_that_waits_for_nothing_has_no_words(store: Store) -> None:
    store.observe(PODS, "ADDED", pod_body("starting"))
    [view] = pool_views(around(store), Record(), {}, now=NOW)
    assert (view.pods, view.ready, view.unbound) == (1, 0, 0)
    assert (view.scheduler_message, view.waits_for, view.workload_error, view.served) == ("", "", "", False)
    assert (view.kv_tokens_reported, view.kv_tokens_predicted, view.predicted_at_generation) == (None, None, None)


def test_the_view_of_a_pool_has_the_tokens_that_were_predicted_and_those_that_are_reported(store: Store) -> None:
    store.observe(DEPLOYMENTS, "ADDED", workload_body())
    entry = {**RECORDED, "readyReplicas": 0, "kvTokensPredicted": 500, "served": True}
    [view] = pool_views(around(store), read({"pools": [entry]}), {POOL: 400}, now=NOW)
    assert (view.kv_tokens_reported, view.kv_tokens_predicted, view.predicted_at_generation) == (400, 500, 3)
    assert view.served


def test_the_view_of_a_pool_quotes_why_its_pods_are_not_created_while_it_is_true(store: Store) -> None:
    store.observe(DEPLOYMENTS, "ADDED", refusing("2026-11-21T03:00:00Z"))
    assert [view.workload_error for view in pool_views(around(store), Record(), {}, now=NOW)] == ["exceeded quota"]
    for change in ({"status": "False"}, {"type": "Progressing"}):
        body = refusing("2026-11-21T03:00:00Z")
        body["status"]["conditions"][0] |= change
        assert [view.workload_error for view in pool_views(Surroundings({}, {POOL: body}), Record(), {}, now=NOW)] == [
            ""
        ]


@every_case(
    ("generation", "observed", "wanted", "updated", "updating"),
    [(2, 2, 3, 3, False), (2, 1, 3, 3, True), (2, 2, 3, 2, True), (2, 3, 3, 4, False), (1, None, 0, None, True),
     (None, None, 0, None, False), (None, None, 1, None, True), (None, None, None, None, False)],
)  # fmt: skip
def test_a_workload_is_updating_until_its_controller_has_seen_it_and_replaced_all_pods(
    generation: int | None, observed: int | None, wanted: int | None, updated: int | None, *, updating: bool
) -> None:
    body: dict[str, Any] = {
        "metadata": {} if generation is None else {"generation": generation},
        "spec": {} if wanted is None else {"replicas": wanted},
        "status": {
            name: value
            for name, value in (("observedGeneration", observed), ("updatedReplicas", updated))
            if value is not None
        },
    }
    assert is_updating(body) is updating
    assert is_updating({key: value for key, value in body.items() if value or key == "metadata"}) is updating
    assert not is_updating(None)


@pytest.mark.parametrize(("updated", "existing", "updating"), [(1, 2, True), (1, 1, False), (2, 2, False)])
def test_a_workload_of_one_replica_is_updating_while_an_old_pod_serves_in_the_place_of_the_new_one(
    updated: int, existing: int, *, updating: bool
) -> None:
    status = {"observedGeneration": 1, "updatedReplicas": updated, "replicas": existing}
    assert is_updating({"metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": status}) is updating


def test_a_pool_starts_since_its_oldest_pod_without_service_was_bound_or_found_no_node() -> None:
    serving = PodFacts("a", bound=True, ready=True, ended=False, terminating=False, bound_since=1.0)
    starting = replace(serving, name="b", ready=False, bound_since=70.0)
    waiting = replace(starting, name="c", bound=False, bound_since=None, unscheduled_since=50.0)
    leaving = replace(starting, name="d", terminating=True, bound_since=2.0)
    found = Surroundings({POOL: (serving, starting, leaving), "other": (waiting, starting), "calm": (serving,)}, {})
    times = [found.starting_since(pool) for pool in (POOL, "other", "calm", "none")]
    assert times == [70.0, 50.0, None, None]


def test_pods_of_a_pool_become_replicas_by_the_shape_of_its_split(monkeypatch: pytest.MonkeyPatch) -> None:
    serving = PodFacts("a", bound=True, ready=True, ended=False, terminating=False, bound_since=1.0)
    starting = replace(serving, name="b", ready=False)
    waiting = replace(starting, name="c", bound=False, bound_since=None, unscheduled_since=1.0)
    seen = Surroundings({POOL: (serving, starting, starting, waiting, waiting)}, {})
    record = read({"pools": [{**RECORDED, "readyReplicas": 0, "replicas": 5}]})
    counts: list[tuple[int, ...]] = []
    for pods in (1, 2):
        monkeypatch.setattr(Split, "shape", ReplicaShape(pods, 4))
        [pool] = read_pools(record, seen, wanted=5, now=NOW, grace_seconds=GRACE_SECONDS)
        counts.append((pool.bound, pool.ready, pool.stranded + pool.stuck, pool.uncreated))
    assert counts == [(3, 1, 2, 0), (1, 1, 1, 3)]


def gated(name: str, queue: str, *, ends: bool = False) -> dict[str, Any]:
    """A pod behind a scheduling gate; ``ends`` means that it is being deleted."""
    waits = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "x"}
    body = pod_body(name, phase="Pending", conditions=[waits | {"lastTransitionTime": "2026-11-21T03:00:05Z"}])
    body["metadata"]["labels"][QUEUE_LABEL] = queue
    body["metadata"] |= {"deletionTimestamp": "2026-11-21T03:10:00Z"} if ends else {}
    return {**body, "spec": {**body["spec"], "nodeName": None}}


def test_pods_behind_a_gate_are_counted_with_the_queue_of_the_first_one(store: Store) -> None:
    for body in (gated("a", "team-a"), gated("b", "team-b"), gated("c", "team-a", ends=True), pod_body("runs")):
        store.observe(PODS, "ADDED", body)
    (view,) = pool_views(around(store), read({}), {}, now=NOW)
    assert (view.pods, view.unbound, view.queued, view.queue) == (3, 2, 2, "team-a")
    [pool] = pools(store, RECORDED | {"replicas": 4})
    assert (pool.gated, pool.stranded, pool.stuck, pool.bound) == (2, 0, 0, 1)
