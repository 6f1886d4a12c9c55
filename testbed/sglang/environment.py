"""A folder with SGLang for the Python of the real vLLM (:mod:`testbed.engine.environment`).

SGLang's own requirements name kernels that PyPI has for CUDA alone. A server on a CPU imports them and calls none. So
the package goes into a folder of its own without its requirements, with the few that vLLM lacks as well, and an empty
package stands for the kernels.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

from testbed.cache import cache_directory
from testbed.engine.environment import ensure_engine, environment_key

VERSION: Final = "0.5.23"
"""The SGLang release whose parser and server the tests run."""

_PINNED: Final = (
    f"sglang=={VERSION}",
    "gguf==0.19.0",
    "ipython==9.18.1",
    "orjson==3.13.0",
    "soundfile==0.14.0",
    "torchvision==0.28.0",
    "traitlets==5.16.1",
)
_KERNELS: Final = Path(__file__).with_name("kernels")
_COMPLETE: Final = "complete"


def ensure_sglang() -> Path:
    """Return the folder with SGLang, installed now if it is not there (240 MB).

    Raises:
        RuntimeError: pip failed; the message has its output.
    """
    identity = hashlib.sha256("\n".join((environment_key(), *_PINNED)).encode()).hexdigest()[:12]
    folder = cache_directory() / "sglang" / f"{VERSION}-{identity}"
    if not (folder / _COMPLETE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(ensure_engine()), "-m", "pip", "install", "--no-input", "--no-deps", "--upgrade"]
        ran = subprocess.run([*command, "--target", str(folder), *_PINNED], check=False, capture_output=True, text=True)
        if ran.returncode != 0:
            raise RuntimeError(f"SGLang {VERSION} could not be installed into {folder}:\n{ran.stderr}")
        (folder / _COMPLETE).touch()
    return folder


def sglang_environment(home: Path) -> dict[str, str]:
    """Return the environment of a process that runs SGLang on a CPU. What it writes goes to ``home``."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{ensure_sglang()}:{_KERNELS}",
        "SGLANG_USE_CPU_ENGINE": "1",
    }
