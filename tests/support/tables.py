"""One rule over many cases in one test, which names each case that fails; and a sample of a list that is long to run.

``every_case`` takes what ``pytest.mark.parametrize`` takes, and makes one test of all cases: thousands of tests of a
few milliseconds cost more to collect, send and report than to run. The usual run takes a sample of a list with
``most``, another one each day, and a quarter of the draws of a property with ``examples``. ``make test-all``
(``PLIMSOLL_ALL=1``) takes all of them. ``PLIMSOLL_SEED`` repeats a sample: the report of a run begins with its own.
"""

from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import wraps
from random import Random
from typing import Any
from zlib import crc32

import pytest

SEED = "PLIMSOLL_SEED"
ALL = "PLIMSOLL_ALL"

LEAST_EXAMPLES = 20
"""Draws of a property in the usual run, where a quarter of all would be fewer."""

TABLE_SECONDS = 3600
"""When a table is taken to hang: it has many tests' work to do, perhaps on a machine with no time for it."""

Rule = Callable[..., None]
Ids = Callable[[Any], object] | Iterable[object] | None

_PARAM = type(pytest.param(0))
_TIMED_OUT = "Timeout"
"""How the failure begins by which pytest-timeout ends a test. It ends the table, too."""


@dataclass(frozen=True, slots=True)
class Row:
    """The arguments of one case, and its id as pytest would write it."""

    id: str
    arguments: dict[str, Any]


def every_case(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Ids = None,
    most: int | None = None,
    always: Collection[str] = (),
) -> Callable[[Rule], Rule]:
    """Make one test that tries a rule with every case; several of them try every combination.

    Args:
        names: the arguments that the cases give, as for ``pytest.mark.parametrize``.
        cases: their values.
        ids: what the cases are called, as for ``pytest.mark.parametrize``.
        most: how many cases the usual run takes, of all combinations. None: all of them; 0: only those in ``always``.
        always: the ids of cases that every run takes, in addition.
    """
    own = _rows(names, cases, ids)

    def decorate(rule: Rule) -> Rule:
        inner: Rule = getattr(rule, "rule", rule)
        rows = [_joined(below, above) for above in own for below in getattr(rule, "rows", [Row("", {})])]
        absent = set(always) - {row.id for row in rows}
        if absent or not rows or inspect.iscoroutinefunction(inner):
            raise ValueError(f"{inner.__qualname__}: no cases, unknown ones ({sorted(absent)}), or a coroutine")

        @wraps(inner)
        def table(*args: Any, **fixtures: Any) -> None:
            _check(rows if most is None else sampled(rows, most, always), inner, args, fixtures)

        signature = inspect.signature(inner)
        left = [each for name, each in signature.parameters.items() if name not in rows[0].arguments]
        vars(table).update(rule=inner, rows=rows, __signature__=signature.replace(parameters=left))
        timed: Rule = pytest.mark.timeout(TABLE_SECONDS)(table)
        return timed

    return decorate


def examples(most: int) -> int:
    """How many draws of a property this run tries: all of them where everything is asked for, else a quarter."""
    return most if everything() else min(most, max(LEAST_EXAMPLES, most // 4))


def sampled(rows: Sequence[Row], most: int, always: Collection[str] = ()) -> Sequence[Row]:
    """The rows that this run takes, in their order: all of them where everything is asked for.

    Rules about the same cases get the same ones, so that they share what a file keeps of a case.
    """
    if everything() or len(rows) <= most:
        return rows
    drawn = Random(seed()).sample(range(len(rows)), most)  # noqa: S311 - a draw that can be repeated
    return [row for index, row in enumerate(rows) if index in drawn or row.id in always]


def drawn(cases: Sequence[str], most: int, rule: str) -> list[str]:
    """The cases that this run takes for a rule, in their order; other rules get others, so that all are seen soon."""
    if everything() or len(cases) <= most:
        return list(cases)
    taken = Random(f"{seed()} {rule}").sample(cases, most)  # noqa: S311 - a draw that can be repeated
    return [case for case in cases if case in taken]


def everything() -> bool:
    """Whether this run takes every case of every list."""
    return os.environ.get(ALL) == "1"


def seed() -> str:
    """What the samples of this run are drawn with. All workers of a run have the one that its report begins with."""
    return os.environ.setdefault(SEED, datetime.now(UTC).date().isoformat())


def day() -> int:
    """A number that the samples of this run go by: days follow each other, and any other seed has one of its own."""
    try:
        return date.fromisoformat(seed()).toordinal()
    except ValueError:
        return crc32(seed().encode())


def header() -> str:
    """What the report of a run says about its samples."""
    if everything():
        return f"samples: none, every case runs ({ALL}=1)"
    return f"samples: drawn with {SEED}={seed()}; {ALL}=1 takes every case"


def _check(rows: Sequence[Row], rule: Rule, args: Sequence[Any], fixtures: dict[str, Any]) -> None:
    failed: list[str] = []
    failures: list[BaseException] = []
    for row in rows:
        try:
            rule(*args, **fixtures, **row.arguments)
        except (Exception, pytest.fail.Exception) as error:
            if str(error).startswith(_TIMED_OUT):
                raise
            error.add_note(f"Case {row.id}, of {len(rows)}.")
            failures.append(error)
            failed.append(row.id)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} cases fail: {'; '.join(failed)}", failures)


def _rows(names: str | Sequence[str], cases: Iterable[Any], ids: Ids) -> list[Row]:
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = list(ids) if ids is not None and not callable(ids) else None
    rows = []
    for index, case in enumerate(cases):
        named = case.id if isinstance(case, _PARAM) else None
        values = case.values if isinstance(case, _PARAM) else (case,) if len(arguments) == 1 else tuple(case)
        own = given[index] if given is not None else named
        words = _words(arguments, values, index, ids if callable(ids) else None)
        rows.append(Row("-".join(words) if own is None else str(own), dict(zip(arguments, values, strict=True))))
    return rows


def _words(
    names: Sequence[str], values: Sequence[Any], index: int, ids: Callable[[Any], object] | None
) -> Iterator[str]:
    for name, value in zip(names, values, strict=True):
        word = ids(value) if ids is not None else None
        yield str(word) if word is not None else _word(value, f"{name}{index}")


def _word(value: object, otherwise: str) -> str:
    if value is None or isinstance(value, str | int | float | enum.Enum):
        return str(value)
    named = getattr(value, "__name__", None)
    return named if isinstance(named, str) else otherwise


def _joined(below: Row, above: Row) -> Row:
    return Row("-".join(filter(None, (below.id, above.id))), {**below.arguments, **above.arguments})
