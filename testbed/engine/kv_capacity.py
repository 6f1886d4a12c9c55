"""What does vLLM make of a model's caches, on GPUs and in host memory? Its own code answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testbed.engine.environment import ensure_engine
from testbed.engine.process_environment import engine_process_environment

_TIMEOUT_S: Final = 1200
"""Importing vLLM and its model registry made this 20 s on two shared cores; only what hangs takes so long."""


@dataclass(frozen=True, slots=True)
class KvAnswer:
    """Blocks of the pool (the null block included), bytes of a block on each stage, tokens of an attention block."""

    blocks: int
    block_bytes: tuple[int, ...]
    block_tokens: int
    tokens: int
    concurrency: float


@dataclass(frozen=True, slots=True)
class KvRefused:
    """The engine cannot lay these caches out."""

    error: str


def ask_kv_groups(cases: Sequence[Mapping[str, Any]]) -> tuple[KvAnswer | KvRefused, ...]:
    """Put all cases to the engine, in one process.

    Raises:
        RuntimeError: the engine's code could not be run; the message ends with what it wrote.
    """
    return tuple(_answer(entry) for entry in _ask("kv_groups.py", cases))


def ask_offload_regions(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """Put cases of native offloading to the engine; they and the answers are those of ``offload_region.py``.

    Raises:
        RuntimeError: the engine's code could not be run; the message ends with what it wrote.
    """
    return _ask("offload_region.py", cases)


def _ask(script: str, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    finished = subprocess.run(
        [str(ensure_engine()), "-P", str(Path(__file__).with_name(script))],
        input=json.dumps(list(cases)),
        env=engine_process_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if finished.returncode != 0:
        raise RuntimeError(
            f"vLLM's KV-cache code could not be run (exit status {finished.returncode}). It wrote:\n"
            f"{finished.stderr[-4000:]}"
        )
    answers: list[dict[str, Any]] = json.loads(finished.stdout)
    return answers


def _answer(entry: dict[str, Any]) -> KvAnswer | KvRefused:
    if "error" in entry:
        return KvRefused(entry["error"])
    return KvAnswer(**entry | {"block_bytes": tuple(entry["block_bytes"])})
