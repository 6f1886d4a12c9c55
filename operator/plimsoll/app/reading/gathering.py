"""The pods and workloads of every InferenceDeployment, gathered from the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from plimsoll.adapters.cluster.client import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INFERENCE_DEPLOYMENTS,
    PODS,
    SERVICES,
)
from plimsoll.adapters.cluster.kinds import GATEWAYS, HTTP_ROUTES, INFERENCE_POOLS, JOBS, OF_ROUTERS, ObjectKind
from plimsoll.app.watch.store import Body, Picture, key_of, uid_of
from plimsoll.decision.surroundings import Surroundings
from plimsoll.domain.engines.failures import MOST_REMEMBERED, PodRejection
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import GatewayView, RouterView
from plimsoll.engines.failures import read_failure
from plimsoll.facts.cluster.gateway_reading import named_gateway, named_pool, pool_fault, read_gateway
from plimsoll.facts.cluster.pod_reading import PodFacts, read_pod
from plimsoll.facts.cluster.rivals import rivals
from plimsoll.render.names import (
    DEPLOYMENT_LABEL,
    PICKER_LABEL,
    POOL_LABEL,
    ROUTER_LABEL,
    asked_name,
    engines_name,
    is_of_router,
    picker_name,
    router_name,
    workload_name,
)
from plimsoll.status.record.workload_trust import controller_of, is_of_namesake, workload_doubt

MOST_COMPLAINTS = 20
"""The most complaints about one object's pods and workloads in one pass: ten thousand false pods must not fill the
log."""

ReadPod = Callable[[Body], PodFacts]


@dataclass(slots=True)
class _Gathering:
    """The pods and workloads of one object, collected while the store is read."""

    owner: Body
    pods: dict[str, list[PodFacts]]
    workloads: dict[str, Body]
    complaints: list[str]
    rejections: dict[str, list[PodRejection]] = field(default_factory=dict)
    jobs: dict[str, Body] = field(default_factory=dict)
    of_router: list[Body] = field(default_factory=list)
    router_pods: list[PodFacts] = field(default_factory=list)
    pickers: list[PodFacts] = field(default_factory=list)

    def complain(self, complaint: str) -> None:
        if len(self.complaints) < MOST_COMPLAINTS:
            self.complaints.append(complaint)


def _read_pod(body: Body) -> PodFacts:
    return read_pod(body, read_failure)


def surroundings_of(store: Picture, read: ReadPod = _read_pod) -> dict[ObjectKey, Surroundings]:
    """Return the surroundings of every InferenceDeployment; each kind is read once."""
    found = {key_of(body): _Gathering(body, {}, {}, []) for body in store.all(INFERENCE_DEPLOYMENTS)}
    for kind, gather in ((DEPLOYMENTS, _gather_workload), (PODS, partial(_gather_pod, read=read))):
        for body in store.all(kind):
            key, pool = _labelled_owner(body)
            if key in found:
                _guarded(kind.kind, body, found[key], partial(gather, body, pool))
            elif key is None:
                _gather_of_router(body, found, read)
    for body in store.all(JOBS):
        owner = _owner_of(body, found)
        if owner is not None:
            owner.jobs[key_of(body).name] = body
    lacks = _gather_routers(store, found)
    with_pools = {
        key for key, each in found.items() if any(part.get("kind") == INFERENCE_POOLS.kind for part in each.of_router)
    }
    refused = rivals(store.all(INFERENCE_DEPLOYMENTS), with_pools)
    return {key: _surroundings(store, each, lacks, refused.get(key)) for key, each in found.items()}


def _surroundings(store: Picture, each: _Gathering, lacks: str, rival: tuple[str, str, str] | None) -> Surroundings:
    router = RouterView(lacks)
    try:
        router = _router(each, lacks, _gateway(store, each.owner))
    except Exception as error:  # noqa: BLE001 - controllers of others write the states of routers and Gateways
        each.complain(f"The router of {key_of(each.owner)} cannot be read: {type(error).__name__}: {error}")
    return Surroundings(
        {pool: tuple(pods) for pool, pods in each.pods.items()},
        each.workloads,
        tuple(each.complaints),
        {pool: tuple(sorted(rejected)[-MOST_REMEMBERED:]) for pool, rejected in each.rejections.items()},
        each.jobs,
        router,
        tuple(each.of_router),
        rival,
        _pool_fault(store, each.owner),
    )


def _pool_fault(store: Picture, owner: Body) -> str:
    """Return the fault of the InferencePool that a spec names; empty if it has none, or if pools cannot be read."""
    key, spec = key_of(owner), owner.get("spec")
    name = named_pool(spec) if isinstance(spec, dict) else ""
    if not name or INFERENCE_POOLS not in store.read:
        return ""
    return pool_fault(name, key.namespace, store.get(INFERENCE_POOLS, ObjectKey(key.namespace, name)))


def _owner_of(body: Body, found: Mapping[ObjectKey, _Gathering]) -> _Gathering | None:
    """Return what is gathered of the InferenceDeployment that controls an object; None if none does."""
    owner = found.get(ObjectKey(key_of(body).namespace, str(_labels(body).get(DEPLOYMENT_LABEL))))
    is_its = owner is not None and (controller_of(body) or {}).get("uid") == uid_of(owner.owner)
    return owner if is_its else None


def _gather_of_router(body: Body, found: Mapping[ObjectKey, _Gathering], read: ReadPod) -> None:
    """Add a Deployment or a pod of a router. Anybody can write labels, so a pod must be of our Deployment."""
    head, labels = body["metadata"], _labels(body)
    for label, workload in ((ROUTER_LABEL, router_name), (PICKER_LABEL, picker_name)):
        into = found.get(ObjectKey(head["namespace"], str(labels.get(label))))
        if into is not None and _was_made_by(body, workload(str(labels[label]))):
            _guarded("Pod", body, into, partial(_add_router_pod, body, read, is_picker=label == PICKER_LABEL))
            return
    if labels.get(DEPLOYMENT_LABEL) and is_of_router(str(head["name"]), str(labels[DEPLOYMENT_LABEL])):
        into = _owner_of(body, found)
        if into is not None:
            into.of_router.append(body)


def _add_router_pod(body: Body, read: ReadPod, into: _Gathering, *, is_picker: bool) -> None:
    facts = read(body)
    if not facts.ended and not facts.terminating:
        (into.pickers if is_picker else into.router_pods).append(facts)


def _gather_routers(store: Picture, found: Mapping[ObjectKey, _Gathering]) -> str:
    """Add the further objects of routers. Return the kind that cannot be read; empty if all can.

    Services and budgets are looked up by name for those that have other parts of a router, because all deployments
    have some. So they are the first to go.
    """
    for body in (body for kind in (*OF_ROUTERS, HTTP_ROUTES) if kind in store.read for body in store.all(kind)):
        into = _owner_of(body, found)
        if into is not None:
            into.of_router.append(body)
    for key, each in found.items():
        if each.of_router:
            names = (
                (SERVICES, engines_name(key.name)),
                (SERVICES, picker_name(key.name)),
                (SERVICES, asked_name(key.name)),
                (DISRUPTION_BUDGETS, router_name(key.name)),
            )
            others = [store.get(kind, ObjectKey(key.namespace, name)) for kind, name in names]
            known = [body for body in others if body is not None and _owner_of(body, found) is each]
            each.of_router = [*known, *each.of_router]  # what goes first must not be all that shows the others
    return next((kind.plural for kind in OF_ROUTERS if kind not in store.read), "")


def _gateway(store: Picture, owner: Body) -> GatewayView | None:
    """Return the Gateway that a spec names, and what became of the route to it; None if it names none."""
    key = key_of(owner)
    ref = named_gateway(owner.get("spec") or {}, key.namespace)
    if ref is None:
        return None
    if HTTP_ROUTES not in store.read:
        return GatewayView(ref.key, lacks=HTTP_ROUTES.plural)
    may_read = GATEWAYS in store.read
    gateway = store.get(GATEWAYS, ref.key) if may_read else None
    route, pool = (_own(store, kind, owner) for kind in (HTTP_ROUTES, INFERENCE_POOLS))
    return read_gateway(ref, gateway, route, pool, may_read=may_read)


def _own(store: Picture, kind: ObjectKind, owner: Body) -> Body | None:
    """Return the object of a kind that has its owner's name and belongs to it; None if there is none."""
    found = store.get(kind, key_of(owner)) if kind in store.read else None
    return found if found is not None and (controller_of(found) or {}).get("uid") == uid_of(owner) else None


