"""The list of deployments: which are there, and which are near their line?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from plimsoll.console.drawing.bar import PERCENT, Bar, BarScale, bar_of, common_scale
from plimsoll.console.views.load.live_use import LiveUse, SampledFigure
from plimsoll.console.views.paging import ListPage, Query, first_of, has_words, part_of
from plimsoll.console.views.rows import DeploymentRow
from plimsoll.console.views.sorting import SortColumn, SortedItems, sorted_items
from plimsoll.console.views.states import NOT_KNOWN, Pressures, StateMark, mark_of
from plimsoll.console.views.words import dollars_of
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.kubernetes_names import ObjectKey


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
class ColumnChoice:
    """A column that can be shown or left out."""

    name: str
    words: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class Deployments:
    """A page of the list, its filters and its columns, and how many deployments there are."""

    part: ListPage[DeploymentLine]
    order: SortedItems[DeploymentLine]
    columns: tuple[ColumnChoice, ...]
    choices: tuple[StateFilter, ...]
    total: int
    search: str
    chosen: str

    def has(self, name: str) -> bool:
        """Whether a column is shown."""
        return any(each.is_shown for each in self.columns if each.name == name)


Uses = Mapping[ObjectKey, LiveUse]

COLUMN = "column"
"""The parameter of a URL that names a column to show; it may be repeated."""

_COLUMNS = (
    ("need", "need / line GiB"),
    ("spare", "spare GiB"),
    ("room", "KV room / need"),
    ("kv", "KV now"),
    ("batch", "batch now"),
    ("waiting", "waiting"),
    ("replicas", "replicas"),
    ("price", "$/h"),
    ("age", "age"),
)
_USUAL = frozenset({"need", "room", "kv", "batch", "replicas", "price"})
"""As many as a window of 1,280 pixels holds next to long names."""


def lines_of(
    rows: Iterable[DeploymentRow], pressures: Pressures = NOT_KNOWN, now: float = math.inf
) -> list[DeploymentLine]:
    """Return deployments, worst first, without hulls; ``now`` as for :func:`mark_of`."""
    found = [DeploymentLine(row, mark_of(row, pressures, now), None) for row in rows]
    return sorted(found, key=lambda each: (each.state.severity, _spare(each.row), each.row.key))


def deployments_of(
    world: ClusterView,
    path: str,
    query: Query,
    uses: Uses = MappingProxyType({}),
    pressures: Pressures = NOT_KNOWN,
) -> Deployments:
    """Return the page of the list that a URL asks for.

    ``q`` searches, ``state`` filters, ``sort`` names a column, ``column`` those to show, ``page`` counts from 1.
    ``uses`` is the live use, which some columns are sorted by, and ``pressures`` what it says of the states.
    """
    search, chosen = first_of(query, "q"), first_of(query, "state")
    found = lines_of((row for row in world.rows.values() if _matches(row, search)), pressures)
    counts = Counter(each.state.word for each in found)
    kept = [each for each in found if chosen in ("", each.state.word)]
    order = sorted_items(kept, _sorts(uses), path, query)
    part = part_of(order.items, path, query)
    scale = common_scale((each.row.figures.usable for each in kept if each.row.figures is not None), PERCENT)
    shown = replace(part, items=tuple(_with_bar(each, scale) for each in part.items))
    return Deployments(shown, order, _shown(query), _choices(counts, chosen), len(world.rows), search, chosen)


def _sorts(uses: Uses) -> tuple[SortColumn[DeploymentLine], ...]:
    def of_use(figure: Callable[[LiveUse], SampledFigure | None]) -> Callable[[DeploymentLine], float | None]:
        def value(line: DeploymentLine) -> float | None:
            use = uses.get(line.row.key)
            found = None if use is None else figure(use)
            return None if found is None else found.value

        return value

    return (
        SortColumn("name", "Deployment", lambda line: line.row.key),
        SortColumn("state", "State", lambda line: line.state.severity),
        SortColumn("gpu", "Memory of one GPU", lambda line: line.row.gpu_type),
        SortColumn("need", "need / line GiB", _need, is_falling=True),
        SortColumn("spare", "spare GiB", _known_spare),
        SortColumn("room", "KV room / need", _room),
        SortColumn("kv", "KV now", of_use(lambda use: use.kv), is_falling=True),
        SortColumn("batch", "batch now", of_use(lambda use: use.sequence_slots), is_falling=True),
        SortColumn("waiting", "waiting", of_use(lambda use: use.waiting), is_falling=True),
        SortColumn("replicas", "replicas", _replicas, is_falling=True),
        SortColumn("price", "$/h", lambda line: dollars_of(line.row.hourly_price), is_falling=True),
        SortColumn("age", "age", _born, is_falling=True),
    )


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


def _need(line: DeploymentLine) -> int | None:
    return None if line.row.figures is None else line.row.figures.upper


def _known_spare(line: DeploymentLine) -> int | None:
    return None if line.row.figures is None else line.row.figures.spare


def _room(line: DeploymentLine) -> float | None:
    """Return how often the needed KV cache goes into the room for it."""
    figures = line.row.figures
    if figures is None or figures.kv_needed_tokens <= 0:
        return None
    return figures.kv_capacity_tokens / figures.kv_needed_tokens


def _born(line: DeploymentLine) -> float | None:
    """Return what sorts by age: more for what was created earlier."""
    return None if line.row.created is None else -line.row.created


def _replicas(line: DeploymentLine) -> int | None:
    return sum(pool.replicas for pool in line.row.pools) if line.row.pools else None


def _shown(query: Query) -> tuple[ColumnChoice, ...]:
    """Return all columns; those that a URL names are shown, and the usual ones if it names none."""
    asked = frozenset(query.get(COLUMN, ())) & {name for name, _ in _COLUMNS} or _USUAL
    return tuple(ColumnChoice(name, words, name in asked) for name, words in _COLUMNS)
