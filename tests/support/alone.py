"""Programs in a Python of their own that finds only some of what is installed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

OTHER_EXTRAS = frozenset(
    {
        "aiohttp", "aiolimiter", "httpcore2", "httpx2", "huggingface_hub", "kopf", "kubernetes",
        "prometheus_api_client", "prometheus_client", "requests", "urllib3",
    }
)  # fmt: skip
"""Modules that only other extras of the package install than the solver."""

EXTRAS = OTHER_EXTRAS | {"highspy", "numpy"}
"""Those and the solver with what it needs."""

_REFUSAL = """
import sys
sys.path.insert(0, {operator!r})

class Refusal:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if {refuses}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refusal())
"""

_COMMAND = """
import atexit, json
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=open({listing!r}, "w")))
from plimsoll.cli.main import main
sys.argv = ["plimsoll", *{words!r}]
main()
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended, and the modules that it had imported."""

    status: int
    out: str
    err: str
    modules: frozenset[str] = frozenset()


def with_modules(program: str, allowed: frozenset[str]) -> Ran:
    """Run a program that finds the package, these top-level modules, and nothing else."""
    return _run(_refusal(f"top not in {set(allowed) | {'plimsoll'}!r}") + program)


def command(words: Sequence[str], folder: Path, *, refused: frozenset[str] = EXTRAS) -> Ran:
    """Run the ``plimsoll`` command where these top-level modules are not installed; ``folder`` is its to write."""
    listing = folder / "modules.json"
    ran = _run(
        _refusal(f"top in {set(refused)!r}") + _COMMAND.format(listing=str(listing), words=list(words)), cache=folder
    )
    return Ran(ran.status, ran.out, ran.err, frozenset(json.loads(listing.read_text())))


def _refusal(refuses: str) -> str:
    return _REFUSAL.format(operator=str(ROOT / "operator"), refuses=refuses)


def _run(program: str, cache: Path | None = None) -> Ran:
    environment = {**os.environ, "KUBECONFIG": "/nonexistent", **({"XDG_CACHE_HOME": str(cache)} if cache else {})}
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-I", "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)
