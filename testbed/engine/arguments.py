"""Would ``vllm serve`` accept these arguments, and what would it make of them? The real parser answers."""

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
"""Importing vLLM, all but nothing else, made this 10 s on two shared cores; only what hangs takes so long."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The parser took the arguments. ``values`` is its whole namespace, defaults included, by destination name."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """The parser did not take the arguments; ``error`` is what it said."""

    error: str


@dataclass(frozen=True, slots=True)
class ParserAnswer:
    """One answer per argument list, in order, and every option as ``parse_arguments.py`` describes it."""

    results: tuple[Accepted | Refused, ...]
    options: Mapping[str, Mapping[str, Any]]

    @property
    def spellings(self) -> Mapping[str, tuple[str, ...]]:
        """Every option's names."""
        return {name: tuple(option["names"]) for name, option in self.options.items()}


def ask_parser(argument_lists: Sequence[Sequence[str]]) -> ParserAnswer:
    """Feed argument lists (what follows ``vllm serve``) to the engine's own parser, all in one process.

    Raises:
        RuntimeError: the parser itself could not be run; the message ends with what it wrote.
    """
    script = Path(__file__).with_name("parse_arguments.py")
    finished = subprocess.run(
        [str(ensure_engine()), "-P", str(script)],
        input=json.dumps([list(arguments) for arguments in argument_lists]),
        env=engine_process_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if finished.returncode != 0:
        raise RuntimeError(
            f"vLLM's argument parser could not be run (exit status {finished.returncode}). It wrote:\n"
            f"{finished.stderr[-4000:]}"
        )
    answer = json.loads(finished.stdout)
    return ParserAnswer(
        results=tuple(_result(entry) for entry in answer["results"]),
        options=answer["options"],
    )


def _result(entry: Mapping[str, Any]) -> Accepted | Refused:
    if "error" in entry:
        return Refused(error=str(entry["error"]))
    return Accepted(values=entry["values"])
