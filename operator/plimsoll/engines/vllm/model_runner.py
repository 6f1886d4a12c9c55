"""Variables of the engine's process: those that choose its model runner, and those that change its memory.

The model runner, of vLLM's two, that an engine is made to use, and its offload of weights.
The second runner ignores the flags of an offload up to 0.27, without a word: it loads all weights onto the GPU.
Sources: ``v1/worker/gpu/model_runner.py`` has no ``create_offloader`` in 0.22 to 0.27 and has one since 0.28;
``v1/worker/gpu_model_runner.py``, the first runner, always has; vllm#51396.

Variables of the engine's process that can change its GPU memory, and that no memory law includes.
Names from vLLM's ``envs.py``, read in 0.8 to 0.32, and from PyTorch's and NCCL's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.engines.engine_choice import EngineVersion, Residency
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.laws.runners import NOBODY, SWITCH

_RUNNERS: Mapping[str, int] = {"0": 1, "1": 2}
_VALUES: Mapping[int, str] = {number: value for value, number in _RUNNERS.items()}


def runner_environment(runner: int | None) -> dict[str, str]:
    """Return the variable that makes an engine use a runner; empty where it may choose."""
    return {} if runner is None else {SWITCH: _VALUES[runner]}


def named_runner(environment: Mapping[str, str]) -> int | None:
    """Return the runner that these variables name, 1 or 2; None where they name none."""
    return _RUNNERS.get(environment.get(SWITCH, "").strip())


def model_runner(version: EngineVersion, environment: Mapping[str, str], residency: Residency | None) -> int | None:
    """Return the runner that an engine is made to use, 1 or 2; None where it chooses by the model.

    Args:
        version: the release.
        environment: the variables of the engine's container whose values are known. The user's word counts.
        residency: the weights that are to stay in host memory. With any, the first runner is named wherever the
            second one might serve and cannot keep them there.
    """
    named = named_runner(environment)
    if named is not None:
        return named
    law = law_for(version)
    needs_first = residency is not None and law.runner_v2 != NOBODY and not law.v2_offloads_weights
    return 1 if needs_first else None


def offload_refusal(version: EngineVersion, runner: int | None) -> str | None:
    """Return why a runner keeps no weights in host memory, and what to write; None where it does."""
    if runner is None or law_for(version, runner).offloads_weights_of_runner(runner):
        return None
    return (
        f"Model runner V2 of vLLM {version} loads all weights onto the GPU: it has no offload before 0.28. Remove "
        f"{SWITCH} from spec.podTemplate.env, or take a later release."
    )


def other_runner(request: Request, gpu: GpuType) -> tuple[int, str] | None:
    """Return the runner that does not serve a request, and the variable that names it; None where there is but one."""
    engine = request.engine
    law = law_for(engine.version, engine.model_runner)
    if law_for(engine.version).runner_v2 == NOBODY:
        return None
    other = 1 if law.runs_v2(request.model, gpu) else 2
    return other, f"{SWITCH}={_VALUES[other]}"


_NAMES = (
    "NCCL_BUFFSIZE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NVLS_ENABLE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "VLLM_ALL2ALL_BACKEND",
    "VLLM_ALLREDUCE_USE_SYMM_MEM",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_DEEPEP_BUFFER_SIZE_MB",
    "VLLM_FLASHINFER_MOE_BACKEND",
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    "VLLM_FUSED_MOE_CHUNK_SIZE",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    "VLLM_MLA_DISABLE",
    "VLLM_MOE_DP_CHUNK_SIZE",
    "VLLM_ROCM_USE_AITER",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_FLASHINFER_MOE_FP4",
    "VLLM_USE_FLASHINFER_MOE_FP8",
    "VLLM_USE_FLASHINFER_MOE_FP16",
    "VLLM_USE_NCCL_SYMM_MEM",
    "VLLM_USE_V1",
)

_HARMLESS = {"VLLM_USE_V1": "1", "VLLM_MLA_DISABLE": "0"}
"""Values that are those of the releases with a law."""


def unfollowed_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that can change the memory, as ``NAME=value``."""
    for name in _NAMES:
        if name in environment and environment[name] != _HARMLESS.get(name):
            yield f"{name}={environment[name]}"
    if SWITCH in environment and named_runner(environment) is None:
        yield f"{SWITCH}={environment[SWITCH]}"
