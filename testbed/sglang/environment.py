"""A folder with SGLang for the Python of the real vLLM (:mod:`testbed.engine.environment`), which has what both need.

SGLang's own requirements name kernels that PyPI has for CUDA alone. The parser needs none of them, so the package goes
into a folder of its own without its requirements, with the three small ones that vLLM lacks.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Final

from testbed.cache import cache_directory
from testbed.engine.environment import ensure_engine, environment_key

VERSION: Final = "0.5.23"
"""The SGLang release whose parser the tests run."""

_PINNED: Final = (f"sglang=={VERSION}", "orjson==3.13.0", "ipython==9.18.1", "traitlets==5.16.1")
_COMPLETE: Final = "complete"


def ensure_sglang() -> tuple[Path, Path]:
    """Return the Python and the folder with SGLang for it, installed now if it is not there (230 MB).

    Raises:
        RuntimeError: pip failed; the message has its output.
    """
    python = ensure_engine()
    identity = hashlib.sha256("\n".join((environment_key(), *_PINNED)).encode()).hexdigest()[:12]
    folder = cache_directory() / "sglang" / f"{VERSION}-{identity}"
    if not (folder / _COMPLETE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(python), "-m", "pip", "install", "--no-input", "--no-deps", "--upgrade"]
        ran = subprocess.run([*command, "--target", str(folder), *_PINNED], check=False, capture_output=True, text=True)
        if ran.returncode != 0:
            raise RuntimeError(f"SGLang {VERSION} could not be installed into {folder}:\n{ran.stderr}")
        (folder / _COMPLETE).touch()
    return python, folder
