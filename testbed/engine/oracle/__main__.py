"""``python -m testbed.engine.oracle CONFIG...``: what vLLM says these models weigh and cache, as JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from testbed.engine.oracle.ask import ask
from testbed.engine.oracle.grid import cache_questions, weight_questions
from testbed.engine.oracle.heaviest import heaviest_ranks
from testbed.engine.oracle.questions import Question


def main() -> None:
    """Ask, and write the rows."""
    arguments = _parser().parse_args()
    refused = 0
    with tempfile.TemporaryDirectory() as scratch, arguments.out.open("w") as out:
        for row in heaviest_ranks(ask(_questions(arguments, Path(scratch)))):
            if "error" in row:
                refused += 1
                print(f"refused: {json.dumps(row)}", file=sys.stderr)
                if not arguments.refusals:
                    continue
            out.write(json.dumps(row) + "\n")
    print(f"{refused} refused", file=sys.stderr)


def _questions(arguments: argparse.Namespace, scratch: Path) -> list[Question]:
    questions: list[Question] = []
    for path in arguments.configs:
        name = path.name if path.is_dir() else path.stem
        config = json.loads((path / "config.json" if path.is_dir() else path).read_text())
        folder = scratch / name
        if arguments.cache:
            questions += cache_questions(name, config, folder)
        else:
            questions += weight_questions(
                name, config, folder, sizes=arguments.tp, stages=arguments.pp, runner=arguments.runner
            )
    return questions


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testbed.engine.oracle", description=__doc__)
    parser.add_argument("configs", nargs="+", type=Path, help="folders with a config.json, or such files themselves")
    parser.add_argument("--out", type=Path, required=True, help="where the rows go")
    parser.add_argument("--tp", type=int, nargs="+", default=[1], help="tensor-parallel sizes (default: 1)")
    parser.add_argument("--pp", type=int, nargs="+", default=[1], help="pipeline-parallel sizes (default: 1)")
    parser.add_argument("--runner", help="what the engine's --runner gets (default: it chooses)")
    parser.add_argument("--cache", action="store_true", help="ask for the KV cache instead of the weights")
    parser.add_argument("--refusals", action="store_true", help="write the refused questions too")
    return parser


if __name__ == "__main__":
    main()
