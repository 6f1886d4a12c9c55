"""Put questions to the engine's own code, in its environment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from testbed.cache import cache_directory
from testbed.engine.environment import ensure_engine
from testbed.engine.oracle.questions import CLAIMED_CARD, H100, Card, Question
from testbed.engine.process_environment import engine_process_environment

_ROOT: Final = Path(__file__).parents[3]
"""The repository: the far side imports ``testbed.engine.oracle`` from it."""

_MODULE: Final = "testbed.engine.oracle.inside.answer"


def ask(questions: Sequence[Question], card: Card = H100) -> Iterator[dict[str, Any]]:
    """One row a question (a KV cache: one a memory size), as they come; a refused one has ``error`` and no figures.

    A question takes 0.2 to 2 s on one core and the start 6 s; nothing is downloaded.

    Raises:
        RuntimeError: the engine's process itself failed; the message ends with what it wrote.
    """
    environment = engine_process_environment() | {
        "PYTHONPATH": str(_ROOT),
        "PYTHONSAFEPATH": "1",
        CLAIMED_CARD: card.as_text(),
        # vLLM keeps what it learns of model classes; learnt under a claimed GPU, it is not for the others.
        "VLLM_CACHE_ROOT": str(cache_directory() / "engine" / "oracle-cache"),
    }
    with tempfile.TemporaryFile("w+") as words, tempfile.TemporaryFile("w+") as asked:
        asked.writelines(json.dumps(question.as_json()) + "\n" for question in questions)
        asked.seek(0)
        with subprocess.Popen(
            [str(ensure_engine()), "-m", _MODULE],
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=words,
            env=environment,
            text=True,
        ) as process:
            assert process.stdout is not None  # noqa: S101 -- asked for as a pipe above
            yield from map(json.loads, process.stdout)
        if process.returncode != 0:
            words.seek(0)
            raise RuntimeError(
                f"the engine's own code could not be asked (exit status {process.returncode}). It wrote:\n"
                f"{words.read()[-4000:]}"
            )
