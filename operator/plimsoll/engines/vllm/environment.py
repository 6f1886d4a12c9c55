"""Variables of the engine's process that can change its GPU memory, and that no memory law includes.

Names from vLLM's ``envs.py``, read in 0.8 to 0.32, and from PyTorch's and NCCL's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plimsoll.engines.vllm.memory.runners import SWITCH
from plimsoll.engines.vllm.model_runner import named_runner

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
