"""The pod template of one pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.domain.cluster.gpus import CapacityType, Vendor
from plimsoll.domain.cluster.host import HostEstimate
from plimsoll.domain.cluster.node_rules import NAME_FIELD, NOT_WINDOWS, older_drivers, other_architectures
from plimsoll.domain.cluster.spot import SPOT_LABELS
from plimsoll.domain.decisions.outcomes import Option, Target
from plimsoll.domain.requests.weights import Weights
from plimsoll.domain.requests.workload import (
    CACHE_PATH,
    ENGINE_CONTAINER,
    ENGINE_PORT,
    ENGINE_PORT_NAME,
    PRE_STOP_SECONDS,
    TEMPORARY_PATH,
    Manifest,
    PodOptions,
    WorkloadOptions,
)
from plimsoll.domain.units import GIB, MIB, ceil_div, parse_quantity
from plimsoll.engines.base import Engine, Launch, Probe
from plimsoll.engines.node_needs import least_driver
from plimsoll.engines.registry import engine_of
from plimsoll.render.merging import merged
from plimsoll.render.names import POOL_LABEL, deployment_labels, engine_labels, pool_labels
from plimsoll.render.weights import credentials, weights_mounts, weights_volumes

STOP_RESERVE_SECONDS = 15
"""The grace period is this much longer than pre-stop and drain together, so that the engine can stop by itself."""

HIGHEST_WEIGHT = 100
"""The highest weight of a preference. A webhook of the cluster that adds a preference to the pod cannot exceed it."""


_SPELLINGS = (str.lower, str.upper, str.title)
"""The spellings of a label's value that occur: Karpenter writes ``spot`` and EKS ``SPOT``."""


