"""``python -m benchmarks.accuracy``: score our estimate and its peers on measured starts, and print one table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy import sglang
from benchmarks.accuracy.cases import BadRow
from benchmarks.accuracy.loading import CONFIGS, LOGS, ORACLE, RUNS, Sources, load
from benchmarks.accuracy.predictors import ask_all, peers_named
from benchmarks.accuracy.report import SGLANG, STARTS, summary, write_figures, write_into, write_predictions
from benchmarks.accuracy.starts import reports, table
from benchmarks.accuracy.table import markdown, table_rows

ROOT = Path(__file__).resolve().parents[2]
PREDICTIONS = ROOT / ".accuracy" / "predictions.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 2 for arguments that make no sense."""
    asked = _parser().parse_args(arguments)
    try:
        peers = peers_named(asked.peers)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    loaded = load(_sources(asked))
    columns = ask_all(loaded, peers)
    rows = list(table_rows(loaded, columns))
    text = "\n".join([markdown(rows, columns), "", *summary(loaded, columns)])
    reported = "" if _brings_own(asked) else "\n".join(table(reports()))
    others = _of_sglang(asked)
    sys.stdout.write("\n\n".join(each for each in (text, reported, others) if each) + "\n")
    write_predictions(asked.predictions, loaded, columns)
    sys.stderr.write(f"every prediction: {asked.predictions}\n")
    if asked.json:
        write_figures(asked.json, rows, loaded, columns)
    if asked.write:
        write_into(asked.write, text)
        if reported:
            write_into(asked.write, reported, *STARTS)
            write_into(asked.write, others, *SGLANG)
    return 0


def _of_sglang(asked: argparse.Namespace) -> str:
    """Return the table of SGLang's starts; empty where somebody brings records and none of them are of that engine."""
    left_out: list[BadRow] = []
    path = asked.logs if _brings_own(asked) else sglang.STARTS
    starts = [] if path is None or not path.is_file() else sglang.read_starts(path, left_out, [])
    return "\n".join(sglang.table(starts, left_out)) if starts or left_out else ""


def _brings_own(asked: argparse.Namespace) -> bool:
    return any(each is not None for each in (asked.runs, asked.logs, asked.oracle))


def _sources(asked: argparse.Namespace) -> Sources:
    """The carried files, or only those given: whoever brings records along is not scored on ours beside them."""
    own_any = _brings_own(asked)
    return Sources(
        runs=asked.runs if own_any else RUNS,
        logs=asked.logs if own_any else LOGS,
        configs=asked.configs,
        oracle=asked.oracle if own_any else ORACLE,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--runs", type=Path, metavar="FILE", help="records of complete commands, as data/runs.json")
    parser.add_argument("--logs", type=Path, metavar="FILE", help="records of logs, as data/startup_logs.json")
    parser.add_argument("--configs", type=Path, metavar="FOLDER", default=CONFIGS, help="config.json files by model")
    parser.add_argument("--oracle", type=Path, metavar="FILE", help="weights by the engine's own modules")
    parser.add_argument("--predictions", type=Path, metavar="OUT", default=PREDICTIONS, help="JSON lines to write")
    parser.add_argument("--peers", default="all", metavar="NAMES", help="all, none, or names with commas between")
    parser.add_argument("--json", type=Path, metavar="OUT", help="the table as JSON")
    parser.add_argument(
        "--write", type=Path, metavar="DOC", help="a document to put the table into, between its markers"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
