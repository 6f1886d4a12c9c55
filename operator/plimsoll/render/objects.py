"""Every object of one InferenceDeployment: a Deployment per pool, one Service, one PodDisruptionBudget."""

from __future__ import annotations

import hashlib
import json

from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.requests.workload import ENGINE_PORT, Manifest, WorkloadOptions
from plimsoll.placement.demands.pools import PlannedPool
from plimsoll.render.inputs import INPUTS_ANNOTATION, RENDERING, RENDERING_ANNOTATION, inputs_digest
from plimsoll.render.names import (
    DEPLOYMENT_LABEL,
    HASH_ANNOTATION,
    POOL_ANNOTATION,
    ROUTER_LABEL,
    deployment_labels,
    metadata,
    node_terms,
    pool_labels,
    stages,
    workload_name,
)
from plimsoll.render.pods import pod_template, start_budget_seconds

PROGRESS_SLACK_SECONDS = 600
"""Time beyond the start budget until Kubernetes calls a rollout failed: image pulls can take long."""


def service(options: WorkloadOptions) -> Manifest:
    """The Service: one address for all replicas, on any GPU type, or for the router that chooses one of them."""
    name = options.key.name
    label = DEPLOYMENT_LABEL if options.routing is None else ROUTER_LABEL
    return stamped(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(options, name, deployment_labels(name)),
            "spec": {
                "selector": {label: name},
                "ports": [{"name": "http", "port": ENGINE_PORT, "targetPort": "http", "protocol": "TCP"}],
            },
        }
    )


def disruption_budget(options: WorkloadOptions, keeps: int | None = None) -> Manifest:
    """The PodDisruptionBudget: drains take one replica at a time, also a single one, so that nodes can be upgraded.

    While replacements start, drains leave as many pods that serve as are ``keeps``; None where none start.
    """
    name = options.key.name
    allowed = {"maxUnavailable": 1} if keeps is None else {"minAvailable": keeps}
    return stamped(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(options, name, deployment_labels(name)),
            "spec": {**allowed, "selector": {"matchLabels": {DEPLOYMENT_LABEL: name}}},
        }
    )


def deployment(options: WorkloadOptions, pool: PlannedPool, choice: Option) -> Manifest:
    """The Deployment of one pool. If there is room for one more replica, an update starts the new pod first.

    Kueue reads its labels on the Deployment, and copies them to the template (``deployment_webhook.go``). They are
    rendered into the template, too: a Kueue whose integration is for pods alone reads them there.
    """
    options, labels = options.draining(pool.drain_seconds), pool_labels(options.key.name, pool.name)
    shown = {**options.queue, **labels} if options.queue else labels
    head = metadata(options, workload_name(options.key.name, pool.name), shown)
    surge = {"maxSurge": 1, "maxUnavailable": 0} if pool.surge else {"maxSurge": 0, "maxUnavailable": 1}
    return stamped(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                **head,
                "annotations": {
                    POOL_ANNOTATION: _record(pool),
                    RENDERING_ANNOTATION: str(RENDERING),
                    INPUTS_ANNOTATION: inputs_digest(options, choice),
                },
            },
            "spec": {
                "replicas": pool.replicas,
                "revisionHistoryLimit": 2,
                "progressDeadlineSeconds": start_budget_seconds(options, choice) + PROGRESS_SLACK_SECONDS,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": surge},
                "selector": {"matchLabels": labels},
                "template": pod_template(options, pool.name, choice),
            },
        }
    )


def digest(manifest: Manifest) -> str:
    """A short digest of a manifest without its own digest annotation."""
    head = manifest["metadata"]
    annotations = {key: value for key, value in head.get("annotations", {}).items() if key != HASH_ANNOTATION}
    plain = {**manifest, "metadata": {**head, "annotations": annotations}}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def stamped(manifest: Manifest) -> Manifest:
    """The manifest with its digest as an annotation."""
    head = manifest["metadata"]
    annotations = {**head.get("annotations", {}), HASH_ANNOTATION: digest(manifest)}
    return {**manifest, "metadata": {**head, "annotations": annotations}}


def _record(pool: PlannedPool) -> str:
    """The pool as JSON, in case the status is lost."""
    return json.dumps(
        {
            "gpuType": pool.gpu_type,
            "nodeSelector": {pool.target.selector[0]: pool.target.selector[1]},
            **node_terms(pool.target),
            "resource": pool.target.resource,
            "tensorParallel": pool.split.tensor_parallel,
            **stages(pool.split),
            **({} if pool.drain_seconds is None else {"drain": pool.drain_seconds}),
            **({} if pool.engine == DEFAULT_ENGINE else {"engine": pool.engine}),
        },
        sort_keys=True,
    )
