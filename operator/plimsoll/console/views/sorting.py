"""The order of a table, by the parameter ``sort`` of its URL: the name of a column, with a minus for the other way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from plimsoll.console.views.paging import Query, address_of, first_of

T = TypeVar("T")

SORT = "sort"
_REVERSED = "-"


@dataclass(frozen=True, slots=True)
class SortColumn(Generic[T]):
    """A column that a table can be sorted by.

    ``value`` gives what is compared, or None if it is not known, which stands last either way. ``is_falling`` means
    that the largest is first unless the other way is asked for.
    """

    name: str
    words: str
    value: Callable[[T], Any]
    is_falling: bool = False


@dataclass(frozen=True, slots=True)
class SortLink:
    """The head of a column. ``aria`` is ``ascending`` or ``descending`` if the table is sorted by it, else empty."""

    name: str
    words: str
    address: str
    aria: str = ""

    @property
    def symbol(self) -> str:
        """The order as an arrow; empty if the table is not sorted by this column."""
        return {"ascending": "\u2191", "descending": "\u2193"}.get(self.aria, "")


@dataclass(frozen=True, slots=True)
class SortedItems(Generic[T]):
    """Items in the order that was asked for. ``heads`` has the links of all columns by name.

    ``chosen`` is the parameter as it holds; empty for the order that the items came in.
    """

    items: Sequence[T]
    heads: Mapping[str, SortLink]
    chosen: str

    @property
    def is_falling(self) -> bool:
        """Whether the largest value is first."""
        return any(each.aria == "descending" for each in self.heads.values())


def sorted_items(items: Iterable[T], columns: Sequence[SortColumn[T]], path: str, query: Query) -> SortedItems[T]:
    """Return items by the column that a URL names; equal ones, and all without such a column, stay in their order."""
    asked = first_of(query, SORT)
    column = next((each for each in columns if each.name == asked.removeprefix(_REVERSED)), None)
    chosen = "" if column is None else asked
    falls = column is not None and column.is_falling is not asked.startswith(_REVERSED)
    heads = {each.name: _head(each, chosen, path, query, falls=falls) for each in columns}
    found = list(items)
    return SortedItems(found if column is None else _in_order(found, column.value, falls=falls), heads, chosen)


def _in_order(items: Sequence[T], value: Callable[[T], Any], *, falls: bool) -> list[T]:
    known = [(found, each) for each in items if (found := value(each)) is not None]
    unknown = [each for each in items if value(each) is None]
    return [each for _, each in sorted(known, key=lambda pair: pair[0], reverse=falls)] + unknown


def _head(column: SortColumn[T], chosen: str, path: str, query: Query, *, falls: bool) -> SortLink:
    is_chosen = chosen.removeprefix(_REVERSED) == column.name
    other = f"{_REVERSED}{column.name}" if chosen == column.name else column.name
    aria = "" if not is_chosen else "descending" if falls else "ascending"
    return SortLink(column.name, column.words, address_of(path, query, {SORT: other}), aria)
