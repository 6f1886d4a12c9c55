"""The list of deployments: which are there, and which are near their line?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from plimsoll.console.drawing.bar import Bar, BarScale, bar_of, common_scale
from plimsoll.console.views.paging import ListPage, Query, first_of, has_words, part_of
from plimsoll.console.views.rows import DeploymentRow
from plimsoll.console.views.states import NOT_KNOWN, Pressures, StateMark, mark_of
from plimsoll.console.views.world import ClusterView

BAR_LENGTH = 190.0


@dataclass(frozen=True, slots=True)
class DeploymentLine:
    """One deployment with its state and its hull; no hull if nothing was chosen."""

    row: DeploymentRow
    state: StateMark
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class StateFilter:
    """A filter by state, with the number of deployments that it leaves."""

    word: str
    count: int
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Deployments:
    """A page of the list, its filters, and how many there are."""

    part: ListPage[DeploymentLine]
    choices: tuple[StateFilter, ...]
    total: int
    search: str
    chosen: str


def lines_of(rows: Iterable[DeploymentRow], pressures: Pressures = NOT_KNOWN) -> list[DeploymentLine]:
    """Return deployments, worst first, without hulls."""
    found = [DeploymentLine(row, mark_of(row, pressures), None) for row in rows]
    return sorted(found, key=lambda each: (each.state.severity, _spare(each.row), each.row.key))


def deployments_of(world: ClusterView, path: str, query: Query, pressures: Pressures = NOT_KNOWN) -> Deployments:
    """Return the page of the list that a URL asks for: ``q`` searches, ``state`` filters, ``page`` counts from 1."""
    search, chosen = first_of(query, "q"), first_of(query, "state")
    found = lines_of((row for row in world.rows.values() if _matches(row, search)), pressures)
    counts = Counter(each.state.word for each in found)
    kept = [each for each in found if chosen in ("", each.state.word)]
    part = part_of(kept, path, query)
    scale = common_scale((each.row.figures.usable for each in kept if each.row.figures is not None), BAR_LENGTH)
    shown = replace(part, items=tuple(_with_bar(each, scale) for each in part.items))
    return Deployments(shown, _choices(counts, chosen), len(world.rows), search, chosen)


def _matches(row: DeploymentRow, search: str) -> bool:
    return has_words(search, str(row.key), row.model, row.gpu_type or "", row.ready.reason if row.ready else "")


def _spare(row: DeploymentRow) -> int:
    return row.figures.spare if row.figures is not None else 0


def _with_bar(line: DeploymentLine, scale: BarScale) -> DeploymentLine:
    return line if line.row.figures is None else replace(line, bar=bar_of(line.row.figures, scale))


def _choices(counts: Mapping[str, int], chosen: str) -> tuple[StateFilter, ...]:
    """Return a choice for each state that there is. The chosen one stays, even if it leaves nothing."""
    all_counts = counts if not chosen or chosen in counts else {**counts, chosen: 0}
    return tuple(StateFilter(word, count, word == chosen) for word, count in all_counts.items())
