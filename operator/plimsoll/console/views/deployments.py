"""The list of deployments: which are there, and which are near their line?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from plimsoll.console.drawing.bar import Bar, Scale, bar_of, common_scale
from plimsoll.console.views.paging import Part, Query, first_of, part_of
from plimsoll.console.views.rows import Row
from plimsoll.console.views.states import State, state_of
from plimsoll.console.views.world import World

BAR_LENGTH = 190.0


@dataclass(frozen=True, slots=True)
class Line:
    """One deployment with its state and its hull; no hull where nothing was chosen."""

    row: Row
    state: State
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter by state, with the number of deployments that it leaves."""

    word: str
    count: int
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Deployments:
    """A page of the list, its filters, and how many there are."""

    part: Part[Line]
    choices: tuple[Choice, ...]
    total: int
    search: str
    chosen: str


def lines_of(world: World) -> list[Line]:
    """Return all deployments, worst first, without hulls."""
    return [Line(row, state, None) for row, state in _worst_first(world.rows.values())]


def _worst_first(rows: Iterable[Row]) -> list[tuple[Row, State]]:
    found = [(row, state_of(row)) for row in rows]
    return sorted(found, key=lambda each: (each[1].severity, _spare(each[0]), each[0].key))


def deployments_of(world: World, path: str, query: Query) -> Deployments:
    """Return the page of the list that a URL asks for: ``q`` searches, ``state`` filters, ``page`` counts from 1."""
    search, chosen = first_of(query, "q"), first_of(query, "state")
    found = _worst_first(row for row in world.rows.values() if _matches(row, search))
    counts = Counter(state.word for _, state in found)
    kept = [(row, state) for row, state in found if chosen in ("", state.word)]
    part = part_of(kept, path, query)
    scale = common_scale((row.figures.usable for row, _ in kept if row.figures is not None), BAR_LENGTH)
    lines = tuple(_line(row, state, scale) for row, state in part.items)
    shown = Part(lines, part.total, part.number, part.pages, part.previous, part.following)
    return Deployments(shown, _choices(counts, chosen), len(world.rows), search, chosen)


def _matches(row: Row, search: str) -> bool:
    texts: Iterable[str] = (str(row.key), row.model, row.gpu_type or "", row.ready.reason if row.ready else "")
    return all(any(word in text.lower() for text in texts) for word in search.lower().split())


def _spare(row: Row) -> int:
    return row.figures.spare if row.figures is not None else 0


def _line(row: Row, state: State, scale: Scale) -> Line:
    return Line(row, state, None if row.figures is None else bar_of(row.figures, scale))


def _choices(counts: Mapping[str, int], chosen: str) -> tuple[Choice, ...]:
    """Return a choice for each state that there is. The chosen one stays, also where it leaves nothing."""
    all_counts = counts if not chosen or chosen in counts else {**counts, chosen: 0}
    return tuple(Choice(word, count, word == chosen) for word, count in all_counts.items())
