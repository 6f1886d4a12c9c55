"""A cluster full of secrets and names, and reviews of it: live, and on its snapshot."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from plimsoll.adapters.cluster.client import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SECRETS,
    Cluster,
    ClusterRefused,
    Listing,
    ObjectKind,
)
from plimsoll.adapters.cluster.kinds import LIMIT_RANGES, NODE_POOLS, RESOURCE_CLAIMS, RESOURCE_SLICES
from plimsoll.api.crd.lost_fields import LAST_APPLIED
from plimsoll.app.exports.document import Export, objects_of, read_export, text_of
from plimsoll.app.exports.exporting import export
from plimsoll.app.exports.replaying import replay
from plimsoll.app.review.looking import OPERATOR_SELECTOR
from plimsoll.app.review.overlay import stored
from plimsoll.app.review.reviewing import review
from plimsoll.app.review.values import DeploymentWish, Means, Review, WhatIf
from plimsoll.app.settings import Settings
from plimsoll.cli.plans.review import document
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.status.record.reading import RECORD
from tests.support.office import Office
from tests.support.slices import resource_claim, resource_slice

Body = dict[str, Any]

CANARY = "canary"
"""A part of every value that must not leave the cluster."""

OPERATOR_ENVIRONMENT = {
    "PLIMSOLL_PROMETHEUS_URL": f"http://reader:{CANARY}-password@prometheus:9090",
    "PLIMSOLL_POD_POLICY": '{"secrets": ["shared"]}',
    "PLIMSOLL_ENGINE_REGISTRY": "mirror.acme.example",
    "PLIMSOLL_READ_NODE_POOLS": "true",
    "HUB_TOKEN": f"{CANARY}-hub-token",
}
PRICES = {"l4-24gb": "0.50", "l40s-48gb": "1.10"}

NODE_POOL: Body = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "acme-pool", "uid": "pool", "annotations": {"note": f"{CANARY}-pool"}},
    "spec": {
        "limits": {"nvidia.com/gpu": "16"},
        "template": {
            "metadata": {"labels": {"acme.example/owner": "acme-team"}},
            "spec": {
                "nodeClassRef": {"name": f"{CANARY}-class"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]},
                    {"key": "acme.example/rack", "operator": "In", "values": ["acme-rack"]},
                ],
                "taints": [{"key": "acme.example/gpu", "value": "acme-only", "effect": "NoSchedule"}],
            },
        },
    },
}


class FilledCluster(Cluster):
    """The objects of an office with secrets in every field that nobody needs, and an operator that serves them.

    Whoever asks for a Secret has it counted in ``secrets_read``. Objects of the kind ``forbidden`` cannot be listed.
    """

    def __init__(self, office: Office, now: float) -> None:
        super().__init__()
        self.office, self.now = office, now
        self.secrets_read = 0
        self.forbidden: ObjectKind | None = None

    async def list(
        self,
        kind: ObjectKind,
        *,
        labels: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        metadata_only: bool = False,
        pages: int | None = None,
        keep: Callable[[Manifest], Manifest] = lambda body: body,
    ) -> Listing:
        """Every object of a kind, as the API server has it."""
        assert (name, metadata_only, pages) == (None, False, None), "an export needs whole objects"
        if labels == OPERATOR_SELECTOR:
            return Listing([_operator()])
        if kind == self.forbidden:
            raise ClusterRefused(f"list {kind.plural}", 403, 'User "acme-jane" cannot list them in team-1')
        if kind == NODE_POOLS:
            return Listing([copy.deepcopy(NODE_POOL)])
        found = [with_secrets(kind, body) for body in self.office.store.all(kind)]
        return Listing([keep(each) for each in found if namespace in (None, each["metadata"].get("namespace"))])

    async def get(self, kind: ObjectKind, key: ObjectKey) -> Manifest | None:
        """The prices, or a Secret."""
        if kind == SECRETS:
            self.secrets_read += 1
        if kind != CONFIG_MAPS:
            raise ClusterRefused(f"get {kind.plural} {key}", 403, "you cannot get it")
        head = {"name": key.name, "namespace": key.namespace, "annotations": {LAST_APPLIED: f"{CANARY}-prices"}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": PRICES}

    async def checked(self, kind: ObjectKind, body: Manifest) -> Manifest:
        """The object as the API server would store it."""
        key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
        return stored(body, self.office.store.get(kind, key), self.now)


def with_secrets(kind: ObjectKind, body: Mapping[str, Any]) -> Body:
    """An object as the API server has it: with fields that the store has left out, and secrets in them."""
    found: Body = copy.deepcopy({name: value for name, value in body.items() if name != RECORD})
    head = found["metadata"]
    head.setdefault("annotations", {})["acme.example/note"] = f"{CANARY}-annotation"
    head["managedFields"] = [{"manager": f"{CANARY}-manager"}]
    if kind not in (NODES, DEPLOYMENTS):
        head.setdefault("labels", {})["acme.example/label"] = f"{CANARY}-label"
    if kind == INFERENCE_DEPLOYMENTS:
        head["annotations"][LAST_APPLIED] = json.dumps({"spec": found["spec"]})
    if kind == PODS and "containers" in found["spec"]:
        env = [{"name": "TOKEN", "value": f"{CANARY}-env"}]
        for container in found["spec"]["containers"]:
            container |= {"image": f"{CANARY}-image", "args": [f"--key={CANARY}-args"], "command": [CANARY], "env": env}
        found["spec"] |= {"serviceAccountName": f"{CANARY}-account", "imagePullSecrets": [{"name": f"{CANARY}-pull"}]}
    if kind == NODES:
        found["status"] |= {"addresses": [{"address": f"{CANARY}-address"}], "nodeInfo": {"machineID": CANARY}}
    return found


def _operator() -> Body:
    entries = [{"name": name, "value": value} for name, value in OPERATOR_ENVIRONMENT.items()]
    container = {"name": "operator", "image": f"{CANARY}-image", "args": [CANARY], "env": entries}
    head = {"name": "plimsoll", "namespace": "acme-system"}
    return {"metadata": head, "spec": {"template": {"spec": {"containers": [container]}}}}


SECRET_TEMPLATE: Body = {
    "labels": {"acme.example/label": f"{CANARY}-pod-label"},
    "annotations": {"acme.example/note": f"{CANARY}-pod-annotation"},
    "env": [{"name": "API_TOKEN", "value": f"{CANARY}-variable"}],
    "imagePullSecrets": [{"name": f"{CANARY}-registry"}],
    "nodeSelector": {"topology.kubernetes.io/zone": "zone-0"},
    "tolerations": [{"key": "acme.example/gpu", "operator": "Equal", "value": "acme-only", "effect": "NoSchedule"}],
    "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"metadata": {"name": f"{CANARY}-claim"}}}}],
    "priorityClassName": "acme-prod",
}
SECRET_ARGUMENTS = ["--chat-template", f"{CANARY}-template", f"--tool-server={CANARY}-server", "--block-size=32"]


async def filled_office(folder: Path) -> Office:
    """Five objects that serve, one of them with secrets and one with a total load; then one that waits, one refused.

    The only free L4s are on nodes with a taint, which the object with secrets alone tolerates.
    """
    made = Office.open(folder)
    made.now = float(int(made.now))
    made.passes.reader.settings = Settings(engine_registry=OPERATOR_ENVIRONMENT["PLIMSOLL_ENGINE_REGISTRY"])
    _add(made, PRIORITY_CLASSES, _named("acme-prod", value=100))
    made.change(INFERENCE_DEPLOYMENTS, 0, _fill_with_secrets)
    made.change(INFERENCE_DEPLOYMENTS, 1, _declare_total_load)
    for number, node in enumerate(made.store.all(NODES)):
        if node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-0":
            made.change(NODES, number, _taint)
    await made.settle()
    quota = {"spec": {"hard": {"requests.nvidia.com/gpu": "7", "pods": "9"}}, "status": {"used": {}}}
    _add(made, RESOURCE_QUOTAS, _named("acme-quota", "team-4", **quota))
    roomy = {"type": "Container", "default": {"cpu": "64", "memory": "512Gi"}}
    _add(made, LIMIT_RANGES, _named("acme-limits", "team-4", spec={"limits": [roomy]}))
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["acme-prod"]}]}
    hard = {"requests.nvidia.com/gpu": "1"}
    first = made.store.all(NODES)[0]["metadata"]["name"]
    _add(made, RESOURCE_SLICES, resource_slice(first, "gpu") | {"metadata": _named("acme-slice")["metadata"]})
    _add(
        made, RESOURCE_CLAIMS, resource_claim(first, "gpu-0") | {"metadata": _named("acme-claim", "team-4")["metadata"]}
    )
    _add(made, RESOURCE_QUOTAS, _named("acme-scoped", "team-4", spec={"hard": hard, "scopeSelector": scope}))
    for number, node in enumerate(made.store.all(NODES)):
        name = node["metadata"]["name"]
        if "nvidia.com/gpu" in node["status"]["allocatable"]:
            _add(made, PODS, _foreign_pod(f"acme-plain-{number}", name, {"cpu": "1", "memory": "2Gi"}))
        is_free_l4 = node["metadata"]["labels"].get("nvidia.com/gpu.product") == "NVIDIA-L4" and not _holders(
            made, name
        )
        if is_free_l4 and node["metadata"]["labels"]["topology.kubernetes.io/zone"] != "zone-0":
            _add(made, PODS, _foreign_pod(f"acme-gpu-{number}", name, {"nvidia.com/gpu": "1"}))
    spec = made.store.all(INFERENCE_DEPLOYMENTS)[0]["spec"]
    bare = {name: spec[name] for name in ("model", "contextLength", "concurrency")}
    _add(made, INFERENCE_DEPLOYMENTS, _object("waits", **bare, overrides={"gpuType": "l4-24gb", "tensorParallel": 1}))
    _add(made, INFERENCE_DEPLOYMENTS, _object("barred", **bare, podTemplate={"serviceAccountName": "acme-admin"}))
    made.make()
    return made


def _taint(node: Body) -> None:
    node["spec"]["taints"] = [{"key": "acme.example/gpu", "value": "acme-only", "effect": "NoSchedule"}]


def _fill_with_secrets(body: Body) -> None:
    body["spec"] |= {"podTemplate": SECRET_TEMPLATE, "engine": {"extraArgs": SECRET_ARGUMENTS}}


def _declare_total_load(body: Body) -> None:
    body["spec"] |= {"totalConcurrency": 12, "podTemplate": {"env": [{"name": "A", "value": f"{CANARY}-of-total"}]}}
    del body["spec"]["concurrency"]


def _holders(office: Office, node: str) -> list[str]:
    bodies = office.store.all(PODS)
    return [
        each["metadata"]["name"] for each in bodies if each["spec"]["nodeName"] == node and "containers" in each["spec"]
    ]


def _named(name: str, namespace: str = "", **more: Any) -> Body:
    head = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"} | (
        {"namespace": namespace} if namespace else {}
    )
    return {"metadata": head, **more}


def _object(name: str, **spec: Any) -> Body:
    head = {"name": name, "namespace": "team-9", "uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
    head["creationTimestamp"] = "2026-11-21T04:00:00Z"
    return {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": head, "spec": spec}


def _foreign_pod(name: str, node: str, requests: Mapping[str, str]) -> Body:
    container = {"name": f"{CANARY}-container", "resources": {"requests": dict(requests), "limits": dict(requests)}}
    pod = {"spec": {"nodeName": node, "containers": [container]}, "status": {"phase": "Running"}}
    return {"apiVersion": "v1", "kind": "Pod", **_named(name, "acme-jobs", **pod)}


def _add(office: Office, kind: ObjectKind, body: Body) -> None:
    office.version += 1
    body["metadata"]["resourceVersion"] = str(office.version)
    office.store.observe(kind, "ADDED", body)


def wish(cluster: FilledCluster, index: int, **spec: Any) -> DeploymentWish:
    """The manifest of a live object with another spec. None leaves a field out."""
    body = cluster.office.store.all(INFERENCE_DEPLOYMENTS)[index]
    head = {name: body["metadata"][name] for name in ("name", "namespace")}
    other = {name: value for name, value in {**body["spec"], **spec}.items() if value is not None}
    return DeploymentWish(
        "file", {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": head, "spec": other}
    )


async def text_from(cluster: FilledCluster, folder: Path, *, hash_names: bool = False) -> str:
    """The text of a snapshot."""
    return text_of(await export(cluster, Means(folder), {}, hash_names=hash_names, now=cluster.now))


async def snapshot_of(cluster: FilledCluster, folder: Path, *, hash_names: bool = False) -> Export:
    """A snapshot, written and read again."""
    return read_export(await text_from(cluster, folder, hash_names=hash_names), "fleet.json")


async def live_review(
    cluster: FilledCluster, folder: Path, wishes: Sequence[DeploymentWish], what_if: tuple[WhatIf, ...] = ()
) -> Review:
    """The review on the cluster."""
    return await review(cluster, wishes, Means(folder, what_if=what_if), {}, cluster.now)


async def replayed(
    cluster: FilledCluster, folder: Path, wishes: Sequence[DeploymentWish], what_if: tuple[WhatIf, ...] = ()
) -> Review:
    """The review on the cluster's snapshot."""
    return await replay(await snapshot_of(cluster, folder), wishes, Means(folder, what_if=what_if))


async def review_of_all(found: Export, folder: Path) -> Review:
    """The review of all objects of a snapshot."""
    return await replay(found, objects_of(found), Means(folder))


def shown(review: Review) -> Mapping[str, Any]:
    """Everything that ``-o json`` prints of a review, except the notes."""
    return {name: value for name, value in document(review).items() if name != "notes"}