def pod_template(options: WorkloadOptions, pool: str, choice: Option) -> Manifest:
    """The pod template. The operator's decisions have priority over the user's pod options.

    The user's part of the spec is merged into the operator's, and then what is the operator's own into both.
    """
    user, engine = options.pod, engine_of(options.engine)
    launch = engine.launch(options, choice)
    annotations = {**_scrape_annotations(options, engine), **user.annotations}
    spec = _spec(options, choice, engine, launch)
    if user.merged:
        spec = merged(merged(spec, _completed(options, spec)), _owned(spec))
    return {
        "metadata": {
            "labels": {
                **user.labels,
                **options.queue,
                **pool_labels(options.key.name, pool),
                **engine_labels(options.engine),
            },
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": spec,
    }


def _spec(options: WorkloadOptions, choice: Option, engine: Engine, launch: Launch) -> Manifest:
    user = options.pod
    return {
        "containers": [_container(options, choice, engine, launch)],
        "affinity": _affinity(options, choice),
        "tolerations": _tolerations(choice, user),
        "volumes": [*_own_volumes(choice, user), *weights_volumes(options.weights), *user.volumes],
        "terminationGracePeriodSeconds": PRE_STOP_SECONDS + launch.drain_seconds + STOP_RESERVE_SECONDS,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": launch.user_id,
            "runAsGroup": 0,
            "fsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **_optional(user),
    }


_OF_PODS = ("terminationGracePeriodSeconds", "securityContext")
_TIMES = ("startupProbe", "readinessProbe", "livenessProbe")
"""Fields of the operator's pods, and of the engine's container, that a user may replace."""

_CONFINED = {
    "terminationMessagePolicy": "FallbackToLogsOnError",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
"""The fields of a further container unless its author says otherwise: the restricted Pod Security Standard."""


def _completed(options: WorkloadOptions, own: Manifest) -> Manifest:
    """The user's part of the spec with what Kubernetes asks for: confined containers, and pods that are spread."""
    user = options.pod.merged
    found = dict(user)
    for name in ("initContainers", "containers"):
        if name in user:
            found[name] = [_confined(each) for each in user[name]]
    if "topologySpreadConstraints" in user:
        replicas = {"labelSelector": {"matchLabels": deployment_labels(options.key.name)}}
        found["topologySpreadConstraints"] = [{**replicas, **each} for each in user["topologySpreadConstraints"]]
    least = own["terminationGracePeriodSeconds"]
    found["terminationGracePeriodSeconds"] = max(least, user.get("terminationGracePeriodSeconds", least))
    return found


def _confined(container: Manifest) -> Manifest:
    """A container of the user's own; of the engine's only the times of probes are the user's."""
    if container["name"] == ENGINE_CONTAINER:
        return {name: value for name, value in container.items() if name in ("name", *_TIMES)}
    return merged(_CONFINED, container)


def _owned(spec: Manifest) -> Manifest:
    """The part of the operator's spec that no user replaces."""
    (engine,) = spec["containers"]
    container = {name: value for name, value in engine.items() if name not in _TIMES}
    kept = {name: value for name, value in spec.items() if name not in _OF_PODS}
    return {**kept, "containers": [container]}


def place_of(options: WorkloadOptions, choice: Option) -> Manifest:
    """The fields of a pod's spec that keep it on the nodes of a choice, best next to an engine that is there.

    A volume that one node can mount is where that engine runs, which the scheduler does not see.
    """
    selector = {"nodeSelector": dict(options.pod.node_selector)} if options.pod.node_selector else {}
    near = {
        "labelSelector": {"matchLabels": deployment_labels(options.key.name)},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {
        "nodeAffinity": _affinity(options, choice)["nodeAffinity"],
        "podAffinity": {_PREFERRED: [{"weight": HIGHEST_WEIGHT, "podAffinityTerm": near}]},
    }
    return {"affinity": affinity, "tolerations": _tolerations(choice, options.pod), **selector}


def _scrape_annotations(options: WorkloadOptions, engine: Engine) -> dict[str, str]:
    """The pod's metrics in annotations: a convention of many Prometheus configurations, no part of Prometheus."""
    if not options.scrape_annotations:
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(ENGINE_PORT),
        "prometheus.io/path": engine.metrics.path,
    }


def start_budget_seconds(options: WorkloadOptions, choice: Option) -> int:
    """How long a start may take before the kubelet gives up on it."""
    launch = engine_of(options.engine).launch(options, choice)
    containers = {each["name"]: each for each in options.pod.merged.get("containers", ())}
    given = containers.get(ENGINE_CONTAINER, {}).get("startupProbe")
    if given is None:
        return launch.start_seconds
    probe = merged(_health(launch.startup), given)
    return int(probe.get("initialDelaySeconds", 0) + probe["periodSeconds"] * probe["failureThreshold"])


def _container(options: WorkloadOptions, choice: Option, engine: Engine, launch: Launch) -> Manifest:
    usual = engine.image(choice.gpu.vendor, options.engine_version, choice.gpu.gfx)
    return {
        "name": ENGINE_CONTAINER,
        "image": options.image or options.images.reference(engine.name, choice.gpu.vendor, usual),
        **({"command": list(launch.command)} if launch.command else {}),
        "args": list(launch.arguments),
        "env": _environment(options, launch),
        **_environment_sources(options),
        "ports": [{"name": ENGINE_PORT_NAME, "containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "resources": _resources(options.pod, choice),
        "startupProbe": _health(launch.startup),
        "readinessProbe": _health(launch.readiness),
        "livenessProbe": _health(launch.liveness),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(PRE_STOP_SECONDS)]}}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "cache", "mountPath": CACHE_PATH},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the engine's ranks talk through it
            *([] if _mounts_temporary(options.pod) else [{"name": "tmp", "mountPath": TEMPORARY_PATH}]),
            *weights_mounts(options.weights),
            *options.pod.volume_mounts,
        ],
    }


def _health(probe: Probe) -> Manifest:
    return {
        "httpGet": {"path": probe.path, "port": ENGINE_PORT_NAME, "scheme": "HTTP"},
        "periodSeconds": probe.period_seconds,
        "timeoutSeconds": probe.timeout_seconds,
        "failureThreshold": probe.failures,
    }


