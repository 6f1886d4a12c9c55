"""The pod template of one pool."""

from __future__ import annotations

from plimsoll.domain.outcomes import Choice
from plimsoll.domain.units import GIB, ceil_div
from plimsoll.domain.workload import DEFAULT_REQUESTS, Manifest, PodOptions, WorkloadOptions
from plimsoll.render.command import DRAIN_SECONDS, PRE_STOP_SECONDS, engine_arguments
from plimsoll.render.names import CONTAINER, ENGINE_PORT, pool_labels

CACHE_PATH = "/cache"
TEMPORARY_PATH = "/tmp"  # noqa: S108 - a volume of the pod's own is mounted there
WRITTEN_PATHS = {
    "HOME": f"{CACHE_PATH}/home",
    "XDG_CACHE_HOME": f"{CACHE_PATH}/xdg",
    "HF_HOME": f"{CACHE_PATH}/huggingface",
    "VLLM_CACHE_ROOT": f"{CACHE_PATH}/vllm",
    "VLLM_CONFIG_ROOT": f"{CACHE_PATH}/vllm-config",
    "VLLM_RPC_BASE_PATH": TEMPORARY_PATH,
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_PATH}/torchinductor",
    "TRITON_CACHE_DIR": f"{CACHE_PATH}/triton",
    "FLASHINFER_WORKSPACE_BASE": f"{CACHE_PATH}/flashinfer",
    "NUMBA_CACHE_DIR": f"{CACHE_PATH}/numba",
    "TMPDIR": TEMPORARY_PATH,
}
"""Paths that the engine and its libraries write to, because the root file system is read-only. Data that is costly to
make (weights, compiled kernels) is on the cache volume; the rest is on a volume that ends with the pod."""

GRACE_SECONDS = PRE_STOP_SECONDS + DRAIN_SECONDS + 15
"""Strictly longer than pre-stop and drain together, so that the engine can stop by itself."""

BASE_START_SECONDS = 900
"""Time for compilation, profiling, graph capture and warm-up: up to 103, 250 and 25 s in start-up logs, with
reserve."""

START_SECONDS_PER_GIB = 12
"""Time to load weights from a slow disk or hub: about 85 MiB/s. Slow loads must not be killed half-way."""

PROBE_PERIOD_SECONDS = 10

ENGINE_UID = 2000
"""The user that vLLM's image prepares (group 0)."""


def pod_template(options: WorkloadOptions, pool: str, choice: Choice) -> Manifest:
    """The pod template. The operator's decisions have priority over the user's pod options."""
    user = options.pod
    return {
        "metadata": {
            "labels": {**user.labels, **pool_labels(options.key.name, pool)},
            **({"annotations": dict(user.annotations)} if user.annotations else {}),
        },
        "spec": {
            "containers": [_container(options, choice)],
            "affinity": _affinity(choice),
            "tolerations": _tolerations(choice, user),
            "volumes": [*_own_volumes(choice, user), *user.volumes],
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": ENGINE_UID,
                "runAsGroup": 0,
                "fsGroup": 0,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **_optional(user),
        },
    }


def start_budget_seconds(choice: Choice) -> int:
    """How long a start may take before the kubelet gives up on it."""
    weights_gib = ceil_div(choice.estimate.weights_bytes * choice.split.gpus, GIB)
    return BASE_START_SECONDS + START_SECONDS_PER_GIB * weights_gib


def _container(options: WorkloadOptions, choice: Choice) -> Manifest:
    budget = start_budget_seconds(choice)
    return {
        "name": CONTAINER,
        "image": options.image or options.images.reference(choice.gpu.vendor, options.engine_version),
        "args": engine_arguments(options, choice),
        "env": _environment(options, budget),
        **({"envFrom": list(options.pod.env_from)} if options.pod.env_from else {}),
        "ports": [{"name": "http", "containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "resources": _resources(options.pod, choice),
        "startupProbe": _health(PROBE_PERIOD_SECONDS, ceil_div(budget, PROBE_PERIOD_SECONDS)),
        "readinessProbe": _health(5, 3),
        "livenessProbe": _health(PROBE_PERIOD_SECONDS, 6),
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
            *options.pod.volume_mounts,
        ],
    }


def _health(period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": "/health", "port": "http", "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _environment(options: WorkloadOptions, budget: int) -> list[Manifest]:
    """The environment: paths on volumes, the engine's start-up limit as in the probe, the token from its secret."""
    own: list[Manifest] = [
        *({"name": name, "value": path} for name, path in WRITTEN_PATHS.items()),
        {"name": "VLLM_ENGINE_READY_TIMEOUT_S", "value": str(budget)},
        {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
    ]
    if options.token is not None:
        reference = {"name": options.token.name, "key": options.token.key}
        own.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    users = {entry["name"] for entry in options.pod.env}
    return [*(entry for entry in own if entry["name"] not in users), *options.pod.env]


def _resources(user: PodOptions, choice: Choice) -> Manifest:
    gpus = {choice.target.resource: str(choice.split.gpus)}
    requests = {**DEFAULT_REQUESTS, **user.resources.get("requests", {}), **gpus}
    return {"requests": requests, "limits": {**user.resources.get("limits", {}), **gpus}}


def _affinity(choice: Choice) -> Manifest:
    key, value = choice.target.selector
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _tolerations(choice: Choice, user: PodOptions) -> list[Manifest]:
    """Tolerations of the GPU taint, which names the whole GPU's resource also for slices, and the user's."""
    taint = "nvidia.com/gpu" if choice.gpu.is_slice else choice.target.resource
    return [{"key": taint, "operator": "Exists"}, *user.tolerations]


def _own_volumes(choice: Choice, user: PodOptions) -> list[Manifest]:
    """The operator's volumes: shared memory by rank count (160 MiB a queue, and NCCL's share) and the cache."""
    shm = max(2, choice.split.gpus)
    if user.cache_claim is not None:
        cache: Manifest = {"name": "cache", "persistentVolumeClaim": {"claimName": user.cache_claim}}
    elif user.cache_size_limit is not None:
        cache = {"name": "cache", "emptyDir": {"sizeLimit": user.cache_size_limit}}
    else:
        cache = {"name": "cache", "emptyDir": {}}
    memory = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shm}Gi"}}
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
