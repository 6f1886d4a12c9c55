"""The Job that copies weights to a claim once, and the volume on which engines find them."""

from __future__ import annotations

from plimsoll.domain.requests.weights import BUCKETS, NOT_WORTH_A_TRY, WEIGHTS_PATH, CopyTool, Scheme, Weights
from plimsoll.domain.requests.workload import ENGINE_PORT, TEMPORARY_PATH, Manifest, WorkloadOptions
from plimsoll.render.names import WEIGHTS_LABEL, deployment_labels, metadata

VOLUME = "plimsoll-weights"

TRIES = 6
"""How often the Job is tried again by Kubernetes, with pauses of 10 s to 160 s: a hub that is away for minutes costs
nothing but these. What was copied before is kept."""

COPYING_CPU = "2"
COPYING_MEMORY = "2Gi"
"""The requests and limits of a download: it checks SHA-256 at some hundred MB/s and core, and reads by parts of MB."""

_LONGEST_NAME = 40
"""Characters of the deployment's name in that of its Job, whose pods have it in a label of 63 characters at most."""

USER = 2000
"""The same user and group as the engine, so that both can use the files, whatever the storage does with owners."""


def job_name(deployment: str, weights: Weights) -> str:
    """The name of the Job for one source, revision and claim of one deployment."""
    return f"{deployment[:_LONGEST_NAME]}-weights-{weights.copy_identity}"


def weights_job(options: WorkloadOptions, weights: Weights, tool: CopyTool, place: Manifest) -> Manifest:
    """The Job that copies weights to their claim.

    Args:
        options: the deployment's.
        weights: what is copied, with a claim.
        tool: what copies them.
        place: the fields of a pod's spec that keep it on the nodes of the engines; empty if it may run anywhere.
    """
    labels = deployment_labels(options.key.name)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(options, job_name(options.key.name, weights), labels),
        "spec": {
            "backoffLimit": TRIES,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [NOT_WORTH_A_TRY]}}]
            },
            "template": {
                "metadata": {"labels": {WEIGHTS_LABEL: options.key.name}},
                "spec": {**_pod(options, weights, tool), **place},
            },
        },
    }


def _pod(options: WorkloadOptions, weights: Weights, tool: CopyTool) -> Manifest:
    identity = {
        "serviceAccountName": options.pod.service_account_name,
        "imagePullSecrets": list(options.pod.image_pull_secrets),
    }
    draft = [] if weights.draft is None else [_container("draft", options, weights.draft, tool)]
    return {
        "restartPolicy": "Never",
        **({"initContainers": draft} if draft else {}),
        "containers": [
            {
                **_container("weights", options, weights, tool, "--port", str(ENGINE_PORT)),
                "ports": [{"name": "http", "containerPort": ENGINE_PORT, "protocol": "TCP"}],
            }
        ],
        "volumes": [
            {"name": VOLUME, "persistentVolumeClaim": {"claimName": weights.claim}},
            {"name": "tmp", "emptyDir": {}},
        ],
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": 0,
            "fsGroup": 0,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **{name: value for name, value in identity.items() if value},
    }


def _container(name: str, options: WorkloadOptions, weights: Weights, tool: CopyTool, *more: str) -> Manifest:
    """The container that copies the files of one source."""
    sources = [*credentials(weights), *options.pod.env_from]
    return {
        "name": name,
        "image": tool.image,
        "args": [*_arguments(weights), *more],
        "env": _environment(options, tool),
        **({"envFrom": sources} if sources else {}),
        "resources": {part: {"cpu": COPYING_CPU, "memory": COPYING_MEMORY} for part in ("requests", "limits")},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": VOLUME, "mountPath": WEIGHTS_PATH},
            {"name": "tmp", "mountPath": TEMPORARY_PATH},
        ],
    }


def _arguments(weights: Weights) -> list[str]:
    revision = [] if weights.revision is None else ["--revision", weights.revision]
    into = ["--into", f"{WEIGHTS_PATH}/{weights.folder}"]
    return ["fetch", weights.source, *revision, *into]


def _environment(options: WorkloadOptions, tool: CopyTool) -> list[Manifest]:
    """The folder for the hub library's own files, the hub, the token, and the user's variables, e.g. of a proxy."""
    found: list[Manifest] = [{"name": "HOME", "value": TEMPORARY_PATH}]
    if tool.hub:
        found.append({"name": "HF_ENDPOINT", "value": tool.hub})
    if options.token is not None:
        reference = {"name": options.token.name, "key": options.token.key}
        found.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    users = {entry["name"] for entry in options.pod.env}
    return [*(entry for entry in found if entry["name"] not in users), *options.pod.env]


def credentials(weights: Weights | None) -> list[Manifest]:
    """The Secret with a source's credentials, as a source of variables; nothing if none is named."""
    return [] if weights is None or weights.secret is None else [{"secretRef": {"name": weights.secret}}]


def weights_volumes(weights: Weights | None) -> list[Manifest]:
    """The volume of an engine's pod that holds weights: a claim, or an image; nothing for a bucket."""
    if weights is None or (weights.claim is None and weights.scheme in BUCKETS):
        return []
    if weights.claim is not None:
        return [{"name": VOLUME, "persistentVolumeClaim": {"claimName": weights.claim, "readOnly": True}}]
    assert weights.scheme is Scheme.OCI  # noqa: S101 - the Hub needs a claim, or no volume at all
    return [{"name": VOLUME, "image": {"reference": weights.reference, "pullPolicy": "IfNotPresent"}}]


def weights_mounts(weights: Weights | None) -> list[Manifest]:
    """The mount of that volume."""
    return [{"name": each["name"], "mountPath": WEIGHTS_PATH, "readOnly": True} for each in weights_volumes(weights)]
