"""How a container runs a vLLM server: its image, and the command line of one replica.

The vLLM command line of one replica.
The image's entry point is ``vllm serve``, so these are its arguments, model first. Every flag whose default changed
between releases, or depends on the GPU, is given explicitly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.decisions.outcomes import EngineSettings, Option, Split
from plimsoll.domain.engines.engine_choice import (
    CpuOffload,
    Drafting,
    EngineVersion,
    LoraSlots,
    MediaUse,
    Residency,
    WeightStreaming,
)
from plimsoll.domain.requests.workload import CACHE_PATH, ENGINE_PORT, TEMPORARY_PATH, WorkloadOptions
from plimsoll.domain.units import GIB, ceil_div
from plimsoll.engines.base import Launch, Probe
from plimsoll.engines.vllm.model_runner import runner_environment

DRAIN_SECONDS = 90
"""How long running requests may finish after SIGTERM, where nothing was decided for the pool: pools of earlier releases
keep it, so that an upgrade of the operator restarts no engine."""

_PERMISSION = "--allow-deprecated-quantization"

SINCE_SHUTDOWN_TIMEOUT = (0, 18)
"""The first release with ``--shutdown-timeout``. Earlier ones end running requests at once."""


def engine_arguments(options: WorkloadOptions, choice: Option) -> list[str]:
    """Arguments of ``vllm serve`` for one replica of ``choice``."""
    settings = choice.settings
    arguments = [options.model_source, "--served-model-name", options.key.name]
    if options.revision is not None:
        arguments += ["--revision", options.revision]
    arguments += [
        *("--max-model-len", str(settings.max_model_len)),
        *("--max-num-seqs", str(settings.max_num_seqs)),
        *("--max-num-batched-tokens", str(settings.max_num_batched_tokens)),
        *("--gpu-memory-utilization", f"{settings.gpu_memory_utilization_percent / 100:.2f}"),
        *("--tensor-parallel-size", str(choice.split.tensor_parallel)),
        *("--dtype", settings.dtype),
        *("--kv-cache-dtype", settings.kv_cache_dtype),
    ]
    arguments += [*_split(choice.split), *_loading(settings, options)]
    arguments += [*_residency(settings.residency), *_host_cache(settings.host_cache_bytes)]
    arguments += [*_adapters(settings.lora), *_media(settings.media)]
    if settings.drafting is not None:
        arguments += ["--speculative-config", _speculation(settings.drafting, options)]
    arguments += ["--port", str(ENGINE_PORT)]
    if _version(options) >= SINCE_SHUTDOWN_TIMEOUT:
        arguments += ["--shutdown-timeout", str(drain_seconds(options))]
    return [*arguments, *options.extra_args]


def _split(split: Split) -> list[str]:
    """Flags of a split besides its tensor-parallel size."""
    flags = {"--pipeline-parallel-size": split.pipeline_parallel, "--data-parallel-size": split.data_parallel}
    given = [word for flag, size in flags.items() if size > 1 for word in (flag, str(size))]
    return [*given, "--enable-expert-parallel"] if split.expert_parallel else given


def _loading(settings: EngineSettings, options: WorkloadOptions) -> list[str]:
    """Flags that decide what is made of the checkpoint."""
    flags = {"--runner": settings.runner, "--quantization": settings.quantization}
    given = [word for flag, value in flags.items() if value is not None for word in (flag, value)]
    if settings.deprecated_quantization and not _permits_deprecated(options.extra_args):
        given.append(_PERMISSION)
    return [*given, "--enforce-eager"] if settings.enforce_eager else given


def _permits_deprecated(arguments: Iterable[str]) -> bool:
    """Whether the user's own arguments permit it: the flag must not be given twice, because engines run with it."""
    return any(each.replace("_", "-").lower() == _PERMISSION for each in arguments)


def drain_seconds(options: WorkloadOptions) -> int:
    """How long running requests may finish after SIGTERM (``--shutdown-timeout``)."""
    return DRAIN_SECONDS if options.drain_seconds is None else options.drain_seconds


def _residency(residency: Residency | None) -> list[str]:
    """Flags for weights that stay in host memory. ``--cpu-offload-gb`` counts in GiB."""
    match residency:
        case None:
            return []
        case CpuOffload(bytes_per_gpu):
            return ["--cpu-offload-gb", _gib(bytes_per_gpu)]
        case WeightStreaming(group, layers, prefetch):
            flags = {
                "--offload-group-size": group,
                "--offload-num-in-group": layers,
                "--offload-prefetch-step": prefetch,
            }
            return [part for flag, value in flags.items() for part in (flag, str(value))]


def _host_cache(size: int) -> list[str]:
    """Flags for KV cache in host memory: GiB of all ranks together. The backend has no default in the first releases.

    Source: ``config/cache.py``, ``kv_offloading_size``.
    """
    return ["--kv-offloading-size", _gib(size), "--kv-offloading-backend", "native"] if size else []


def _gib(size: int) -> str:
    """Bytes in GiB, without zeros at the end."""
    return f"{size / GIB:.9f}".rstrip("0").rstrip(".")


