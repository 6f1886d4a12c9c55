"""The reason why an engine crashed, whichever engine it was.

A pod's message is searched for the texts of every engine, and then for those of the parts below any engine. Their texts
differ, and the user's own image may contain another engine than the one that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from plimsoll.domain.engines.failures import MESSAGE_LIMIT, EngineFailure, StartFailure
from plimsoll.engines.registry import ENGINES

LONGEST_MESSAGE = 4_096
"""Characters. The kubelet keeps as much of a container's termination message
(``MaxContainerTerminationMessageLength``, 4 KiB); of a longer message the end is read, where an engine's reason is."""

_EXCEPTION = re.compile(r"\b\w*+: ")
_ERROR = ("Error", "Exception")
"""The name of a Python exception in front of a text. A word is taken whole or not at all: a search that may give
letters of a word back takes the third power of the length, and whoever runs a container writes its message."""

_STARTERS = re.compile(r"exec|failed to|OCI runtime|standard_init")
"""Words that begin a sentence of those who start containers."""

_OF_NO_ENGINE: tuple[tuple[StartFailure, re.Pattern[str]], ...] = (
    (
        StartFailure.DRIVER_TOO_OLD,
        re.compile(
            r"The NVIDIA driver on your system is too old|CUDA driver version is insufficient for CUDA runtime"
            r"|system has unsupported display driver / cuda driver combination|unsatisfied condition: (?:cuda|driver)"
            r"|forward compatibility was attempted on non supported HW"
        ),
    ),
    (
        StartFailure.GPU_TOO_OLD,
        re.compile(
            r"no kernel image is available for execution on the device"
            r"|Unable to find code object for all current devices"
        ),
    ),
    (
        StartFailure.GPU_UNUSABLE,
        re.compile(
            r"no CUDA-capable device is detected|CUDA-capable device\(s\) is/are busy or unavailable"
            r"|all CUDA-capable devices are busy or unavailable|No CUDA GPUs are available|GPU is lost"
            r"|uncorrectable (?:ECC|NVLink) error|system not yet initialized|Driver/library version mismatch"
            r"|no ROCm-capable device is detected|No HIP GPUs are available"
        ),
    ),
    (
        StartFailure.GPU_NOT_IN_CONTAINER,
        re.compile(
            r"Found no NVIDIA driver on your system|libcuda\.so\.1: cannot open shared object file"
            r"|Failed to infer device type"
        ),
    ),
    (
        StartFailure.DISK_FULL,
        re.compile(r"No space left on device|Not enough free disk space to download the file"),
    ),
    (
        StartFailure.MODEL,
        re.compile(
            r"Access to model \S{1,256} is restricted|Repo model \S{1,256} is gated|Cannot access gated repo for url"
            r"|You are trying to access a gated repo|Repository Not Found for url|Revision Not Found for url"
            r"|is not a local folder and is not a valid model identifier|We couldn't connect to '[^']{1,256}'"
            r"|429 Client Error: Too Many Requests for url"
        ),
    ),
    (StartFailure.NOT_WRITABLE, re.compile(r"\[Errno 30\] Read-only file system|\[Errno 13\] Permission denied")),
)
"""Texts of the CUDA and HIP runtimes, PyTorch, NVML, NVIDIA's container runtime, the kernel and the Hub's client.

Sources: ``cudaGetErrorString`` and ``hipGetErrorString`` of the runtimes, ``torch/csrc/cuda/Module.cpp`` and
``torch/cuda/__init__.py`` of PyTorch, ``nvmlErrorString``, libnvidia-container's check of requirements, ENOEXEC of
execve(2), ENOSPC of write(2), ``hf_raise_for_status`` and ``_check_disk_space`` of huggingface_hub, and ``cached_file``
of Transformers (``utils/hub.py``).
"""


def read_failure(message: str, container_reason: str = "") -> EngineFailure:
    """Find the engine's own reason at the end of its log; ``container_reason`` is Kubernetes' (``OOMKilled``)."""
    message = message[-LONGEST_MESSAGE:]
    for engine in ENGINES.values():
        found = engine.find_failure(message)
        if found is not None:
            return found
    found = next(_of_no_engine(message.split("\n")), None)
    if found is not None:
        return found
    if container_reason == "OOMKilled":
        words = "The container used more memory than its limit; raise spec.podTemplate.resources.limits.memory."
        return EngineFailure(StartFailure.HOST_MEMORY, words)
    last = next((line for line in reversed(message.splitlines()) if line.strip()), "The engine left no message.")
    return EngineFailure(StartFailure.UNKNOWN, last.strip()[:MESSAGE_LIMIT])


def _of_no_engine(lines: Sequence[str]) -> Iterator[EngineFailure]:
    """Yield what the lines say of node and model, the most basic reason first."""
    for line in lines:
        before, words, _ = line.rpartition("exec format error")
        if words and (starter := _STARTERS.search(before)):
            yield EngineFailure(StartFailure.WRONG_PLATFORM, line[starter.start() :].strip()[:MESSAGE_LIMIT])
    for reason, pattern in _OF_NO_ENGINE:
        for line in lines:
            if found := pattern.search(line):
                start = _start_of_exception(line[: found.start()])
                yield EngineFailure(reason, line[found.start() if start is None else start :].strip()[:MESSAGE_LIMIT])


def _start_of_exception(text: str) -> int | None:
    """The place of the first name of an exception."""
    named = (each for each in _EXCEPTION.finditer(text) if any(word in each[0] for word in _ERROR))
    return next((each.start() for each in named), None)
