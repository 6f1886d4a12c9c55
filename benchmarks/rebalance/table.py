"""The tables that a run prints. The two sets of scenarios have tables of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.rebalance.means import Mean, Total, total
from benchmarks.rebalance.scenarios.situation import Situation

NOTHING = "-"
COLUMNS = 10
"""Scenarios side by side in one table, so that it fits a wide terminal."""

_FIGURES = ("goodput\n%", "gave\nup %", "lost\n%", "GPU-\nhours", "$", "changes\n/h", "flips", "recovery\ns")


def tables(found: Sequence[Mean]) -> Iterator[Table]:
    """Yield an overview and the details of each set."""
    for group in dict.fromkeys(each.group for each in found):
        own = [each for each in found if each.group == group]
        yield from _overviews(group, own)
        yield _totals(group, own)
        yield _details(group, own)
        if any(each.met is not None for each in own):
            yield _goals(group, own)


def situations_table(known: Iterable[Situation]) -> Table:
    """Return what there is to run, and what each scenario tests."""
    table = Table(box=SIMPLE_HEAD)
    for label in ("scenario", "set", "replica", "minutes", "what it tests"):
        table.add_column(label, justify="right" if label == "minutes" else "left")
    for each in known:
        words = each.tests if each.goal is None else f"{each.tests}\n  goal: {each.goal}"
        engine = each.scenario.engine
        replica = f"{engine.model.split('/')[-1]}, {engine.tensor_parallel} x {engine.gpu_type}"
        table.add_row(each.name, each.group.value, replica, f"{each.scenario.seconds / 60:.0f}", words)
    return table


def _overviews(group: str, own: Sequence[Mean]) -> Iterator[Table]:
    """Yield tables with a row for each policy and a column for each scenario."""
    scenarios = list(dict.fromkeys(each.scenario for each in own))
    cells = {(each.policy, each.scenario): _cell(each) for each in own}
    for first in range(0, len(scenarios), COLUMNS):
        chosen = scenarios[first : first + COLUMNS]
        table = _table(f"The {group} set: goodput in %, and US dollars", "means over seeds")
        table.add_column("policy")
        for name in chosen:
            table.add_column(name, justify="right", no_wrap=True)
        for policy in dict.fromkeys(each.policy for each in own):
            table.add_row(policy, *(cells.get((policy, name), NOTHING) for name in chosen))
        yield table


def _totals(group: str, own: Sequence[Mean]) -> Table:
    table = _table(
        f"The {group} set, all scenarios",
        "goodput, gave up, lost, changes and recovery: means of scenarios; hours, $ and flips: sums. "
        "+n: rises of demand that were never met.",
    )
    for label in ("policy", *_FIGURES):
        table.add_column(label, justify="left" if label == "policy" else "right")
    for policy in dict.fromkeys(each.policy for each in own):
        table.add_row(policy, *_figures(total([each for each in own if each.policy == policy])))
    return table


def _details(group: str, own: Sequence[Mean]) -> Table:
    table = _table(
        f"The {group} set in detail",
        "lost: their replica ended first; a flip: the wish turns round within half an hour; "
        "recovery: until a minute has 95 % goodput again",
    )
    for label in ("scenario", "policy", *_FIGURES):
        table.add_column(label, justify="left" if label in ("scenario", "policy") else "right")
    for scenario in dict.fromkeys(each.scenario for each in own):
        rows = [each for each in own if each.scenario == scenario]
        for each in rows:
            name = scenario if each is rows[0] else ""
            table.add_row(name, each.policy, *_figures(each), end_section=each is rows[-1])
    return table


def _goals(group: str, own: Sequence[Mean]) -> Table:
    table = _table(
        f"The {group} set: goals",
        "met: in how many seeds; `--list` says what each goal is and what it is compared with",
    )
    for label in ("scenario", "policy", "replicas", "met", "missed"):
        table.add_column(label, justify="right" if label in ("replicas", "met") else "left")
    for each in own:
        if each.met is not None:
            met = f"{each.met} of {each.seeds}"
            table.add_row(each.scenario, each.policy, _number(each.most_replicas), met, "; ".join(each.misses))
    return table


def _figures(each: Mean | Total) -> tuple[str, ...]:
    return (
        _number(each.goodput),
        _number(each.gave_up, 2),
        _number(each.lost, 2),
        _number(each.gpu_hours),
        _number(each.usd, 2),
        _number(each.changes_per_hour),
        _number(each.flips),
        _recovery(each),
    )


def _recovery(each: Mean | Total) -> str:
    """Return the mean of those that recovered, and how many never did."""
    known = NOTHING if each.recovery_seconds is None else f"{each.recovery_seconds:.0f}"
    if not each.never:
        return known
    return f"never x{each.never}" if each.recovery_seconds is None else f"{known} +{each.never}"


def _cell(each: Mean) -> str:
    return f"{_number(each.goodput)}\n${each.usd:.2f}"


def _number(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _table(title: str, caption: str) -> Table:
    return Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
