"""Which tests run a statement: the tests of an area run once on a copy in which statements are marked."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Position = tuple[int, int]

FIRST_BATCH_SECONDS = 5.0
"""The time of the tests that are run first on a mutant: about what it takes to start them."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What one run of the tests has shown.

    ``seconds`` are those that each test takes the processor, ``reached`` the numbers of the marks that each runs.
    ``everywhere`` are marks that run at import: every test depends on them. Without ``complete`` the time was up before
    all tests ran.
    """

    seconds: Mapping[str, float]
    reached: Mapping[str, frozenset[int]]
    everywhere: frozenset[int]
    complete: bool

    @staticmethod
    def read(path: Path) -> Reach:
        """Read the result of :mod:`benchmarks.mutants.noting`."""
        found = json.loads(path.read_text(encoding="utf-8"))
        tests = found["tests"]
        return Reach(
            {test: entry["seconds"] for test, entry in tests.items()},
            {test: frozenset(entry["reached"]) for test, entry in tests.items()},
            frozenset(found["everywhere"]),
            found["complete"],
        )

    def tests(self, mark: int | None, nearest: Sequence[str]) -> list[str]:
        """Return the tests that run a mark: those of the nearest files first, then the quickest.

        No mark: it runs at import.
        """
        is_everywhere = mark is None or mark in self.everywhere
        found = [test for test in self.seconds if is_everywhere or mark in self.reached[test]]
        return sorted(found, key=lambda test: (test.split("::", 1)[0] not in nearest, self.seconds[test], test))

    def batches(self, tests: Sequence[str]) -> Iterator[list[str]]:
        """Yield the tests in the same order, in batches of which each takes at least twice as long as the one before.

        Most mutants are noticed by the first batch, and the files of the others are never read.
        """
        batch, least = list[str](), FIRST_BATCH_SECONDS
        for test in tests:
            batch.append(test)
            if self.seconds_of(batch) >= least:
                yield batch
                batch, least = [], 2 * least
        if batch:
            yield batch

    def seconds_of(self, tests: Sequence[str]) -> float:
        """Return the processor time of some tests in seconds."""
        return sum(self.seconds[test] for test in tests)


def marked(source: str, positions: Sequence[Position], first: int = 0) -> tuple[str, list[int | None]]:
    """Return the source with a mark before the statement of each position, and the mark of each position.

    None: the position is in no function, so it runs when the module is imported. Marks are numbered from ``first``.
    """
    tree = ast.parse(source)
    blocks = [block for block, is_called in _blocks(tree, is_called=False) if is_called]
    places = [_place(blocks, position) for position in positions]
    marks = {place: first + number for number, place in enumerate(sorted({each for each in places if each}))}
    for (block, index), mark in sorted(marks.items(), reverse=True):
        blocks[block][index:index] = ast.parse(f"mutant_reached({mark})").body
    return ast.unparse(tree), [None if place is None else marks[place] for place in places]


def _place(blocks: list[list[ast.stmt]], position: Position) -> tuple[int, int] | None:
    """Return the block and the index of the innermost statement at a position."""
    around = [
        (number, index)
        for number, block in enumerate(blocks)
        for index, statement in enumerate(block)
        if (statement.lineno, statement.col_offset) <= position < _end(statement)
    ]
    return around[-1] if around else None


def _blocks(node: ast.AST, *, is_called: bool) -> Iterator[tuple[list[ast.stmt], bool]]:
    """Yield the lists of statements in a node, inner ones after outer ones, and whether they are in a function."""
    is_called = is_called or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block, is_called
    for child in ast.iter_child_nodes(node):
        yield from _blocks(child, is_called=is_called)


def _end(statement: ast.stmt) -> Position:
    return statement.end_lineno or statement.lineno, statement.end_col_offset or statement.col_offset
