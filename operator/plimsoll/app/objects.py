"""One InferenceDeployment as the store shows it: its pods by pool, its pools as decided, its workloads' complaints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.adapters.cluster import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS
from plimsoll.app.store import Body, Picture
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.outcomes import Split
from plimsoll.facts.pod_reading import PodFacts, read_pod
from plimsoll.placement.pools import Pool, PoolState
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_ANNOTATION, POOL_LABEL
from plimsoll.render.report import PoolView


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What belongs to one object: ``pods`` and ``workloads`` (Deployments) by pool name."""

    pods: Mapping[str, tuple[PodFacts, ...]]
    workloads: Mapping[str, Body]

    def ready_pods(self) -> tuple[PodFacts, ...]:
        """Pods that serve, of every pool."""
        return tuple(pod for pods in self.pods.values() for pod in pods if pod.ready)


def surroundings_of(store: Picture) -> dict[ObjectKey, Surroundings]:
    """The surroundings of every InferenceDeployment, in one sweep."""
    pods: dict[ObjectKey, dict[str, list[PodFacts]]] = {}
    workloads: dict[ObjectKey, dict[str, Body]] = {}
    for body in store.all(PODS):
        owner = _labelled_owner(body)
        if owner is not None and not _is_older(body, store.get(INFERENCE_DEPLOYMENTS, owner[0])):
            facts = read_pod(body)
            if not facts.ended:
                pods.setdefault(owner[0], {}).setdefault(owner[1], []).append(facts)
    for body in store.all(DEPLOYMENTS):
        owner = _labelled_owner(body)
        if owner is not None:
            workloads.setdefault(owner[0], {})[owner[1]] = body
    return {key: _surroundings(key, store, pods, workloads) for key in _keys(store)}


def _keys(store: Picture) -> list[ObjectKey]:
    return [
        ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"]) for body in store.all(INFERENCE_DEPLOYMENTS)
    ]


def _surroundings(
    key: ObjectKey,
    store: Picture,
    pods: Mapping[ObjectKey, Mapping[str, Sequence[PodFacts]]],
    workloads: Mapping[ObjectKey, Mapping[str, Body]],
) -> Surroundings:
    """Workloads of a namesake that was deleted are not ours: the owner's uid tells."""
    owner = store.get(INFERENCE_DEPLOYMENTS, key)
    uid = owner["metadata"]["uid"] if owner else None
    own = {pool: body for pool, body in workloads.get(key, {}).items() if _owner_uid(body) == uid}
    return Surroundings({pool: tuple(found) for pool, found in pods.get(key, {}).items()}, own)


def _labelled_owner(body: Body) -> tuple[ObjectKey, str] | None:
    labels = body["metadata"].get("labels") or {}
    if DEPLOYMENT_LABEL not in labels or POOL_LABEL not in labels:
        return None
    return ObjectKey(body["metadata"]["namespace"], labels[DEPLOYMENT_LABEL]), labels[POOL_LABEL]


def _is_older(pod: Body, owner: Body | None) -> bool:
    """A pod older than its InferenceDeployment is of a namesake that was deleted. RFC 3339 in UTC sorts as text."""
    born = owner["metadata"].get("creationTimestamp") if owner else None
    return bool(born) and str(pod["metadata"].get("creationTimestamp") or born) < str(born)


def _owner_uid(body: Body) -> str | None:
    references = body["metadata"].get("ownerReferences") or ()
    return next((reference.get("uid") for reference in references if reference.get("controller")), None)


def read_pools(
    status: Mapping[str, Any], around: Surroundings, *, now: float, grace_seconds: float
) -> tuple[Pool, ...]:
    """The pools as decided, with what their pods show.

    The status is the record of decisions. A workload of ours that no status speaks of was decided too, and the status
    got lost: its own annotation tells what it is.
    """
    recorded = [_from_status(entry) for entry in status.get("pools") or ()]
    known = {pool.name for pool in recorded}
    recorded += [_from_workload(pool, body) for pool, body in sorted(around.workloads.items()) if pool not in known]
    return tuple(_with_pods(pool, around, now, grace_seconds) for pool in recorded)


