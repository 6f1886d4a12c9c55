"""Runs AIConfigurator's own estimate of serving times, in its own environment. One JSON object a line, in and out."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

api: Any = importlib.import_module("aiconfigurator.cli.api")
perf_database: Any = importlib.import_module("aiconfigurator.sdk.perf_database")

BACKEND = "vllm"

newest = functools.cache(perf_database.get_latest_database_version)


def answer(question: dict[str, Any], root: Path) -> dict[str, Any]:
    """Its times for a model by its configuration, with the number formats that the configuration does not state."""
    system = question.pop("system")
    try:
        version = newest(system=system, backend=BACKEND)
        found = api.cli_estimate(
            str(saved(json.dumps(question.pop("config")), root)),
            system,
            backend_name=BACKEND,
            backend_version=version,
            **question,
        )
    except Exception as error:  # noqa: BLE001 - whatever it cannot do is its answer
        return {"error": (str(error).splitlines() or [type(error).__name__])[0][:200]}
    return {"tpot": found.tpot, "ttft": found.ttft, "version": version}


@functools.cache
def saved(config: str, root: Path) -> Path:
    """A folder of its own for each configuration: the package remembers models by their path."""
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / "config.json").write_text(config)
    return folder


def main() -> None:
    """Answer every line; what the package prints goes to stderr."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as root:
        for line in sys.stdin:
            with contextlib.redirect_stdout(sys.stderr):
                found = answer(json.loads(line), Path(root))
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
