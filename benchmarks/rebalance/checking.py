"""``python -m benchmarks.rebalance.checking``: simulate measured rows of serving latency, and print the errors.

A row is a closed loop of users on one replica. Rows are left out whose users do not fit that picture: arrivals at
random, medians of steps, times to the first token that are queueing, and splits other than tensor parallelism.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from math import isfinite
from typing import Final

from benchmarks.latency.cases import Case, cases_of
from benchmarks.latency.folds import folds, read_held_out
from benchmarks.latency.prediction import Prediction, predict
from benchmarks.latency.rows import Row, read_rows
from benchmarks.latency.scoring import errors, ratios
from benchmarks.rebalance.closed_loop import Load, mean_times
from benchmarks.rebalance.values import EngineSpec
from plimsoll.domain.cluster.gpus import Efficiency
from plimsoll.performance.hardware_speed import speed_of
from plimsoll.performance.step_costs import costs_of
from plimsoll.simulation.batch import BLOCK_TOKENS
from plimsoll.simulation.engine import SimulatedEngine, StepTimes

GPU_TYPES: Final = ("h100-sxm-80gb", "h200-sxm-141gb")
SEED: Final = 1


def can_be_simulated(row: Row) -> bool:
    """Say whether a row is a closed loop of whole users on one engine."""
    is_loop = isfinite(row.rounds) and row.running.is_integer() and row.rounds.is_integer()
    is_one_engine = row.data_parallel == row.pipeline_parallel == 1 and not row.expert_parallel
    return is_loop and is_one_engine and not row.is_step and row.scored_ttft is not None


def simulate(case: Case, efficiency: Efficiency | None = None) -> Prediction:
    """Return the simulated means of a case, with the catalogue's constants or with those given."""
    load = Load(int(case.row.running), int(case.row.rounds), case.row.prompt, case.row.output)
    found = mean_times(SimulatedEngine(_spec(case, load), _times(case, efficiency)), load, SEED)
    return Prediction(found.tpot_seconds, found.ttft_seconds)


def _spec(case: Case, load: Load) -> EngineSpec:
    """Return a replica that holds all users at the same time: rows whose users queue are left out."""
    row = case.row
    tokens = load.most_tokens + 2 * load.users * BLOCK_TOKENS
    return EngineSpec(row.model, row.gpu, row.tensor_parallel, tokens, load.users, row.batched_tokens, hourly_price=0.0)


def _times(case: Case, efficiency: Efficiency | None) -> StepTimes:
    speed = speed_of(case.gpu)
    if efficiency is not None:
        speed = replace(speed, efficiency=efficiency)
    return StepTimes(costs_of(case.work, case.gpu, speed, case.split, case.floor, synchronous=case.row.synchronous))


@dataclass(frozen=True, slots=True)
class Column:
    """One way to predict the times of all cases, in their order."""

    name: str
    answers: Sequence[Prediction]


def columns(cases: Sequence[Case], every: Sequence[Case]) -> list[Column]:
    """Return what is simulated, and what the formulas of the performance model say of the same load.

    ``every`` are the cases of all rows: they name the folds, whose constants never saw the rows of the case's model.
    """
    unseen = _unseen_constants(cases, every)
    return [
        Column("simulated, model held back", [*map(simulate, cases, unseen)]),
        Column("formulas, model held back", [*map(predict, cases, unseen)]),
        Column("simulated, in the fit", [*map(simulate, cases)]),
        Column("formulas, in the fit", [*map(predict, cases)]),
    ]


def _unseen_constants(cases: Sequence[Case], every: Sequence[Case]) -> list[Efficiency]:
    fitted = read_held_out()["model"]
    fold_of = dict(zip((case.row.number for case in every), folds(every, "model"), strict=True))
    return [fitted[fold_of[case.row.number]].efficiency(case.family) for case in cases]


def report(cases: Sequence[Case], found: Sequence[Column]) -> str:
    """Return a table in Markdown: the sizes of the errors by GPU type, and their median with its sign."""
    lines = ["| GPU type | rows | times | time | median | 90 % | bias |", "|---|---|---|---|---|---|---|"]
    groups = [(gpu, [case.gpu.name == gpu for case in cases]) for gpu in sorted({case.gpu.name for case in cases})]
    groups.append(("all", [True] * len(cases)))
    for name, picked in groups:
        for column in found:
            answers = [*compress(column.answers, picked)]
            lines.extend(_lines(name, column.name, [*compress(cases, picked)], answers))
    return "\n".join(lines)


def _lines(group: str, name: str, cases: Sequence[Case], answers: Sequence[Prediction]) -> Iterator[str]:
    for title, is_ttft in (("TPOT", False), ("TTFT", True)):
        found = errors(ratios(cases, answers, ttft=is_ttft))
        if found is not None:
            sizes = f"{found.median:.1%} | {found.p90:.1%} | {found.bias:+.1%}"
            yield f"| {group} | {found.count} | {name} | {title} | {sizes} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    asked = _parser().parse_args(arguments)
    every = cases_of(read_rows())
    cases = [case for case in every if can_be_simulated(case.row) and case.gpu.name in asked.gpu]
    cases = cases[:: asked.step]
    sys.stdout.write(f"{report(cases, columns(cases, every))}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebalance.checking", description=__doc__)
    parser.add_argument(
        "--gpu", nargs="+", metavar="TYPE", default=GPU_TYPES, help="GPU types whose rows are simulated"
    )
    parser.add_argument("--step", type=int, metavar="N", default=1, help="simulate only every Nth row")
    return parser


if __name__ == "__main__":
    sys.exit(main())
