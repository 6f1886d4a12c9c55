"""How a container runs a vLLM server."""

from __future__ import annotations

from plimsoll.domain.outcomes import Option
from plimsoll.domain.units import GIB, ceil_div
from plimsoll.domain.workload import CACHE_PATH, TEMPORARY_PATH, WorkloadOptions
from plimsoll.engines.base import Launch, Probe
from plimsoll.engines.vllm.arguments import drain_seconds, engine_arguments
from plimsoll.engines.vllm.model_runner import runner_environment

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
        | runner_environment(choice.settings.model_runner),
        user_id=ENGINE_UID,
        start_seconds=start,
        drain_seconds=drain_seconds(options),
        startup=Probe(_HEALTH, _PERIOD_SECONDS, ceil_div(start, _PERIOD_SECONDS)),
        readiness=Probe(_HEALTH, period_seconds=5, failures=3),
        liveness=Probe(_HEALTH, _PERIOD_SECONDS, failures=6),
    )


def _start_seconds(choice: Option) -> int:
    weights_gib = ceil_div(choice.estimate.weights_bytes * choice.split.gpus, GIB)
    return BASE_START_SECONDS + START_SECONDS_PER_GIB * weights_gib
