"""The reason why an engine crashed, whichever engine it was.

A pod's message is searched for the texts of every engine, and then for those of the parts below any engine. Their texts
differ, and the user's own image may contain another engine than the one that was asked for.
"""

from __future__ import annotations

import re

from plimsoll.domain.engine_failures import MESSAGE_LIMIT, EngineFailure, StartFailure
from plimsoll.engines.registry import ENGINES

_NAMED = r"(?:\w*(?:Error|Exception)\w*: [^\n]*)?"
"""The name of a Python exception and the words in front of a text, if there are any."""

_OF_THE_NODE: tuple[tuple[StartFailure, re.Pattern[str]], ...] = (
    (
        StartFailure.WRONG_PLATFORM,
        re.compile(r"(?:exec|failed to|OCI runtime|standard_init)[^\n]*exec format error[^\n]*"),
    ),
    (
        StartFailure.DRIVER_TOO_OLD,
        re.compile(
            _NAMED
            + r"(?:The NVIDIA driver on your system is too old|CUDA driver version is insufficient for CUDA runtime"
            r"|system has unsupported display driver / cuda driver combination|unsatisfied condition: (?:cuda|driver)"
            r"|forward compatibility was attempted on non supported HW)[^\n]*"
        ),
    ),
    (
        StartFailure.GPU_TOO_OLD,
        re.compile(
            _NAMED + r"(?:no kernel image is available for execution on the device"
            r"|Unable to find code object for all current devices)[^\n]*"
        ),
    ),
    (
        StartFailure.GPU_UNUSABLE,
        re.compile(
            _NAMED + r"(?:no CUDA-capable device is detected|CUDA-capable device\(s\) is/are busy or unavailable"
            r"|all CUDA-capable devices are busy or unavailable|No CUDA GPUs are available|GPU is lost"
            r"|uncorrectable (?:ECC|NVLink) error|system not yet initialized|Driver/library version mismatch"
            r"|Found no NVIDIA driver on your system|no ROCm-capable device is detected|No HIP GPUs are available)"
            r"[^\n]*"
        ),
    ),
)
"""Texts of the CUDA and HIP runtimes, PyTorch, NVML, NVIDIA's container runtime and the kernel, whatever the engine is.

Sources: ``cudaGetErrorString`` and ``hipGetErrorString`` of the runtimes, ``torch/csrc/cuda/Module.cpp`` and
``torch/cuda/__init__.py`` of PyTorch, ``nvmlErrorString``, libnvidia-container's check of requirements, and ENOEXEC of
execve(2).
"""


def read_failure(message: str, container_reason: str = "") -> EngineFailure:
    """Find the engine's own reason at the end of its log; ``container_reason`` is Kubernetes' (``OOMKilled``)."""
    for engine in ENGINES.values():
        found = engine.find_failure(message)
        if found is not None:
            return found
    for reason, pattern in _OF_THE_NODE:
        text = pattern.search(message)
        if text:
            return EngineFailure(reason, text.group(0).strip()[:MESSAGE_LIMIT])
    if container_reason == "OOMKilled":
        words = "The container used more memory than its limit; raise spec.podTemplate.resources.limits.memory."
        return EngineFailure(StartFailure.HOST_MEMORY, words)
    last = next((line for line in reversed(message.splitlines()) if line.strip()), "The engine left no message.")
    return EngineFailure(StartFailure.UNKNOWN, last.strip()[:MESSAGE_LIMIT])
