"""Prices of a cluster's admin: entries of a ConfigMap, or a whole list in CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from plimsoll.api.gpu_names import did_you_mean
from plimsoll.api.price_list import dollars, read_price_list
from plimsoll.domain.cluster.gpus import GpuType, Price
from plimsoll.domain.errors import shortened
from plimsoll.facts.prices.repricing import OwnPrices

LIST_KEY = "prices.csv"
"""The key of a ConfigMap that holds a whole price list. The list replaces the catalogue's prices of all types."""

SPOT_SUFFIX = ".spot"
"""The suffix of an entry for spot capacity, after the name of the GPU type."""

_LONGEST_NAME = 100


def parse_prices(data: Mapping[str, str], source: str, catalog: Sequence[GpuType]) -> tuple[OwnPrices, tuple[str, ...]]:
    """Parse ``GPU type: US dollars per GPU and hour``; return the prices and a message for every unusable entry.

    An entry replaces all that is known of the type's price, spot included. An entry ``TYPE.spot`` sets the spot price,
    and alone it leaves the price on demand as it is. The entry ``prices.csv`` is a whole list: types that it does not
    name have no price. Entries win over the list.

    Args:
        data: the ConfigMap's data.
        source: its name, which the prices and the messages show.
        catalog: all GPU types with the catalogue's prices.
    """
    book = _Book(f"ConfigMap {source}", {gpu.name: gpu for gpu in catalog})
    if LIST_KEY in data:
        book.take_list(data[LIST_KEY], f"{source}, {LIST_KEY}")
    entries = sorted((name, text) for name, text in data.items() if name != LIST_KEY)
    for name, text in sorted(entries, key=lambda entry: entry[0].endswith(SPOT_SUFFIX)):
        book.take_entry(name, text, source)
    return book.prices, tuple(book.complaints)


def parse_price_file(text: str, source: str, catalog: Sequence[GpuType]) -> tuple[OwnPrices, tuple[str, ...]]:
    """Parse a whole list in CSV; types that it does not name have no price."""
    book = _Book(source, {gpu.name: gpu for gpu in catalog})
    book.take_list(text, source)
    return book.prices, tuple(book.complaints)


@dataclass(slots=True)
class _Book:
    """The prices read so far."""

    source: str
    types: Mapping[str, GpuType]
    prices: dict[str, Price | None] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def take_list(self, text: str, source: str) -> None:
        """Replace the prices of all cards by those of a list, if it is one. Slices follow their cards."""
        found = read_price_list(text, source, self.types)
        self.complaints += found.complaints
        if found.is_list:
            self.prices = {name: None for name, gpu in self.types.items() if not gpu.is_slice} | dict(found.prices)

    def take_entry(self, key: str, text: str, source: str) -> None:
        """Set one price, or keep a message."""
        name = key.removesuffix(SPOT_SUFFIX)
        usd = dollars(text)
        if usd is None:
            self.complaints.append(
                f"{source}: {key[:_LONGEST_NAME]}: {shortened(text)} is no price; "
                "write US dollars per GPU and hour, e.g. 2.50"
            )
        elif name not in self.types:
            self.complaints.append(f"{source}: {key[:_LONGEST_NAME]} is no GPU type{did_you_mean(name, self.types)}")
        elif name == key:
            self.prices[name] = Price(usd, self.source)
        else:
            self._set_spot(name, Price(usd, self.source), source)

    def _set_spot(self, name: str, spot: Price, source: str) -> None:
        demand = self.prices[name] if name in self.prices else self._known(name)
        if demand is None:
            self.complaints.append(
                f"{source}: {name}{SPOT_SUFFIX}: {name} has no price on demand; add an entry {name} with one"
            )
        else:
            self.prices[name] = replace(demand, spot=spot)

    def _known(self, name: str) -> Price | None:
        """Return the price that holds so far. A slice takes the price of its card if an entry gave one."""
        gpu = self.types[name]
        if gpu.mig is not None and gpu.mig.card in self.prices:
            card = self.prices[gpu.mig.card]
            return None if card is None else gpu.mig.price(card)
        return gpu.price
