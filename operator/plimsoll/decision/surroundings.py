"""One InferenceDeployment as the store shows it: its pods by pool, its decided pools, and complaints about others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from plimsoll.api.v1alpha1 import PoolStatus, ScaleOwner
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.engines.failures import (
    ACCEPTED_SECONDS,
    OF_NODE,
    EngineFailure,
    PodRejection,
    is_rejecting,
    last_of,
    rejection_words,
    tries_again_at,
)
from plimsoll.domain.requests.routing import RouterView
from plimsoll.domain.units import from_rfc3339
from plimsoll.engines.registry import started_by
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.facts.cluster.scheduler_words import Obstacle, chief_obstacle, may_go_elsewhere, obstacle_words
from plimsoll.placement.demands.pools import Pool, PoolState
from plimsoll.status.record.places import MOST_REPLICAS
from plimsoll.status.record.reading import Body, Record, record_of
from plimsoll.status.record.report import PoolView
from plimsoll.status.record.workload_trust import drain_of, engine_in, target_of

PROMISE_SECONDS = 60
"""How long GPUs stay reserved for refused pods: a person may fix the policy or the quota, or may not."""

CERTAIN_RESTARTS, CERTAIN_SECONDS = 2, 60.0
"""A place is left after so many restarts there, or a failure after so long: memory that another process holds is often
that of a pod that has just ended."""

ENDING_SECONDS = 30.0
"""How long after its grace period a pod that is being deleted counts as ending."""

_NEVER_REFUSED: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The ``pods`` and ``workloads`` (Deployments) of one object, by pool name.

    ``complaints`` name objects that carry its labels but do not belong to it, and say why each is ignored.
    ``rejections`` are the pods by pool that kubelets have rejected. ``jobs`` are the Jobs that copy weights, by name.
    ``router`` is the router as it runs, and ``of_router`` are the objects that it has, whether they are wanted or not.
    ``rival`` is the field with a pool or host name that another object of the namespace has, its value and the fix.
    ``pool_fault`` says why the InferencePool that the spec names can hold no queue, and the fix; empty if it may.
    """

    pods: Mapping[str, tuple[PodFacts, ...]]
    workloads: Mapping[str, Body]
    complaints: tuple[str, ...] = ()
    rejections: Mapping[str, tuple[PodRejection, ...]] = field(default_factory=dict)
    jobs: Mapping[str, Body] = field(default_factory=dict)
    router: RouterView = field(default_factory=RouterView)
    of_router: tuple[Body, ...] = ()
    rival: tuple[str, str, str] | None = None
    pool_fault: str = ""

    def rejecting(self, pool: str, replicas: int, now: float, avoids: Collection[str] = ()) -> tuple[PodRejection, ...]:
        """Return the rejections of a pool's pods within the last hour, if the next pod probably is rejected, too.

        Those before a pod that has come up count no longer, nor those by nodes that the pool avoids.
        """
        served_since = (pod.bound_since for pod in self.pods.get(pool, ()) if pod.ready and pod.bound_since is not None)
        accepted = max(served_since, default=float("-inf"))
        known = (each for each in self.rejections.get(pool, ()) if each.at > accepted and each.node not in avoids)
        found = last_of(known, now)
        return found if is_rejecting(found, replicas) else ()

    def accepted(self, pool: str, now: float) -> int:
        """Return how many pods of a pool a kubelet has accepted, as far as that can be known by now."""
        return sum(_is_accepted(pod, now) for pod in self.pods.get(pool, ()))

    def ready_pods(self) -> tuple[PodFacts, ...]:
        """Return the ready pods of all pools."""
        return tuple(pod for pods in self.pods.values() for pod in pods if pod.ready)

    def starting_since(self, pool: str) -> float | None:
        """Return since when the oldest of a pool's pods without service starts, in POSIX seconds; None: there is none.

        A pod without a node counts from the moment when the scheduler found none.
        """
        pods = (pod for pod in self.pods.get(pool, ()) if not (pod.ready or pod.terminating))
        times = (pod.bound_since if pod.unscheduled_since is None else pod.unscheduled_since for pod in pods)
        return min((since for since in times if since is not None), default=None)