def _router(each: _Gathering, lacks: str, gateway: GatewayView | None) -> RouterView:
    """Return the router as it runs. Its Deployments say whether their pods should be ready by now.

    Source: the conditions of a Deployment, ``pkg/controller/deployment/progress.go`` of Kubernetes.
    """
    ready = sum(1 for pod in each.router_pods if pod.ready)
    due = {key_of(body).name for body in each.of_router if body.get("kind") == DEPLOYMENTS.kind and _has_come(body)}
    name, picks = str(each.owner["metadata"]["name"]), any(pod.ready for pod in each.pickers)
    return RouterView(
        lacks,
        {pod.name: pod.address for pod in each.pickers},
        picks=picks,
        ready=ready,
        is_down=router_name(name) in due and not ready,
        is_blind=picker_name(name) in due and not picks,
        gateway=gateway,
    )


def _has_come(workload: Body) -> bool:
    parts = (workload.get("status") or {}).get("conditions") or ()
    progress = [part for part in parts if part["type"] == "Progressing"]
    return any(part["status"] == "False" or part.get("reason") == "NewReplicaSetAvailable" for part in progress)


def _guarded(kind: str, body: Body, into: _Gathering, gather: Callable[[_Gathering], None]) -> None:
    """Add one object. An exception becomes a complaint and nothing else."""
    try:
        gather(into)
    except Exception as error:  # noqa: BLE001 - anyone can write labels and records
        into.complain(f"{kind} {key_of(body)} cannot be read: {type(error).__name__}: {error}")