def _from_status(entry: Mapping[str, Any]) -> Pool:
    ((key, value),) = entry["nodeSelector"].items()
    return Pool(
        name=entry["name"],
        gpu_type=entry["gpuType"],
        split=split_of(entry),
        selector=(key, value),
        resource=entry["resource"],
        state=PoolState(entry["state"]),
        generation=entry["generation"],
        replicas=entry["replicas"],
        batched_tokens=entry.get("batchedTokens"),
        served=bool(entry.get("served")),
    )


def split_of(entry: Mapping[str, Any]) -> Split:
    """The split that an entry of a status, or a workload's record, tells. One stage where it tells of none."""
    return Split(entry["tensorParallel"], entry.get("pipelineParallel", 1))


def _from_workload(name: str, body: Body) -> Pool:
    record = json.loads(body["metadata"]["annotations"][POOL_ANNOTATION])
    ((key, value),) = record["nodeSelector"].items()
    return Pool(
        name=name,
        gpu_type=record["gpuType"],
        split=split_of(record),
        selector=(key, value),
        resource=record["resource"],
        state=PoolState.ACTIVE,
        generation=0,
        replicas=int((body.get("spec") or {}).get("replicas") or 0),
    )


def _with_pods(pool: Pool, around: Surroundings, now: float, grace_seconds: float) -> Pool:
    pods = around.pods.get(pool.name, ())
    leaving = any(pod.terminating and pod.bound for pod in pods)
    stranded = [
        pod
        for pod in pods
        if pod.unscheduled_since is not None and not pod.terminating and now - pod.unscheduled_since > grace_seconds
    ]
    return replace(
        pool,
        bound=sum(1 for pod in pods if pod.bound),
        ready=sum(1 for pod in pods if pod.ready),
        stranded=0 if leaving else len(stranded),
        exists=pool.name in around.workloads,
        too_large=_is_too_large(pods) and not pool.served,
    )


def _is_too_large(pods: Sequence[PodFacts]) -> bool:
    """Whether no engine of a pool serves and one of them failed for want of memory."""
    if any(pod.ready for pod in pods):
        return False
    return any(pod.failure is not None and pod.failure.is_about_memory for pod in pods)


def pool_views(around: Surroundings, status: Mapping[str, Any], reported: Mapping[str, int]) -> tuple[PoolView, ...]:
    """The pools' pods for the status. ``reported`` gives the engine's KV tokens by pool, ``status`` those foretold."""
    foretold = {entry["name"]: entry for entry in status.get("pools") or ()}
    names = sorted({*around.pods, *around.workloads})
    return tuple(_view(name, around, reported.get(name), foretold.get(name, {})) for name in names)


def _view(name: str, around: Surroundings, reported: int | None, foretold: Mapping[str, Any]) -> PoolView:
    pods = [pod for pod in around.pods.get(name, ()) if not pod.terminating]
    failed = max((pod for pod in pods if pod.failure is not None), key=lambda pod: pod.restarts, default=None)
    waiting = [pod for pod in pods if not pod.bound]
    return PoolView(
        name=name,
        pods=len(pods),
        ready=sum(1 for pod in pods if pod.ready),
        unbound=len(waiting),
        scheduler_message=next((pod.scheduler_message for pod in waiting if pod.scheduler_message), ""),
        failure=None if failed is None else failed.failure,
        restarts=0 if failed is None else failed.restarts,
        workload_error=_workload_error(around.workloads.get(name)),
        kv_tokens_reported=reported,
        kv_tokens_predicted=foretold.get("kvTokensPredicted"),
        predicted_at_generation=foretold.get("generation"),
        served=bool(foretold.get("served")),
        updating=is_updating(around.workloads.get(name)),
    )


def is_updating(body: Body | None) -> bool:
    """Whether the Deployment controller has yet to see the last change, or to replace all pods by it."""
    if body is None:
        return False
    status, wanted = body.get("status") or {}, (body.get("spec") or {}).get("replicas") or 0
    unseen = int(status.get("observedGeneration") or 0) < int(body["metadata"].get("generation") or 0)
    return unseen or int(status.get("updatedReplicas") or 0) < wanted


def _workload_error(body: Body | None) -> str:
    """Pods that the ReplicaSet could not create: quota, admission, a bad template."""
    conditions = ((body or {}).get("status") or {}).get("conditions") or ()
    failure = next((condition for condition in conditions if condition.get("type") == "ReplicaFailure"), None)
    return str(failure.get("message") or "") if failure and failure.get("status") == "True" else ""