def wanted_replicas(body: Body) -> int:
    """The total replicas that the object wants: the user's number, the planner's, or what the live loop made of it.

    A load of all replicas together needs at most one replica for each request.
    """
    spec = body.get("spec") or {}
    stated = spec.get("replicas")
    number = stated if isinstance(stated, int) else 1
    loop, size = record_of(body).status.rebalancing, record_of(body).status.size
    total = spec.get("totalConcurrency")
    if isinstance(total, int):
        number = total if size is None else size.replicas
    is_external = (spec.get("rebalancing") or {}).get("scale") == ScaleOwner.EXTERNAL.value
    is_ours = loop is not None and not is_external and loop.base_replicas == number
    target = loop.target_replicas if loop is not None and is_ours else None
    return max(0, min(MOST_REPLICAS, number if target is None else target))


def read_pools(
    record: Record,
    around: Surroundings,
    *,
    wanted: int,
    now: float,
    grace_seconds: float,
    refused_since: Mapping[str, float] = _NEVER_REFUSED,
) -> tuple[Pool, ...]:
    """Return the pools as decided, with the state of their pods.

    The status is the record of decisions: a workload that it does not list is a leftover. If the status was lost, or
    one of its entries is unusable, the pool is read from the workload's annotation instead.

    Args:
        record: the usable part of the status.
        around: the object's pods and workloads.
        wanted: the upper limit for a pool's replicas when it is read from its workload, because anyone can scale that.
        now: POSIX seconds.
        grace_seconds: how long a pod may be without a node before it counts as stranded.
        refused_since: when the API server began to refuse a pool's own workload, by pool, in POSIX seconds.
    """
    recorded = list(record.pools)
    if not recorded or record.lost_pools:
        known = {pool.name for pool in recorded}
        unknown = sorted((pool, body) for pool, body in around.workloads.items() if pool not in known)
        recorded += [_from_workload(pool, body, wanted) for pool, body in unknown]
    return tuple(_with_pods(pool, around, now, grace_seconds, refused_since.get(pool.name)) for pool in recorded)


def _from_workload(name: str, body: Body, wanted: int) -> Pool:
    return Pool(
        name=name,
        target=target_of(body),
        state=PoolState.ACTIVE,
        generation=0,
        replicas=max(0, min(wanted, int((body.get("spec") or {}).get("replicas") or 0))),
        drain_seconds=drain_of(body),
        engine=engine_in(body),
    )


def _with_pods(pool: Pool, around: Surroundings, now: float, grace_seconds: float, unmade_since: float | None) -> Pool:
    pods, shape = around.pods.get(pool.name, ()), pool.split.shape
    leaving = any(_is_ending(pod, now) for pod in pods)
    unscheduled = [
        pod
        for pod in pods
        if pod.unscheduled_since is not None
        and not pod.terminating
        and now - pod.unscheduled_since > grace_seconds
        and not pod.is_gated
    ]
    stranded = [] if leaving else [pod for pod in unscheduled if may_go_elsewhere(pod.obstacles)]
    failing = [] if leaving else [pod for pod in pods if fails_there(pod, now) and pod.node not in pool.target.avoids]
    rejections = around.rejecting(pool.name, pool.replicas, now, pool.target.avoids)
    rejected = 0
    if rejections:
        rejected = max(0, pool.replicas - shape.replicas_of(around.accepted(pool.name, now) + len(unscheduled)))
    refused_since = unmade_since if unmade_since is not None else _refused_since(around.workloads.get(pool.name))
    return replace(
        pool,
        bound=shape.replicas_of(sum(1 for pod in pods if pod.bound)),
        ready=sum(1 for pod in pods if pod.ready),
        stranded=shape.replicas_with(len(stranded)) + rejected,
        failing=shape.replicas_with(len(failing)),
        bad_nodes=_bad_nodes(rejections if rejected else (), failing),
        stuck=0 if leaving else shape.replicas_with(len(unscheduled) - len(stranded)),
        exists=pool.name in around.workloads,
        too_large=_is_too_large(pool, pods) and not pool.served,
        uncreated=max(0, pool.replicas - shape.replicas_of(len(pods))),
        refused=refused_since is not None,
        promise_over=refused_since is not None and now - refused_since > PROMISE_SECONDS,
        obstacle=_obstacle(stranded, failing, rejected),
        claim=None if rejected else min((pod.need for pod in (*stranded, *failing)), default=None),
        gated=shape.replicas_with(sum(1 for pod in pods if pod.is_gated and not pod.terminating)),
    )


