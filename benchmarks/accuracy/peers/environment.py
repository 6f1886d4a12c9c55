"""Where is a Python that has a peer's package? Installed on first use, in an environment of its own in the cache.

Never the project's environment: the peers pin packages of their own, and no test needs them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.accuracy.prediction import PeerUnavailable
from testbed.cache import build_lock, cache_directory

_HERE: Final = Path(__file__).parent
_COMPLETE: Final = "complete"
_STDERR: Final = 2
_PATIENCE_SECONDS: Final = 900


def ensure_environment(name: str) -> Path:
    """The Python of an environment with exactly what ``requirements/NAME.txt`` pins, made now if it is not there.

    Raises:
        PeerUnavailable: pip failed; its output is on stderr.
    """
    requirements = _HERE / "requirements" / f"{name}.txt"
    directory = cache_directory() / "peers" / f"{name}-{_key(requirements)}"
    python = directory / "env" / "bin" / "python"
    with build_lock():
        if not (directory / _COMPLETE).exists():
            sys.stderr.write(f"[accuracy] {name} goes into {directory}\n")
            _run([sys.executable, "-m", "venv", str(directory / "env")])
            pip = [str(python), "-m", "pip", "install", "--no-input", "--quiet", "--no-deps"]
            _run([*pip, "--requirement", str(requirements)])
            (directory / _COMPLETE).write_text(requirements.read_text())
    return python


def ask(name: str, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Answers of the worker ``NAME_worker.py`` in the peer's environment, one JSON object a question, in order.

    Raises:
        PeerUnavailable: the environment cannot be made, or the worker ended without all answers.
    """
    asked = "".join(f"{json.dumps(question)}\n" for question in questions)
    python = ensure_environment(name.replace("_", "-"))
    worker = _HERE / "workers" / f"{name}_worker.py"
    try:
        finished = subprocess.run(  # noqa: S603 - our own script, in an environment made above
            [str(python), "-I", str(worker)],
            input=asked,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailable(f"{name} did not answer within {_PATIENCE_SECONDS} s") from error
    answers = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode or len(answers) != asked.count("\n"):
        last = finished.stderr.strip().splitlines()[-1:] or ["nothing on stderr"]
        raise PeerUnavailable(f"{name} ended with status {finished.returncode}: {last[0]}")
    return answers


def _key(requirements: Path) -> str:
    interpreter = f"{sys.implementation.cache_tag}-{platform.system()}-{platform.machine()}"
    return hashlib.sha256(f"{interpreter}\n{requirements.read_text()}".encode()).hexdigest()[:12]


def _run(command: list[str]) -> None:
    finished = subprocess.run(command, check=False, stdout=_STDERR)  # noqa: S603 - python and pip, by path
    if finished.returncode:
        raise PeerUnavailable(
            f"its package could not be installed (exit status {finished.returncode}, see the output above)"
        )
