"""The help for each reason of a condition or of an event. ``docs/reasons.md`` says the same at more length."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.public_words import ConditionReason as Why
from plimsoll.domain.public_words import LiveTrouble, PublicWord, RoutingTrouble

_LARGER = "force a larger tensor-parallel degree with spec.overrides, and report the error of the estimate"
_MORE_REPLICAS = "approve the change that is proposed, or raise spec.replicas"
_SPEC = "correct the field that is named here; `plimsoll plan -f FILE` checks it before it is applied"

WHAT_HELPS: Mapping[PublicWord | str, str] = MappingProxyType(
    {
        Why.PENDING: "wait; if this stays for minutes, read the log of the operator",
        Why.SUSPENDED: "set spec.suspend to false to go on",
        Why.NAME_CONFLICT: "rename this InferenceDeployment, or remove the other object",
        Why.NAMESAKE_LEAVING: "wait until the object of that name is gone",
        Why.CHANGE_WAITS_FOR_GPUS: "free GPUs, or take the change back",
        Why.PLACEMENT_TOO_SMALL: "approve the move that is proposed, set spec.rebalancing.mode to Auto, or lower the "
        "load",
        Why.WAITING_FOR_NODE_RESOURCES: "lower spec.podTemplate.resources.requests, or move other pods off the "
        "GPU nodes",
        Why.WAITING_FOR_QUOTA: "raise the entry of the ResourceQuota that is named here",
        Why.WAITING_FOR_GPUS: "wait, free GPUs, or add a node",
        Why.NO_GPU_FITS: "add nodes with more GPU memory, or ask for a smaller model: no single change of the spec is "
        "enough",
        Why.NOT_PLANNED: "read the condition Planned",
        Why.PODS_NOT_CREATED: "correct what the API server names: a quota, a policy or an admission webhook",
        Why.PODS_REJECTED: "repair the node, or cordon it",
        Why.REPLICAS_CONTESTED: "remove what scales this Deployment, e.g. a HorizontalPodAutoscaler, and scale the "
        "InferenceDeployment instead",
        Why.WAITING_FOR_SCHEDULER: "free what the scheduler misses; where that is GPUs, another place is tried after a "
        "grace period",
        Why.WAITING_FOR_NODES: "wait; if no node comes, read the autoscaler's log and look at the cloud's quota",
        Why.WAITING_FOR_QUEUE: "wait, or look at the queue with kubectl describe localqueue",
        Why.WEIGHTS_ARRIVING: "wait; the log of the pod with the label plimsoll.dev/weights names each file",
        Why.WEIGHTS_FAILED: "correct what is named here: the model or its revision, the source and its Secret, the "
        "token, or the room on the claim",
        Why.CREATING_PODS: "wait a moment",
        Why.ROLLING_OUT: "wait: nothing that serves ends before its successor serves",
        Why.SOME_REPLICAS_SERVE: "wait, or look at the pods that are not ready with kubectl get pods",
        Why.ENGINES_STARTING: "wait: it takes minutes for large models; the logs of the pods show how far they are",
        Why.NO_REPLICA_SERVES: "read the conditions Planned and Placed",
        Why.REPLACEMENT_LATE: "correct what is named here, or change the spec",
        Why.RESOLVING_MODEL: "wait a moment",
        Why.READING_VOLUMES: "wait a moment",
        Why.READING_IMAGE: "wait a moment",
        Why.PLANNING_QUEUED: "wait a moment",
        Why.TOKEN_SECRET_MISSING: "create the Secret and its entry, or correct spec.model.tokenSecretRef",
        Why.TOKEN_SECRET_UNREADABLE: "let the operator read this Secret (hub.tokenSecretNames of the chart), or give "
        "it a token of its own (hub.tokenSecret)",
        Why.PRIORITY_CLASS_MISSING: "create the PriorityClass, or correct spec.podTemplate.priorityClassName",
        Why.CLAIM_UNUSABLE: "make what the claim lacks, or name another one",
        Why.MODEL_NOT_FOUND: "correct spec.model, or name a Secret with a token that may read the model in "
        "spec.model.tokenSecretRef",
        Why.UNSUPPORTED_MODEL: "choose a model of a known class (plimsoll models lists them), or another checkpoint of "
        "it",
        Why.INVALID_MODEL_CONFIG: "correct the model's config.json, or the configuration in spec.model.config",
        Why.MODEL_SOURCE_UNAVAILABLE: "wait: it is asked again and again; or give the configuration in "
        "spec.model.config",
        Why.NOT_PERMITTED: "take the field away, or ask the cluster's admin to extend podPolicy in the chart",
        Why.INVALID_SPEC: _SPEC,
        Why.TOO_LARGE: "shrink the object, or delete large ones of its namespace that nobody needs",
        StartFailure.WEIGHTS_TOO_LARGE: _LARGER,
        StartFailure.NO_KV_CACHE: _LARGER,
        StartFailure.KV_CACHE_TOO_SMALL: "lower spec.contextLength, or force a larger tensor-parallel degree with "
        "spec.overrides",
        StartFailure.MEMORY_HELD_BY_OTHERS: "find the process that holds memory of the GPU (nvidia-smi on the node)",
        StartFailure.MAMBA_BLOCKS: "lower spec.concurrency, or set spec.engine.maxSequences",
        StartFailure.OUT_OF_MEMORY: "lower spec.engine.gpuMemoryUtilizationPercent or spec.engine.maxBatchedTokens",
        StartFailure.OPTIONS_REFUSED: "correct the field, or the entry of spec.engine.extraArgs, that is named here",
        StartFailure.HEADS_NOT_DIVISIBLE: "remove spec.overrides, or choose a degree by which the heads divide",
        StartFailure.UNSUPPORTED_GPU: "choose another spec.precision, or other GPUs in spec.gpu",
        StartFailure.GPU_TOO_OLD: "name an image that is built for this GPU in spec.engine.image, or other GPUs in "
        "spec.gpu",
        StartFailure.WRONG_PLATFORM: "name the image's platforms in spec.engine.platforms, or another image in "
        "spec.engine.image",
        StartFailure.DRIVER_TOO_OLD: "update the NVIDIA driver of the node",
        StartFailure.GPU_UNUSABLE: "look at the GPU (nvidia-smi and dmesg on the node), and cordon the node",
        StartFailure.GPU_NOT_IN_CONTAINER: "name the RuntimeClass for GPUs in spec.podTemplate.runtimeClassName "
        "(kubectl get runtimeclass), or mend the container runtime of the node",
        StartFailure.HOST_MEMORY: "raise spec.podTemplate.resources.limits.memory",
        StartFailure.MODEL: "name a Secret with a token that may read the model in spec.model.tokenSecretRef, correct "
        "spec.model.name, or let the pods reach the Hub",
        StartFailure.DISK_FULL: "name a larger claim in spec.podTemplate.modelCache.claimName, raise its sizeLimit, or "
        "free the disk of the node",
        StartFailure.NOT_WRITABLE: "mount a volume at that path with spec.podTemplate.volumes and volumeMounts, or set "
        "the variable that names the folder",
        StartFailure.IMAGE: "correct spec.engine.image or spec.podTemplate.imagePullSecrets",
        StartFailure.OTHER_CONTAINER: "read the log of that container, and correct its entry in spec.podTemplate",
        StartFailure.CONFIGURATION: "create the object that the container refers to",
        StartFailure.UNKNOWN: "read the log of the pod",
        LiveTrouble.KV_BOUND: f"{_MORE_REPLICAS}, or lower spec.contextLength",
        LiveTrouble.BATCH_BOUND: f"{_MORE_REPLICAS} or spec.engine.maxSequences",
        LiveTrouble.DECODE_BOUND: f"{_MORE_REPLICAS}, or allow faster GPUs in spec.gpu",
        LiveTrouble.HOST_BOUND: f"{_MORE_REPLICAS}, or raise spec.podTemplate.resources.requests.cpu",
        LiveTrouble.PREFILL_BOUND: f"{_MORE_REPLICAS}, or allow faster GPUs in spec.gpu",
        LiveTrouble.QUEUE_BOUND: _MORE_REPLICAS,
        LiveTrouble.PREEMPTION_STORM: f"{_MORE_REPLICAS}, or lower spec.engine.maxSequences",
        LiveTrouble.REPLICA_SLOW: "look at the GPU (nvidia-smi and dmesg on the node), and cordon the node if it is at "
        "fault",
        LiveTrouble.REPLICA_SILENT: "look at the metrics of that pod (/metrics) and at its log",
        LiveTrouble.STUCK_REPLICA: "look at the pods that are not ready, or that have a queue and answer nothing",
        LiveTrouble.PAGE_LIVELOCK: "lower spec.contextLength, or turn the prefix cache off in spec.engine.extraArgs, "
        "and restart the pod",
        LiveTrouble.IMBALANCED: "look at the router or the gateway, which sends too much to one of them",
        LiveTrouble.PROMISE_MISSED: "relax spec.slo, or allow faster GPUs in spec.gpu",
        RoutingTrouble.GATEWAY_MISSING: "install the CRDs of the Gateway API Inference Extension 1.5.0 (kubectl apply "
        "-f https://github.com/kubernetes-sigs/gateway-api-inference-extension/releases/download/v1.5.0/manifests.yaml)"
        ", set the chart's value routing to true, or set spec.routing.mode to Service",
        RoutingTrouble.ROUTE_NOT_ACCEPTED: "ask the admin of the Gateway to admit routes of this namespace "
        "(allowedRoutes of its listener) and InferencePools, or set spec.routing.mode to Standalone",
        RoutingTrouble.ROUTER_NOT_READY: "look at the pods of its Deployments, with the suffixes -router and -picker",
        RoutingTrouble.ROUTER_REFUSED: "correct what the API server names: a policy, a quota or an admission webhook, "
        "or set spec.routing.mode to Service",
        LiveTrouble.TOO_SLOW: "approve the move that is proposed, allow faster GPUs in spec.gpu, or relax spec.slo",
    }
)

_REPORT_IT = "report this with the log of the operator"
"""For the words of an exception of the operator."""

WHAT_HELPS_MARK = "What helps: "
"""How the sentence with what helps begins."""

ALL_IS_WELL = frozenset(
    {
        Why.PLACEMENT_KEPT,
        Why.PLACEMENT_DECIDED,
        Why.PODS_SCHEDULED,
        Why.ALL_REPLICAS_SERVE,
        Why.SERVING,
        Why.SCALED_TO_ZERO,
    }
)
"""The reasons after which nothing has to help. What is scaled to zero says itself what starts it."""


def why_and_help(reason: PublicWord | str, why: str, helps: str = "") -> str:
    """Return why something is so, as a whole sentence, and what helps. ``helps`` is known better than by the reason."""
    opening, ending = why.strip(), help_sentence(reason, helps)
    if ending and opening and not opening.endswith((".", "!", "?")):
        opening = f"{opening}."
    return " ".join(part for part in (opening, ending) if part)


def help_sentence(reason: PublicWord | str, helps: str = "") -> str:
    """Return a sentence with what helps; empty if all is well. ``helps`` is known better than by the reason."""
    if reason in ALL_IS_WELL:
        return ""
    return f"{WHAT_HELPS_MARK}{helps or WHAT_HELPS.get(reason, _REPORT_IT)}."
