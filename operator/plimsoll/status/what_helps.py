"""What helps against each failed start, in one sentence: the object names it, so that nobody has to look it up."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from plimsoll.domain.engines.failures import StartFailure

_LARGER = "force a larger tensor-parallel degree with spec.overrides, and report the error of the estimate"

WHAT_HELPS: Mapping[StartFailure, str] = MappingProxyType(
    {
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
        StartFailure.CONFIGURATION: "create the object that the container refers to",
        StartFailure.UNKNOWN: "read the log of the pod",
    }
)
"""By the reason of the failure. docs/reasons.md says the same at more length."""


def help_sentence(reason: StartFailure) -> str:
    """Return the sentence that follows the words of the engine."""
    return f"What helps: {WHAT_HELPS[reason]}."