def _environment(options: WorkloadOptions, launch: Launch) -> list[Manifest]:
    """The engine's environment, and the token from its secret. The user's variables have priority."""
    own: list[Manifest] = [{"name": name, "value": value} for name, value in launch.environment.items()]
    if options.token is not None:
        reference = {"name": options.token.name, "key": options.token.key}
        own.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    users = {entry["name"] for entry in options.pod.env}
    return [*(entry for entry in own if entry["name"] not in users), *options.pod.env]


def _environment_sources(options: WorkloadOptions) -> Manifest:
    """The user's sources of variables, and the credentials of a bucket that the engine reads itself."""
    sources = [*_credentials(options.weights), *options.pod.env_from]
    return {"envFrom": sources} if sources else {}


def _credentials(weights: Weights | None) -> list[Manifest]:
    is_read_here = weights is not None and weights.claim is None
    return credentials(weights) if is_read_here else []


def _resources(user: PodOptions, choice: Option) -> Manifest:
    gpus = {choice.target.resource: str(choice.split.gpus)}
    limits = user.resources.get("limits", {})
    requests = {**_needed(choice.host, limits), **user.resources.get("requests", {}), **gpus}
    return {"requests": requests, "limits": {**limits, **gpus}}


def _needed(host: HostEstimate, limits: Mapping[str, str | int]) -> dict[str, str | int]:
    """The CPU and memory that the engine needs. A lower limit is requested instead."""
    cpu, memory = f"{host.cpu_millis}m", _quantity(host.memory_bytes)
    if host.cpu_millis % 1000 == 0:
        cpu = str(host.cpu_millis // 1000)
    needed = {"cpu": cpu, "memory": memory}
    return {
        name: limits[name] if name in limits and parse_quantity(limits[name]) < parse_quantity(need) else need
        for name, need in needed.items()
    }


def _quantity(size: int) -> str:
    """Bytes in the largest unit that keeps them whole, GiB or MiB, rounded up."""
    return f"{size // GIB}Gi" if size % GIB == 0 else f"{ceil_div(size, MIB)}Mi"


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity(options: WorkloadOptions, choice: Option) -> Manifest:
    """The operator's affinity and the user's together: nodes must match a term of both, and all else is added."""
    user = options.pod.affinity
    nodes, pods = user.get("nodeAffinity", {}), user.get("podAffinity", {})
    own = _terms(choice, _platform_terms(options, choice))
    theirs = nodes.get(_REQUIRED, {}).get("nodeSelectorTerms") or [{}]
    terms = [_both(each, other) for each in own for other in theirs]
    return {
        **user,
        "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": terms}},
        "podAffinity": {**pods, _PREFERRED: [_beside_engines(), *pods.get(_PREFERRED, ())]},
    }


def _both(own: Manifest, user: Manifest) -> Manifest:
    """The term that a node matches that matches both."""
    found = {name: [*own.get(name, ()), *user.get(name, ())] for name in ("matchExpressions", "matchFields")}
    return {name: expressions for name, expressions in found.items() if expressions}


def _terms(choice: Option, platform: Sequence[Manifest]) -> list[Manifest]:
    """Terms that a node with any of the target's labels matches: one for each key, with all values of the key."""
    values: dict[str, list[str]] = {}
    for key, value in choice.target.labels:
        values.setdefault(key, []).append(value)
    types = [{"key": key, "operator": "In", "values": sorted(each)} for key, each in values.items()]
    return [
        {"matchExpressions": [each, *besides, *platform], **_avoided(choice.target)}
        for each in types
        for besides in _capacity_terms(choice.target.capacity)
    ]


