"""The tables that a run prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import mean

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.placement.cases import Case
from benchmarks.placement.replay import Replay
from benchmarks.placement.speed import Speed
from benchmarks.placement.worlds import largest

NOTHING = "-"
Pick = Callable[[Case], bool]


def quality_tables(cases: Sequence[Case]) -> Iterator[Table]:
    """Yield a table for each fleet and size: a row for each solver, a column for each price list and demand."""
    for fleet, nodes in dict.fromkeys((case.place.fleet, case.place.nodes) for case in cases):
        own = [case for case in cases if (case.place.fleet, case.place.nodes) == (fleet, nodes)]
        yield _quality_table(f"{fleet}, {nodes} nodes", own)


def replay_table(replays: Sequence[Replay]) -> Table:
    """Return a table with a row for each solver and replay."""
    table = _table(
        "Arrivals and departures, at about 80 % of the largest demand",
        "what runs is kept, as in the operator / all is solved anew at every change; means over time",
    )
    for label in ("nodes", "solver", "passes", "moves/h", "$/h above the bound, %", "unplaced beyond the bound, %"):
        table.add_column(label, justify="left" if label == "solver" else "right")
    for kept, anew in zip(replays[::2], replays[1::2], strict=True):
        table.add_row(
            str(kept.nodes),
            kept.solver,
            str(kept.passes),
            f"{kept.moves_per_hour:.1f} / {anew.moves_per_hour:.1f}",
            f"{_percent(kept.above)} / {_percent(anew.above)}",
            f"{_percent(kept.stranded)} / {_percent(anew.stranded)}",
        )
    return table


def speed_table(speeds: Sequence[Speed]) -> Table:
    """Return a table with a row for each solver and size."""
    table = _table(
        "CPU seconds of whole passes, and the most memory of a fresh process",
        "one new: the slowest of ten; 300 waiting: on full nodes; before: memory before the first pass",
    )
    for label in (
        "nodes",
        "deployments",
        "kinds",
        "solver",
        "cold",
        "again",
        "idle",
        "one new",
        "300 waiting",
        "MiB",
        "before",
    ):
        table.add_column(label, justify="left" if label == "solver" else "right")
    for each in speeds:
        seconds = (each.cold, each.again, each.idle, each.one_new, each.waiting)
        sizes = (str(each.nodes), str(each.deployments), str(each.kinds))
        table.add_row(
            *sizes,
            each.solver,
            *(f"{value:.3f}" for value in seconds),
            f"{each.rss_mib:.0f}",
            f"{each.rss_before_mib:.0f}",
        )
    return table


def _table(title: str, caption: str) -> Table:
    return Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=SIMPLE_HEAD)


def _quality_table(name: str, cases: Sequence[Case]) -> Table:
    places = dict.fromkeys(case.place for case in cases)
    room = ", ".join(str(largest(place)) for place in places)
    table = _table(
        f"{name} ({room} deployments fill it)",
        "$/h above the bound in %: mean / worst; then replicas unplaced that the bound places, in %: worst",
    )
    table.add_column("solver")
    columns = list(_columns(cases))
    for label, _ in columns:
        table.add_column(label, justify="right", no_wrap=True)
    for label in ("all", "doubts", "whole nodes\nleft, 80 %"):
        table.add_column(label, justify="right", no_wrap=True)
    for solver in dict.fromkeys(case.solver for case in cases):
        own = [case for case in cases if case.solver == solver]
        cells = [_cell([case for case in own if pick(case)]) for _, pick in columns]
        table.add_row(solver, *cells, _cell(own), _doubts(own), _whole(own))
    return table


def _columns(cases: Sequence[Case]) -> Iterator[tuple[str, Pick]]:
    for prices in dict.fromkeys(case.prices for case in cases):
        yield f"{prices}\nample", partial(_is_ample, prices)
        for percent in dict.fromkeys(case.percent for case in cases):
            if any(_is_scarce(prices, percent, case) for case in cases):
                yield f"{prices}\n{percent} %", partial(_is_scarce, prices, percent)


def _is_ample(prices: str, case: Case) -> bool:
    return case.ample and case.prices == prices


def _is_scarce(prices: str, percent: int, case: Case) -> bool:
    return not case.ample and (case.prices, case.percent) == (prices, percent)


def _cell(cases: Sequence[Case]) -> str:
    if not cases:
        return NOTHING
    above = [case.verdict.above for case in cases]
    money = f"{_percent(mean(above))}/{_percent(max(above))}"
    stranded = max(100 * case.stranded / case.verdict.wanted for case in cases)
    return f"{money}\n-{_percent(stranded)} %" if stranded > 0 else money


def _percent(value: float) -> str:
    return f"{value + 0.0:.1f}".replace("-0.0", "0.0")


def _doubts(cases: Sequence[Case]) -> str:
    return f"{sum(case.verdict.doubts - case.best.doubts for case in cases):+d}"


def _whole(cases: Sequence[Case]) -> str:
    left = [case.verdict.whole_nodes for case in cases if case.percent == max(80, min(each.percent for each in cases))]
    return f"{mean(left):.1f}" if left else NOTHING
