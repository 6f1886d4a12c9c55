"""The tables: errors by GPU type and by model, held back and in the fit, with two simpler models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from benchmarks.latency.bands import MEASURED, Coverage
from benchmarks.latency.cases import Case
from benchmarks.latency.folds import shape
from benchmarks.latency.prediction import Prediction
from benchmarks.latency.scoring import Order, covered, errors, order, ratios
from plimsoll.performance.hardware_speed import speed_of


@dataclass(frozen=True, slots=True)
class Column:
    """One predictor's answers to all cases, in their order."""

    name: str
    answers: Sequence[Prediction]


Coverages = Mapping[str, Coverage]

RELEASES: Final = ("before 0.14", "0.14 and later")
_USERS: Final = ((8, "1 to 8"), (32, "9 to 32"), (128, "33 to 128"), (512, "129 to 512"), (inf, "more than 512"))

Pick = Callable[[Case], bool]
_Group = tuple[str, Sequence[str] | None, Callable[[Case], str]]


def report(cases: Sequence[Case], columns: Sequence[Column], coverage: Mapping[str, Coverages] | None = None) -> str:
    """Return all tables as Markdown; ``coverage`` is that of bands made without a source, by figure."""
    return "\n".join([*_lines(cases, columns), *_new_sources(coverage or {})])


def _lines(cases: Sequence[Case], columns: Sequence[Column]) -> Iterator[str]:
    users = [name for _, name in _USERS]
    groups: list[_Group] = [
        ("by GPU type", None, _gpu),
        ("by shape of the model", None, shape),
        ("by source", None, _source),
        ("by release", RELEASES, _release),
        ("by users of an engine", users, _users),
        ("by kind of weights", None, _kind),
    ]
    yield from _all_errors(cases, columns, groups, "")
    yield from _orders(cases, columns)
    yield from _coverage(cases, columns)


def errors_of(cases: Sequence[Case], columns: Sequence[Column]) -> str:
    """Return the errors by GPU type, source, users and kind of weights, as Markdown."""
    users = [name for _, name in _USERS]
    groups: list[_Group] = [
        ("by GPU type", None, _gpu),
        ("by source", None, _source),
        ("by users of an engine", users, _users),
        ("by kind of weights", None, _kind),
    ]
    return "\n".join(_all_errors(cases, columns, groups, "")).rstrip("\n")


def compared(cases: Sequence[Case], columns: Sequence[Column], peer: str, said: Sequence[Prediction | None]) -> str:
    """Return the errors of a peer and of the columns on those rows that the peer has an answer for, as Markdown."""
    kept = [place for place, each in enumerate(said) if each is not None]
    answered = Column(peer, [each for each in said if each is not None])
    both = [*(Column(each.name, [each.answers[place] for place in kept]) for each in columns), answered]
    groups: list[_Group] = [
        ("by GPU type", None, _gpu),
        ("by source", None, _source),
        ("by kind of weights", None, _kind),
    ]
    return "\n".join(_all_errors([cases[place] for place in kept], both, groups, f", rows that {peer} answers"))


def _all_errors(cases: Sequence[Case], columns: Sequence[Column], groups: Sequence[_Group], of: str) -> Iterator[str]:
    """Yield one table for each figure; the lines of a group are those of its names, or of all that there are."""
    for ttft, title in (
        (False, "Time per output token"),
        (True, "Time to the first token, without waiting for a slot"),
    ):
        yield from (f"**{title}{of}: median / p90 of the error, bias (rows)**", "")
        yield _row(["", *(column.name for column in columns)])
        yield _row(["---"] * (len(columns) + 1))
        yield _errors("all", cases, columns, lambda _: True, ttft=ttft)
        for heading, names, key in groups:
            yield _row([f"*{heading}*", *[""] * len(columns)])
            for name in names or sorted({*map(key, cases)}):
                yield _errors(name, cases, columns, _is(key, name), ttft=ttft)
        yield ""


def _orders(cases: Sequence[Case], columns: Sequence[Column]) -> Iterator[str]:
    yield from ("**Order of two GPU types that differ by more than 20 % in time per token**", "")
    yield _row(["", *(column.name for column in columns)])
    yield _row(["---"] * (len(columns) + 1))
    yield _row(["pairs in their order", *(_share(order(cases, column.answers)) for column in columns)])
    yield ""


def _new_sources(coverage: Mapping[str, Coverages]) -> Iterator[str]:
    """Yield how many figures of each source are inside bands made without it, around predictions without it."""
    if not coverage:
        return
    title = "Figures of a new source inside the band, share above its upper quarter, median of upper over lower edge"
    yield from ("", f"**{title}**", "")
    names = [name for name in next(iter(coverage.values())) if name != "all"]
    yield _row(["", *coverage])
    yield _row(["---"] * (len(coverage) + 1))
    for name in ("all", *names):
        yield _row([name, *(_inside(each.get(name)) for each in coverage.values())])


def _inside(found: Coverage | None) -> str:
    if found is None:
        return "none"
    above = found.above_quarter / found.rows
    return f"{found.inside} of {found.rows} ({found.inside / found.rows:.0%}), {above:.0%}, {found.width:.1f}"


def _coverage(cases: Sequence[Case], columns: Sequence[Column]) -> Iterator[str]:
    """Yield how many measured figures are inside the band that the catalogue gives the GPU type."""
    yield from ("**Measured figures inside the catalogue's band**", "")
    yield _row(["", *(column.name for column in columns)])
    yield _row(["---"] * (len(columns) + 1))
    for label, is_measured in (("GPU types with 20 rows or more", True), ("other GPU types", False)):
        for name, ttft in (("per token", False), ("to the first token", True)):
            cells = [_covered(cases, column, is_measured=is_measured, ttft=ttft) for column in columns]
            yield _row([f"{label}, {name}", *cells])


def _covered(cases: Sequence[Case], column: Column, *, is_measured: bool, ttft: bool) -> str:
    inside = total = 0
    for case, each in zip(cases, column.answers, strict=True):
        trust = speed_of(case.gpu).trust
        if (trust.name == MEASURED) is not is_measured:
            continue
        band = trust.band(case.work.kind, case.load.running / case.split.data_parallel)
        found = ratios([case], [each], ttft=ttft)
        total += len(found)
        inside += covered(found, band.ttft if ttft else band.tpot)
    return f"{inside} of {total} ({inside / total:.0%})" if total else "none"


def _errors(label: str, cases: Sequence[Case], columns: Sequence[Column], pick: Pick, *, ttft: bool) -> str:
    cells = []
    for column in columns:
        kept = [(case, each) for case, each in zip(cases, column.answers, strict=True) if pick(case)]
        found = errors(ratios([case for case, _ in kept], [each for _, each in kept], ttft=ttft))
        if found is None:
            cells.append("none")
        else:
            cells.append(f"{found.median:.1%} / {found.p90:.1%}, {found.bias:+.1%} ({found.count})")
    return _row([label, *cells])


def _share(found: Order) -> str:
    return f"{found.right} of {found.pairs} ({found.right / found.pairs:.1%})" if found.pairs else "none"


def _gpu(case: Case) -> str:
    return case.gpu.name


def _source(case: Case) -> str:
    return case.row.source


def _release(case: Case) -> str:
    return RELEASES[0] if case.row.synchronous else RELEASES[1]


def _users(case: Case) -> str:
    return next(name for most, name in _USERS if case.load.running <= most)


def _kind(case: Case) -> str:
    return str(case.work.kind)


def _is(key: Callable[[Case], str], name: str) -> Pick:
    return lambda case: key(case) == name


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
