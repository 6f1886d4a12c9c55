"""Read a price list: CSV with a row for each GPU type and capacity type. The catalogue's own list is such a file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from plimsoll.api.gpu_names import did_you_mean
from plimsoll.domain.cluster.gpus import CapacityType, MarketOffers, Price, PriceBasis
from plimsoll.domain.errors import shortened
from plimsoll.domain.units import counted

T = TypeVar("T")

DEAREST_USD = Decimal(1_000_000)
"""Highest accepted price: more than any card costs in an hour, with few enough digits for every sum of prices."""

_LONGEST_PRICE = 32
_LONGEST_COUNT = 9
_LONGEST_SOURCE = 500

REQUIRED = ("gpu_type", "usd_per_hour")
COLUMNS = (
    "gpu_type",
    "capacity_type",
    "usd_per_hour",
    "basis",
    "ladder_usd",
    "hyperscaler_usd",
    "offers",
    "voters",
    "date_from",
    "date_to",
    "source",
)


@dataclass(frozen=True, slots=True)
class PriceRows:
    """The prices of a list, and a message for everything in it that cannot be used.

    ``is_list`` is False if the header cannot be used: then the text says nothing about any price.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()
    is_list: bool = True


@dataclass(frozen=True, slots=True)
class _Row:
    """One usable row and its line in the file."""

    line: int
    gpu_type: str
    capacity: CapacityType
    price: Price


class _Unusable(ValueError):
    """A row that cannot be used. The message names the field, the value and the fix."""


def read_price_list(text: str, source: str, known: Collection[str]) -> PriceRows:
    """Read a list. Unusable rows are left out and named; the others count.

    Args:
        text: the content of the file.
        source: its name in messages, and the source of prices that name none.
        known: the names of all GPU types.
    """
    lines = csv.reader(text.removeprefix("\ufeff").splitlines(keepends=True), strict=True)
    complaints: list[str] = []
    rows: list[_Row] = []
    try:
        header = _header(lines)
        wrong = list(_wrong_columns(header))
        if wrong:
            return PriceRows(
                {}, tuple(f"{source}: line {lines.line_num or 1}: {each}" for each in wrong), is_list=False
            )
        for cells in lines:
            if not _is_blank(cells):
                try:
                    rows.append(_row(header, cells, lines.line_num, source, known))
                except _Unusable as error:
                    complaints.append(f"{source}: line {lines.line_num}: {error}")
    except csv.Error as error:
        complaints.append(f"{source}: line {lines.line_num}: it is not CSV ({error}); write one row a line")
        return PriceRows({}, tuple(complaints), is_list=False)
    return PriceRows(_merged(rows, source, complaints), tuple(complaints))


def dollars(text: str) -> Decimal | None:
    """Return the price; None if the text is no number, too long, below 0, or above :data:`DEAREST_USD`."""
    if len(text) > _LONGEST_PRICE:
        return None
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() and 0 <= value <= DEAREST_USD else None


def _header(lines: Iterator[list[str]]) -> list[str]:
    """Return the names of the columns: the first line that is neither empty nor a comment."""
    return next(([cell.strip() for cell in cells] for cells in lines if not _is_blank(cells)), [])


def _is_blank(cells: list[str]) -> bool:
    return not any(cell.strip() for cell in cells) or cells[0].lstrip().startswith("#")


def _wrong_columns(header: list[str]) -> Iterator[str]:
    for name in REQUIRED:
        if name not in header:
            yield f"the column {name} is missing; begin with a header such as gpu_type,capacity_type,usd_per_hour"
    for name in header:
        if name not in COLUMNS:
            near = get_close_matches(name.lower(), COLUMNS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(COLUMNS)}"
            yield f"there is no column {shortened(name)}; {meant}"
    for name in sorted({name for name in header if name in COLUMNS and header.count(name) > 1}):
        yield f"the column {name} stands there twice; keep one"


