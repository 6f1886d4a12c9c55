"""Which environment variables does a vLLM process on a CPU run with?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from testbed.cache import cache_directory

KV_CACHE_GIB: Final = 1
"""Memory for the KV cache; on a CPU this variable overrules both memory flags of the command line."""

_PASSED_ON: Final = ("HOME", "LANG", "PATH", "TMPDIR")
"""All that is taken from the caller, so that nobody's ``VLLM_*`` or ``HF_*`` setting changes a test."""


def engine_process_environment(pod: Mapping[str, str] | None = None) -> dict[str, str]:
    """No network, no usage statistics, one thread that may run on any core, and caches away from the user's own.

    ``pod`` is the environment of a rendered container; it wins, so that the engine writes where it would in its pod.
    """
    own = {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CACHE_ROOT": str(cache_directory() / "engine" / "vllm-cache"),
        "VLLM_CPU_KVCACHE_SPACE": str(KV_CACHE_GIB),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        # An engine takes a third of the time to start. It is safe with one thread: a forked process has no copy of
        # OpenMP's other threads.
        "VLLM_WORKER_MULTIPROC_METHOD": "fork",
    }
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | own | dict(pod or {})