def _avoided(target: Target) -> Manifest:
    """The field expressions that keep pods off single nodes. Each names one: the API server takes no more of a field.

    Source: ``ValidateNodeFieldSelectorRequirement`` of ``k8s.io/kubernetes``, ``pkg/apis/core/validation``.
    """
    if not target.avoids:
        return {}
    return {"matchFields": [{"key": NAME_FIELD, "operator": "NotIn", "values": [name]} for name in target.avoids]}


def _platform_terms(options: WorkloadOptions, choice: Option) -> list[Manifest]:
    """Expressions that keep pods off nodes whose system, architecture or driver their image cannot use.

    Engines' images are for Linux.
    """
    rules = [NOT_WINDOWS]
    if options.architectures:
        rules.append(other_architectures(options.architectures))
    least = least_driver(options) if choice.gpu.vendor is Vendor.NVIDIA else 0
    if least:
        rules.append(older_drivers(least))
    return [{"key": each.key, "operator": each.operator, "values": list(each.values)} for each in rules]


def _capacity_terms(capacity: CapacityType | None) -> list[list[Manifest]]:
    """Expressions for nodes of a capacity type: one of several for spot, where any label of a cloud is enough.

    They name the labels of all clouds, so that they do not change with the nodes that a cluster has today.
    """
    if capacity is None:
        return [[]]
    spot = {
        key: sorted({spell(value) for value in values for spell in _SPELLINGS}) for key, values in SPOT_LABELS.items()
    }
    if capacity is CapacityType.SPOT:
        return [[{"key": key, "operator": "In", "values": values}] for key, values in spot.items()]
    return [[{"key": key, "operator": "NotIn", "values": values} for key, values in spot.items()]]


def _beside_engines() -> Manifest:
    """A preference for nodes that engines of any namespace already use, so that other nodes stay free as a whole.

    The node affinity admits one GPU type only, so the engines on such a node are of the same type. The label is the one
    that engines of earlier releases have too. An engine that needs a whole node has the preference as well: it changes
    nothing there, and a template that depends on the fleet's largest node would change with the fleet.
    """
    return {
        "weight": HIGHEST_WEIGHT,
        "podAffinityTerm": {
            "labelSelector": {"matchExpressions": [{"key": POOL_LABEL, "operator": "Exists"}]},
            "namespaceSelector": {},
            "topologyKey": "kubernetes.io/hostname",
        },
    }


def _tolerations(choice: Option, user: PodOptions) -> list[Manifest]:
    """Tolerations of the GPU taint, which names the whole GPU's resource also for slices, and the user's."""
    taint = "nvidia.com/gpu" if choice.gpu.is_slice else choice.target.resource
    return [{"key": taint, "operator": "Exists"}, *user.tolerations]


def _own_volumes(choice: Option, user: PodOptions) -> list[Manifest]:
    """The operator's volumes: shared memory as large as the engine needs, and the cache."""
    if user.cache_claim is not None:
        cache: Manifest = {"name": "cache", "persistentVolumeClaim": {"claimName": user.cache_claim}}
    elif user.cache_size_limit is not None:
        cache = {"name": "cache", "emptyDir": {"sizeLimit": user.cache_size_limit}}
    else:
        cache = {"name": "cache", "emptyDir": {}}
    memory = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": _quantity(choice.host.shm_bytes)}}
    return [cache, memory, *([] if _mounts_temporary(user) else [{"name": "tmp", "emptyDir": {}}])]


def _mounts_temporary(user: PodOptions) -> bool:
    """Whether the user mounts another volume for temporary files."""
    return any(str(mount.get("mountPath")).rstrip("/") == TEMPORARY_PATH for mount in user.volume_mounts)


def _optional(user: PodOptions) -> Manifest:
    """Fields that are only there when the user sets them."""
    wishes: Manifest = {
        "nodeSelector": dict(user.node_selector),
        "serviceAccountName": user.service_account_name,
        "imagePullSecrets": list(user.image_pull_secrets),
        "priorityClassName": user.priority_class_name,
        "runtimeClassName": user.runtime_class_name,
    }
    return {name: value for name, value in wishes.items() if value}