def fails_there(pod: PodFacts, now: float) -> bool:
    """Whether a pod has a node where its engine cannot run, and not only a bad moment."""
    if pod.failure is None or not pod.failure.is_of_place or pod.ready or pod.terminating or not pod.bound:
        return False
    return pod.restarts >= CERTAIN_RESTARTS or now >= (pod.bound_since or now) + CERTAIN_SECONDS


def _bad_nodes(rejections: Sequence[PodRejection], failing: Sequence[PodFacts]) -> tuple[tuple[str, str], ...]:
    """Return the nodes that pods should leave, each with the cause, if another node of the type may do."""
    found = {each.node: Obstacle.REJECTED.value for each in rejections}
    for pod in failing:
        if pod.failure is not None and pod.failure.reason in OF_NODE:
            found[pod.node] = pod.failure.reason.value
    return tuple(sorted(found.items()))


def _obstacle(stranded: Sequence[PodFacts], failing: Sequence[PodFacts], rejected: int) -> str:
    if rejected:
        return Obstacle.REJECTED.value
    if stranded:
        return chief_obstacle(each for pod in stranded for each in pod.obstacles).value
    return next((pod.failure.reason.value for pod in failing if pod.failure is not None), "")


def held_back(around: Surroundings, pool: Pool, now: float) -> int | None:
    """Return how many replicas a pool may have now, because kubelets reject its pods; None: as many as it wants."""
    rejections = around.rejecting(pool.name, pool.replicas, now, pool.target.avoids)
    if tries_again_at(rejections) <= now:
        return None
    return pool.split.shape.replicas_of(around.accepted(pool.name, now))


def _is_accepted(pod: PodFacts, now: float) -> bool:
    since = pod.bound_since
    return pod.bound and not pod.terminating and (pod.ready or since is None or now - since >= ACCEPTED_SECONDS)


def _is_ending(pod: PodFacts, now: float) -> bool:
    """Whether a pod gives its GPUs back soon. On a node that is lost it never ends: nobody there confirms it."""
    return pod.terminating and pod.bound and (pod.gone_by is None or now <= pod.gone_by + ENDING_SECONDS)


def _refused_since(workload: Body | None) -> float | None:
    """When the API server began to refuse the workload's pods; None while it does not."""
    condition = _replica_failure(workload)
    return None if condition is None else from_rfc3339(str(condition.get("lastTransitionTime")))


def engine_of_pod(pod: PodFacts, pool: Pool) -> str:
    """Return the name of the engine that a pod runs: the one that it was started with, else that of its pool.

    They differ while the pool's Deployment has not replaced the pod yet.
    """
    engine = started_by(pod.command)
    return pool.engine if engine is None else engine.name


def memory_failure(pool: Pool, pods: Iterable[PodFacts]) -> EngineFailure | None:
    """Return how memory ran out in a pod with the pool's engine; None if it did in none."""
    failures = (pod.failure for pod in pods if engine_of_pod(pod, pool) == pool.engine)
    return next((failure for failure in failures if failure is not None and failure.is_about_memory), None)


def _is_too_large(pool: Pool, pods: Sequence[PodFacts]) -> bool:
    return not any(pod.ready for pod in pods) and memory_failure(pool, pods) is not None


