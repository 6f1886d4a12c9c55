"""``python -m benchmarks.latency``: score the model and two simpler ones on measured rows, and print the tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.accuracy.prediction import PeerUnavailable
from benchmarks.latency import engines, peer
from benchmarks.latency.bands import TPOT, TTFT, coverage_of_new_sources, predictions
from benchmarks.latency.cases import Case, cases_of
from benchmarks.latency.document import BEGIN_ENGINE, write_into
from benchmarks.latency.folds import read_held_out
from benchmarks.latency.prediction import bandwidth_floor, predict, roofline
from benchmarks.latency.rows import ROWS, read_rows
from benchmarks.latency.table import Column, compared, errors_of, report

_UNSEEN: Final = "source held back"
_GIVEN: Final = "the catalogue's constants"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. The exit status is 2 where the rows cannot be read."""
    asked = _parser().parse_args(arguments)
    if asked.engine is not None:
        text = _of_engine(asked.engine)
        sys.stdout.write(f"{text}\n")
        if asked.write:
            write_into(asked.write, text, BEGIN_ENGINE.format(engine=asked.engine))
        return 0
    try:
        cases = cases_of(read_rows(asked.rows))
    except (KeyError, OSError, ValueError) as error:
        sys.stderr.write(f"{asked.rows}: {error}\n")
        return 2
    coverage = {}
    columns = [Column("in the fit" if asked.rows == ROWS else _GIVEN, [*map(predict, cases)])]
    if asked.rows == ROWS:
        held_out = read_held_out()
        columns = [
            Column("model held back", predictions(cases, held_out, "model")),
            Column("GPU type held back", predictions(cases, held_out, "gpu")),
            Column(_UNSEEN, predictions(cases, held_out, "source")),
            *columns,
        ]
        answers = [columns[2].answers, columns[0].answers]
        coverage = {
            "per token": coverage_of_new_sources(cases, answers, TPOT),
            "to the first token": coverage_of_new_sources(cases, answers, TTFT),
        }
    columns.append(Column("plain roofline", [*map(roofline, cases)]))
    columns.append(Column("bandwidth floor", [*map(bandwidth_floor, cases)]))
    text = report(cases, columns, coverage)
    if asked.peers != "none":
        text += f"\n\n{_with_peer(cases, columns)}"
    sys.stdout.write(f"{text}\n")
    if asked.write:
        write_into(asked.write, text)
    return 0


def _with_peer(cases: Sequence[Case], columns: Sequence[Column]) -> str:
    """Return our errors and the peer's on the rows that it answers, or why it cannot be asked here."""
    try:
        found = peer.asked(cases)
    except (PeerUnavailable, OSError) as error:
        return f"{peer.NAME} was not asked: {error}"
    ours = [each for each in columns if each.name in (_UNSEEN, _GIVEN)]
    refusals = "; ".join(f"{count} x {words}" for words, count in found.refusals.most_common())
    return (
        f"{compared(cases, ours, peer.NAME, found.predictions)}\nRows without an answer, by its own words: {refusals}."
    )


def _of_engine(engine: str) -> str:
    """Return the errors of another engine's constants on its own rows, next to those of vLLM's constants."""
    cases, held_out = cases_of(read_rows(engines.ENGINE_ROWS[engine])), engines.read_held_out(engine)
    columns = [
        Column("model held back", engines.predictions(cases, held_out, "model")),
        Column("GPU type held back", engines.predictions(cases, held_out, "gpu")),
        Column(_UNSEEN, engines.predictions(cases, held_out, "source")),
        Column("in the fit", engines.in_the_fit(engine, cases)),
        Column("vLLM's constants", [*map(predict, cases)]),
    ]
    return errors_of(cases, columns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE", default=ROWS, help="rows as in data/rows.csv")
    parser.add_argument("--engine", choices=[*engines.ENGINE_ROWS], help="another engine, on its own rows")
    parser.add_argument("--peers", choices=("all", "none"), default="all", help="ask aiconfigurator too, or nobody")
    parser.add_argument(
        "--write", type=Path, metavar="DOC", help="a document to put the tables into, between its markers"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
