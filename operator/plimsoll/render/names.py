"""Names, labels and owner references of everything we create."""

from __future__ import annotations

from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.kubernetes_names import API_VERSION, GROUP, KIND, ObjectKey
from plimsoll.domain.requests.workload import ENGINE_PORT, Manifest, WorkloadOptions

FIELD_MANAGER = "plimsoll"
"""Server-side apply: the owner of every field that we write."""

MANAGED_BY = "app.kubernetes.io/managed-by"
DEPLOYMENT_LABEL = f"{GROUP}/deployment"
POOL_LABEL = f"{GROUP}/pool"
WEIGHTS_LABEL = f"{GROUP}/weights"
"""On pods that copy weights: the name of their InferenceDeployment. No Service selects them."""

ENGINE_TYPE_LABEL = "inference.networking.k8s.io/engine-type"
"""The label by which an endpoint picker knows whose metrics a pod has. Source: ``DefaultEngineTypeLabelKey`` of the
Gateway API Inference Extension 1.5.0 (``plugins/datalayer/extractor/metrics/mapping_registry.go``)."""

ROUTER_LABEL = f"{GROUP}/router"
PICKER_LABEL = f"{GROUP}/picker"
"""On the pods of a router, which its own Service selects, and of its picker: the name of their InferenceDeployment."""

OF_ROUTER_PODS = (ROUTER_LABEL, PICKER_LABEL)

POOL_ANNOTATION = f"{GROUP}/pool-record"
"""The pool as JSON on its Deployment: if a status is lost, the placement is read from the running Deployments."""

HASH_ANNOTATION = f"{GROUP}/rendered"
"""Digest of the rendered object: distinguishes our change from another's edit without comparing defaulted fields."""

CAPACITY_WORDS = {CapacityType.ON_DEMAND: "OnDemand", CapacityType.SPOT: "Spot"}
"""The capacity types as the API spells them."""


def workload_name(name: str, pool: str) -> str:
    """The name of one pool's Deployment."""
    return f"{name}-{pool}"


def router_name(name: str) -> str:
    """The name of a deployment's router: its Deployment and its budget."""
    return f"{name}-router"


def picker_name(name: str) -> str:
    """The name of the picker that a router asks: its Deployment, its Service, its rights and its policy."""
    return f"{name}-picker"


def is_of_router(workload: str, name: str) -> bool:
    """Whether a Deployment is one of a deployment's router, by its name."""
    return workload in (router_name(name), picker_name(name))


def engines_name(name: str) -> str:
    """The name of the headless Service of the ready replicas behind a router."""
    return f"{name}-engines"


def asked_name(name: str) -> str:
    """The name of the Service by which a Gateway asks a picker. It has an address of its own, as some Gateways need."""
    return f"{name}-epp"


def gateway_path(key: ObjectKey) -> str:
    """The path of a deployment at a Gateway that it shares with others under one host name."""
    return f"/{key.namespace}/{key.name}"


def service_url(name: str, namespace: str) -> str:
    """The URL of an InferenceDeployment's OpenAI API inside its cluster."""
    return f"http://{name}.{namespace}.svc:{ENGINE_PORT}/v1"


def deployment_labels(name: str) -> dict[str, str]:
    """Labels of every object of one InferenceDeployment. User labels are not copied: GitOps tools track by them."""
    return {MANAGED_BY: FIELD_MANAGER, DEPLOYMENT_LABEL: name}


def pool_labels(name: str, pool: str) -> dict[str, str]:
    """Labels of one pool's Deployment and pods."""
    return {**deployment_labels(name), POOL_LABEL: pool}


def pod_selector(name: str) -> str:
    """The label selector as a string, for the scale subresource."""
    return f"{DEPLOYMENT_LABEL}={name}"


def owner_reference(options: WorkloadOptions) -> Manifest:
    """The owner reference. With it Kubernetes cleans up, and no finalizer is needed."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": options.key.name,
        "uid": options.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def engine_labels(engine: str) -> dict[str, str]:
    """Labels of the pods of an engine. Pods of vLLM have none: pickers take pods without the label for vLLM's."""
    return {} if engine == DEFAULT_ENGINE else {ENGINE_TYPE_LABEL: engine}


def metadata(options: WorkloadOptions, name: str, labels: dict[str, str]) -> Manifest:
    """Metadata of an object that we own."""
    return {
        "name": name,
        "namespace": options.key.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(options)],
    }


def node_terms(target: Target) -> dict[str, list[str] | str]:
    """The parts of a target that few targets have: several labels as ``key=value``, a capacity type, avoided nodes."""
    labels = {"nodeLabels": ["=".join(label) for label in target.labels]} if target.other_labels else {}
    labels |= {"avoidedNodes": list(target.avoids)} if target.avoids else {}
    return labels | ({} if target.capacity is None else {"capacityType": CAPACITY_WORDS[target.capacity]})


def stages(split: Split) -> dict[str, int]:
    """The parts of a split besides ``tensorParallel``; left out where they are usual."""
    found: dict[str, int] = {} if split.pipeline_parallel == 1 else {"pipelineParallel": split.pipeline_parallel}
    found |= {} if split.data_parallel == 1 else {"dataParallel": split.data_parallel}
    return found | {"expertParallel": True} if split.expert_parallel else found