def _gather_workload(body: Body, pool: str, into: _Gathering) -> None:
    if is_of_namesake(body, into.owner):
        return  # its owner was deleted: Kubernetes removes it
    doubt = workload_doubt(body, into.owner)
    if doubt:
        into.complain(f"Deployment {key_of(body)} is ignored: {doubt}")
    else:
        into.workloads[pool] = body


def _gather_pod(body: Body, pool: str, into: _Gathering, read: ReadPod) -> None:
    if not _was_made_by(body, workload_name(into.owner["metadata"]["name"], pool)):
        into.complain(f"Pod {key_of(body)} is ignored: it has the labels of pool {pool} and not its ReplicaSet")
        return
    if _is_older(body, into.owner, into.workloads.get(pool)):
        return
    facts = read(body)
    if not facts.holds_gpus:  # pods that cost nothing could be thousands, and each is asked for its metrics
        into.complain(f"Pod {key_of(body)} is ignored: it has the labels of pool {pool} and asks for no GPU")
    elif not facts.ended:
        into.pods.setdefault(pool, []).append(facts)
    elif facts.rejection is not None:
        into.rejections.setdefault(pool, []).append(facts.rejection)


def _labelled_owner(body: Body) -> tuple[ObjectKey | None, str]:
    labels = _labels(body)
    if DEPLOYMENT_LABEL not in labels or POOL_LABEL not in labels:
        return None, ""
    return ObjectKey(body["metadata"]["namespace"], labels[DEPLOYMENT_LABEL]), labels[POOL_LABEL]


def _labels(body: Body) -> Mapping[str, str]:
    return body["metadata"].get("labels") or {}


def _was_made_by(pod: Body, workload: str) -> bool:
    controller = controller_of(pod) or {}
    return controller.get("kind") == "ReplicaSet" and str(controller.get("name")).startswith(f"{workload}-")


def _is_older(pod: Body, owner: Body, workload: Body | None) -> bool:
    """Whether a pod is left over from a deleted InferenceDeployment of the same name.

    It is if it is older than the InferenceDeployment, unless its workload was adopted and is not newer than the pod.
    RFC 3339 in UTC sorts as text.
    """
    owner_born, pod_born = _born(owner), _born(pod)
    if not owner_born or not pod_born or pod_born >= owner_born:
        return False
    return workload is None or not _born(workload) or _born(workload) > pod_born


def _born(body: Body) -> str:
    return str(body["metadata"].get("creationTimestamp") or "")
