"""What does vLLM make of a model's caches? Its own code answers."""

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
    script = Path(__file__).with_name("kv_groups.py")
    finished = subprocess.run(
        [str(ensure_engine()), "-P", str(script)],
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
    return tuple(_answer(entry) for entry in json.loads(finished.stdout))


def _answer(entry: dict[str, Any]) -> KvAnswer | KvRefused:
    if "error" in entry:
        return KvRefused(entry["error"])
    return KvAnswer(**entry | {"block_bytes": tuple(entry["block_bytes"])})