def _row(header: list[str], cells: list[str], line: int, source: str, known: Collection[str]) -> _Row:
    if len(cells) != len(header):
        raise _Unusable(
            f"it has {len(cells)} fields and the header has {len(header)}; quote a field that holds a comma"
        )
    given = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    name = given["gpu_type"]
    if name not in known:
        raise _Unusable(f"gpu_type: {shortened(name)} is no GPU type{did_you_mean(name, known)}")
    usd = dollars(given["usd_per_hour"])
    if usd is None:
        raise _Unusable(
            f"usd_per_hour: {shortened(given['usd_per_hour'])} is no price of {name}; "
            "write US dollars per GPU and hour, e.g. 2.50, and leave out the row where there is no offer"
        )
    kinds = ", ".join(CapacityType)
    read = partial(_optional, given)
    capacity = read("capacity_type", CapacityType, f"write one of {kinds}") or CapacityType.ON_DEMAND
    origin = given.get("source", "")[:_LONGEST_SOURCE]
    market = MarketOffers(
        offers=read("offers", _count, "write a whole number"),
        voters=read("voters", _count, "write a whole number"),
        first=read("date_from", date.fromisoformat, "write a date such as 2026-08-21"),
        last=read("date_to", date.fromisoformat, "write a date such as 2026-08-21"),
        basis=read("basis", PriceBasis, f"write one of {', '.join(PriceBasis)}, or nothing"),
        hyperscaler_usd=read("hyperscaler_usd", _usd, "write US dollars, e.g. 2.50"),
        origin=origin,
    )
    if market.first is not None and market.last is not None and market.last < market.first:
        raise _Unusable(f"date_to: {market.last} is before date_from {market.first}; exchange them")
    return _Row(line, name, capacity, Price(usd, _words(source, market), market=market))


def _optional(given: Mapping[str, str], name: str, read: Callable[[str], T], fix: str) -> T | None:
    """Return the value of a field; None if it is not written. Raises :class:`_Unusable` if it is no such value."""
    text = given.get(name, "")
    if not text:
        return None
    try:
        return read(text)
    except ValueError:
        raise _Unusable(f"{name}: {shortened(text)} cannot be used; {fix}") from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_COUNT):
        raise ValueError(text)
    return int(text)


def _usd(text: str) -> Decimal:
    value = dollars(text)
    if value is None:
        raise ValueError(text)
    return value


def _words(source: str, market: MarketOffers) -> str:
    """Return the source of a price in a few words: the list, the votes behind the figure, and the newest day."""
    numbers = ((market.voters, "vote"), (market.offers, "offer"))
    votes = " of ".join(counted(number, noun) for number, noun in numbers if number is not None)
    clamped = "clamped to its neighbours" if market.is_clamped else ""
    newest = "" if market.last is None else f"newest {market.last}"
    said = ", ".join(part for part in (votes, clamped, newest) if part)
    return f"{source}: {said}" if said else source


def _merged(rows: list[_Row], source: str, complaints: list[str]) -> Mapping[str, Price]:
    """Return one price for each type, with its spot price. A row that repeats an earlier one is left out and named."""
    seen: dict[tuple[str, CapacityType], _Row] = {}
    for row in rows:
        first = seen.setdefault((row.gpu_type, row.capacity), row)
        if first is not row:
            complaints.append(
                f"{source}: line {row.line}: gpu_type: {row.gpu_type} has its {row.capacity} price in line "
                f"{first.line} already; keep one of them"
            )
    prices: dict[str, Price] = {}
    for (name, capacity), row in seen.items():
        spot = seen.get((name, CapacityType.SPOT))
        if capacity is CapacityType.ON_DEMAND:
            prices[name] = row.price if spot is None else replace(row.price, spot=spot.price)
        elif (name, CapacityType.ON_DEMAND) not in seen:
            complaints.append(
                f"{source}: line {row.line}: gpu_type: {name} has a spot price and no price on demand; "
                "add a row with capacity_type on-demand"
            )
    return MappingProxyType(prices)