def pool_views(
    around: Surroundings,
    record: Record,
    reported: Mapping[str, int],
    silent: Collection[str] = (),
    *,
    in_host: Mapping[str, int] = MappingProxyType({}),
    now: float,
) -> tuple[PoolView, ...]:
    """The state of each pool's pods, for the status.

    ``reported`` holds the engines' KV tokens by pool, ``in_host`` those that they keep in host memory, ``record`` the
    predicted ones. ``silent`` are the pools whose engines report no size of their KV cache. ``now`` is in POSIX
    seconds.
    """
    recorded = {entry.name: entry for entry in record.status.pools or ()}
    names = sorted({*around.pods, *around.workloads, *around.rejections})
    views = (_view(name, around, reported.get(name), in_host.get(name), recorded.get(name)) for name in names)
    views = (_rejecting(view, around, recorded.get(view.name), now) for view in views)
    return tuple(replace(view, hides_cache=True) if view.name in silent else view for view in views)


def _view(
    name: str, around: Surroundings, reported: int | None, in_host: int | None, recorded: PoolStatus | None
) -> PoolView:
    pods = [pod for pod in around.pods.get(name, ()) if not pod.terminating]
    failed = max((pod for pod in pods if pod.failure is not None), key=lambda pod: pod.restarts, default=None)
    waiting = sorted((pod for pod in pods if not pod.bound), key=lambda pod: pod.is_gated)
    queued = [pod for pod in waiting if pod.is_gated and pod.queue]
    return PoolView(
        name=name,
        pods=len(pods),
        ready=sum(1 for pod in pods if pod.ready),
        unbound=len(waiting),
        scheduler_message=next((pod.scheduler_message for pod in waiting if pod.scheduler_message), ""),
        waits_for=next((obstacle_words(pod.obstacles) for pod in waiting if pod.scheduler_message), ""),
        failure=None if failed is None else failed.failure,
        failed_on=None if failed is None else failed.node,
        restarts=0 if failed is None else failed.restarts,
        workload_error=workload_error(around.workloads.get(name)),
        kv_tokens_reported=reported,
        host_tokens_reported=in_host,
        engine=DEFAULT_ENGINE if recorded is None else recorded.engine or DEFAULT_ENGINE,
        kv_tokens_predicted=None if recorded is None else recorded.kv_tokens_predicted,
        predicted_at_generation=None if recorded is None else recorded.generation,
        served=recorded is not None and bool(recorded.served),
        updating=is_updating(around.workloads.get(name)),
        starting_since=around.starting_since(name),
        queued=len(queued),
        queue=queued[0].queue if queued else "",
    )


def _rejecting(view: PoolView, around: Surroundings, recorded: PoolStatus | None, now: float) -> PoolView:
    replicas, avoids = (1, ()) if recorded is None else (recorded.replicas, recorded.avoided_nodes or ())
    rejections = around.rejecting(view.name, replicas, now, avoids)
    if not rejections:
        return view
    accepted, next_try = around.accepted(view.name, now), tries_again_at(rejections)
    return replace(view, rejected=rejection_words(rejections), accepted=accepted, next_try=next_try)


def is_updating(body: Body | None) -> bool:
    """Whether the Deployment controller has not seen the last change yet, or not replaced all pods yet.

    If the new pods start first, all of them may exist while an old one still serves in the place of one.
    """
    if body is None:
        return False
    status, wanted = body.get("status") or {}, (body.get("spec") or {}).get("replicas") or 0
    unseen = int(status.get("observedGeneration") or 0) < int(body["metadata"].get("generation") or 0)
    updated, existing = (int(status.get(name) or 0) for name in ("updatedReplicas", "replicas"))
    return unseen or updated < wanted or updated < existing


def workload_error(body: Body | None) -> str:
    """The error for pods that the ReplicaSet could not create: quota, admission, a bad template."""
    return str((_replica_failure(body) or {}).get("message") or "")


def _replica_failure(body: Body | None) -> Body | None:
    conditions = ((body or {}).get("status") or {}).get("conditions") or ()
    failures = (each for each in conditions if each.get("type") == "ReplicaFailure" and each.get("status") == "True")
    return next(failures, None)