def _adapters(lora: LoraSlots | None) -> list[str]:
    if lora is None:
        return []
    return ["--enable-lora", "--max-loras", str(lora.adapters), "--max-lora-rank", str(lora.max_rank)]


def _media(media: MediaUse) -> list[str]:
    flags = ["--language-model-only"] if media.text_only else []
    if media.copies_encoder:
        flags += ["--mm-encoder-tp-mode", "data"]
    limits = {"image": media.images, "video": media.videos}
    given = {modality: most for modality, most in limits.items() if most is not None}
    return [*flags, "--limit-mm-per-prompt", json.dumps(given)] if given else flags


def _speculation(drafting: Drafting, options: WorkloadOptions) -> str:
    """One JSON object with the fields of vLLM's ``SpeculativeConfig``.

    The method is always named: without it the engine guesses it from the draft's name. A model with its own predictor
    needs no other draft, so none is named.
    """
    fields = {
        "method": drafting.method.value,
        "num_speculative_tokens": drafting.tokens,
        "model": options.draft_source,
        "revision": options.draft_revision,
    }
    return json.dumps({field: value for field, value in fields.items() if value is not None})


def _version(options: WorkloadOptions) -> tuple[int, ...]:
    return tuple(int(part) for part in options.engine_version.split("."))


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

START_LIMIT = "VLLM_ENGINE_READY_TIMEOUT_S"
"""The engine's own limit of its start-up, in seconds."""

RESERVED_ENVIRONMENT = ("VLLM_PORT", START_LIMIT)
"""Variables that the engine or the operator uses itself. ``VLLM_PORT`` is the base of its ranks' ports."""

BASE_START_SECONDS = 900
"""Time for compilation, profiling, graph capture and warm-up: up to 103, 250 and 25 s in start-up logs, with
reserve."""

START_SECONDS_PER_GIB = 12
"""Time to load weights from a slow disk or hub: about 85 MiB/s. Slow loads must not be killed half-way."""

_INSTINCT = ("gfx94", "gfx95")
"""The beginnings of AMD's targets that have those kernels."""

ENGINE_UID = 2000
"""The user that vLLM's image prepares (group 0)."""

_HEALTH = "/health"
_PERIOD_SECONDS = 10


def launch(options: WorkloadOptions, choice: Option) -> Launch:
    """Return how a container runs one replica of ``choice``. The engine's own start-up limit is that of the probe."""
    start = _start_seconds(choice)
    return Launch(
        arguments=tuple(engine_arguments(options, choice)),
        environment=WRITTEN_PATHS
        | {START_LIMIT: str(start), "VLLM_NO_USAGE_STATS": "1"}
        | _kernels(choice.gpu)
        | runner_environment(choice.settings.model_runner),
        user_id=ENGINE_UID,
        start_seconds=start,
        drain_seconds=drain_seconds(options),
        startup=Probe(_HEALTH, _PERIOD_SECONDS, ceil_div(start, _PERIOD_SECONDS)),
        readiness=Probe(_HEALTH, period_seconds=5, failures=3),
        liveness=Probe(_HEALTH, _PERIOD_SECONDS, failures=6),
    )


def _kernels(gpu: GpuType) -> dict[str, str]:
    """Return the variable for AMD's own kernels, which vLLM leaves off.

    Source: AMD's guide for vLLM on MI300X, MI325X, MI350X and MI355X
    (https://rocm.docs.amd.com/projects/ai-ecosystem/en/latest/optimization/vllm-v1-optimization.html).
    """
    return {"VLLM_ROCM_USE_AITER": "1"} if (gpu.gfx or "").startswith(_INSTINCT) else {}


def _start_seconds(choice: Option) -> int:
    weights_gib = ceil_div(choice.estimate.weights_bytes * choice.split.gpus, GIB)
    return BASE_START_SECONDS + START_SECONDS_PER_GIB * weights_gib


_REPOSITORIES = {Vendor.NVIDIA: "vllm/vllm-openai", Vendor.AMD: "vllm/vllm-openai-rocm"}
"""Source: Docker Hub, organisation ``vllm``."""


_CUDA_13 = EngineVersion(0, 20)
"""The first release whose images have CUDA 13 (#39878). Those before, from 0.6 on, have CUDA 12."""

_OLDEST_DRIVERS = {12: 525, 13: 580}
"""The oldest branches of NVIDIA's driver by CUDA's major version. Source: table 1 of
https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"""

_COMPATIBILITY = "VLLM_ENABLE_CUDA_COMPATIBILITY"
"""The image's libraries for older drivers, which some data-centre GPUs can use. They are off by default (#33992)."""


def least_driver(release: EngineVersion, environment: Mapping[str, str | None]) -> int:
    """Return the oldest branch of NVIDIA's driver with which a release's image starts; 0 where that is not known."""
    if environment.get(_COMPATIBILITY, "0") not in ("", "0", "false", "False"):
        return 0
    return _OLDEST_DRIVERS[13 if release >= _CUDA_13 else 12]


def image(vendor: Vendor, release: str, _: str | None = None) -> str:
    """Return the image of a release for the GPUs of a vendor: one for all targets."""
    return f"{_REPOSITORIES[vendor]}:v{release}"
