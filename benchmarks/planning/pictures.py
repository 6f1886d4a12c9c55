"""Pictures of a cluster as the store keeps them: nodes, InferenceDeployments, their Deployments and their pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.planning.worlds import MODELS, PRODUCTS
from plimsoll.adapters.cluster.client import (
    APPROVALS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    PROPOSALS,
    RESOURCE_QUOTAS,
    SERVICES,
    ObjectKind,
)
from plimsoll.adapters.cluster.kinds import (
    GATEWAYS,
    HTTP_ROUTES,
    JOBS,
    LIMIT_RANGES,
    OF_ROUTERS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.shell import BOUNDS
from plimsoll.app.watch import pruning
from plimsoll.app.watch.store import Store, key_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.facts.cluster.other_devices import reduced_claim, reduced_slice
from plimsoll.placement.demands.pools import PlannedPool
from plimsoll.render.names import DEPLOYMENT_LABEL, HASH_ANNOTATION, POOL_LABEL, workload_name
from testbed.fleet import gpu_node

Body = dict[str, Any]

BORN = "2026-11-21T03:00:00Z"
STARTED = "2026-11-21T03:05:00Z"
OWN_KINDS: dict[str, ObjectKind] = {
    "Deployment": DEPLOYMENTS,
    "Service": SERVICES,
    "PodDisruptionBudget": DISRUPTION_BUDGETS,
}


def new_store(nodes: int, objects: int) -> Store:
    """Nodes with nothing on them, and InferenceDeployments that nobody has looked at."""
    store = Store(
        {
            INFERENCE_DEPLOYMENTS: pruning.inference_deployment,
            NODES: pruning.node,
            PODS: pruning.pod,
            DEPLOYMENTS: pruning.workload,
            SERVICES: pruning.whole,
            DISRUPTION_BUDGETS: pruning.whole,
            JOBS: pruning.whole,
            **dict.fromkeys((*OF_ROUTERS, HTTP_ROUTES), pruning.owned),
            GATEWAYS: pruning.gateway,
            RESOURCE_QUOTAS: pruning.quota,
            LIMIT_RANGES: pruning.limit_range,
            PRIORITY_CLASSES: pruning.priority_class,
            RESOURCE_SLICES: reduced_slice,
            RESOURCE_CLAIMS: reduced_claim,
            PROPOSALS: pruning.whole,
            APPROVALS: pruning.whole,
        },
        lambda: None,
        bounds=BOUNDS,
    )
    store.replace(NODES, [_node(index) for index in range(nodes)])
    store.replace(INFERENCE_DEPLOYMENTS, [_inference_deployment(index) for index in range(objects)])
    return store


def carry_out(store: Store, cases: Sequence[Desired], version: int) -> None:
    """The cluster once everything that was decided is written and every pod serves."""
    free = {body["metadata"]["name"]: Counter(_gpus(body)) for body in store.all(NODES)}
    for case in cases:
        if case.new_status != case.body.get("status"):
            head = {**case.body["metadata"], "resourceVersion": str(version)}
            written = {**case.body, "metadata": head, "status": case.new_status}
            store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", written)
        for manifest in (each for each in case.manifests if each["kind"] in OWN_KINDS):  # not all parts of a router
            kind, created = OWN_KINDS[manifest["kind"]], _created(manifest, case, version)
            if _digest(store.get(kind, key_of(created))) != _digest(manifest):
                store.observe(kind, "ADDED", created)
        for pool in () if case.outcome.decision is None else case.outcome.decision.pools:
            for pod in _pods(case, pool, store, free, version):
                store.observe(PODS, "ADDED", pod)


def _digest(body: Mapping[str, Any] | None) -> object:
    return None if body is None else body["metadata"]["annotations"][HASH_ANNOTATION]


def _node(index: int) -> Body:
    product, gpus = PRODUCTS[index % len(PRODUCTS)]
    body: Body = gpu_node(f"n{index:04d}", product, gpus, zone=f"zone-{index % 3}")
    body["metadata"] |= {"uid": f"node-{index}", "resourceVersion": "1"}
    return body


def _inference_deployment(index: int) -> Body:
    load = index // len(MODELS) % 4
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {
            "name": f"d{index:04d}",
            "namespace": f"team-{index % 20}",
            "uid": f"object-{index}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": BORN,
        },
        "spec": {
            "model": {"name": MODELS[index % len(MODELS)]},
            "contextLength": 4096 * (1 + load),
            "concurrency": 4 + load,
        },
    }


def _created(manifest: Manifest, case: Desired, version: int) -> Body:
    """One of our objects as its controller has dealt with it."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    head = {**manifest["metadata"], "uid": f"{kind}-{case.uid}-{name}", "resourceVersion": str(version)}
    owner = {"kind": "InferenceDeployment", "name": case.key.name, "uid": case.uid, "controller": True}
    head |= {"generation": 1, "creationTimestamp": BORN, "ownerReferences": [owner]}
    replicas = (manifest.get("spec") or {}).get("replicas") or 0
    status = {"observedGeneration": 1, "updatedReplicas": replicas, "replicas": replicas}
    return {**manifest, "metadata": head, "status": status}


def _pods(
    case: Desired, pool: PlannedPool, store: Store, free: dict[str, Counter[str]], version: int
) -> Iterator[Body]:
    workload = workload_name(case.key.name, pool.name)
    existing = sum(1 for body in store.all(PODS) if body["metadata"]["name"].startswith(f"{workload}-"))
    started = _started(store.get(DEPLOYMENTS, ObjectKey(case.key.namespace, workload)))
    key, value = pool.target.selector
    fitting = [body for body in store.all(NODES) if body["metadata"]["labels"].get(key) == value]
    for index in range(existing, pool.replicas):
        names = (str(body["metadata"]["name"]) for body in fitting)
        node = next((name for name in names if free[name][pool.target.resource] >= pool.split.gpus), None)
        if node is None:
            return  # it waits, as it would for the scheduler
        free[node][pool.target.resource] -= pool.split.gpus
        yield _pod(case, pool, f"{workload}-7d9-{index}", node, version, started)


def _started(workload: Mapping[str, Any] | None) -> Body:
    """How the template of a Deployment starts its engine."""
    containers = [] if workload is None else workload["spec"]["template"]["spec"]["containers"]
    return {name: value for each in containers[:1] for name, value in each.items() if name in ("command", "args")}


def _pod(case: Desired, pool: PlannedPool, name: str, node: str, version: int, started: Body) -> Body:
    workload = workload_name(case.key.name, pool.name)
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": BORN},
        {"type": "Ready", "status": "True", "lastTransitionTime": STARTED},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": case.key.namespace,
            "uid": f"pod-{case.uid}-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": BORN,
            "labels": {DEPLOYMENT_LABEL: case.key.name, POOL_LABEL: pool.name},
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"{workload}-7d9", "uid": "rs", "controller": True}],
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "engine", "resources": {"limits": {pool.target.resource: str(pool.split.gpus)}}, **started}
            ],
        },
        "status": {"phase": "Running", "conditions": conditions},
    }


def _gpus(node: Body | Any) -> dict[str, int]:
    return {name: int(count) for name, count in node["status"]["allocatable"].items() if name.endswith("/gpu")}
