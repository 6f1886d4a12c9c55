#!/usr/bin/env python3
"""Write the catalogue's price list from a table of what the market asks.

    python scripts/make_prices.py MARKET.csv

The table has a row for each GPU type and capacity type: ``type``, ``capacity_type``, ``median`` and ``ladder`` in US
dollars per GPU and hour, ``median_hyperscaler``, ``offers``, ``voters``, ``date_from``, ``date_to`` and ``source``. A
provider votes once for a card, with its lowest unreserved price. ``ladder`` comes from log price = provider + card:
who sells the card cheap or dear is taken out, so cards keep their order where different providers sell them.

A ladder of three or more voters is taken as it is. A ladder of one or two is moved to the nearest price that keeps the
order of its family, and marked. Spot is the median of its own votes. Where nobody offers a card, it has no price.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import exp, fsum, log
from pathlib import Path

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.price_list import COLUMNS
from plimsoll.domain.cluster.gpus import FEW_VOTERS, CapacityType, PriceBasis
from plimsoll.facts.prices.remarks import is_better

ROOT = Path(__file__).resolve().parent.parent
PRICES = ROOT / "operator" / "plimsoll" / "catalog" / "prices.csv"

ALSO_BETTER = frozenset(
    {
        ("mi355x-288gb", "mi350x-288gb"),  # the same chip and memory, cooled by liquid and clocked higher
        ("a100-sxm-80gb", "a800-sxm-80gb"),  # the same card, two thirds of its NVLink
        ("l40s-48gb", "l40-48gb"),  # the same memory, twice the dense FLOPS
    }
)
"""Pairs of a better and a lesser card that memory, bandwidth and generation do not tell apart."""

HEAD = """\
# What the market asks for GPUs, in US dollars for one GPU and hour, host included. Made by scripts/make_prices.py.
# A list of your own replaces this one: docs/prices.md says how. Prices are what is asked, not what is paid.
"""

Better = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Level:
    """The ladder of one card, and how many providers voted."""

    usd: float
    voters: int

    @property
    def is_thin(self) -> bool:
        """Whether the ladder may move."""
        return self.voters <= FEW_VOTERS


def clamped(levels: Mapping[str, Level], better: Better) -> dict[str, float]:
    """Return every card's price. Thin ladders move, the others stay.

    Thin ladders that contradict each other get their geometric mean. Then each is moved between the dearest lesser card
    and the cheapest better card that are not thin.
    """
    thin = _pooled({name: level.usd for name, level in levels.items() if level.is_thin}, better)
    solid = {name: level.usd for name, level in levels.items() if not level.is_thin}
    for name, usd in thin.items():
        low = max((price for other, price in solid.items() if better(name, other)), default=usd)
        high = min((price for other, price in solid.items() if better(other, name)), default=usd)
        thin[name] = max(low, min(usd, high))
    return solid | thin


def _pooled(ladders: Mapping[str, float], better: Better) -> dict[str, float]:
    """Join cards that contradict each other into groups, until none does. A group has one price."""
    groups = [[name] for name in sorted(ladders)]

    def price(group: list[str]) -> float:
        return exp(fsum(log(ladders[name]) for name in group) / len(group))

    def contradicts(one: list[str], two: list[str]) -> bool:
        return price(one) < price(two) and any(better(a, b) for a in one for b in two)

    while True:
        pair = next(((a, b) for a in groups for b in groups if a is not b and contradicts(a, b)), None)
        if pair is None:
            return {name: price(group) for group in groups for name in group}
        groups = [each for each in groups if each not in pair] + [[*pair[0], *pair[1]]]


def catalogue_order(one: str, two: str) -> bool:
    """Whether the first card is the better one, by the catalogue and by the pairs that it cannot tell apart."""
    types = {gpu.name: gpu for gpu in load_gpu_types()}
    return (one, two) in ALSO_BETTER or is_better(types[one], types[two])


def rows_of(table: Iterable[Mapping[str, str]], better: Better = catalogue_order) -> list[dict[str, str]]:
    """Return the rows of the price list, in the order of the table."""
    offered = [row for row in table if int(row["offers"] or 0)]
    demanded = [row for row in offered if row["capacity_type"] == CapacityType.ON_DEMAND]
    prices = clamped({row["type"]: Level(float(row["ladder"]), int(row["voters"])) for row in demanded}, better)
    return [_written(row, prices) for row in offered if _is_worth_a_row(row, prices)]


def _is_worth_a_row(row: Mapping[str, str], prices: Mapping[str, float]) -> bool:
    """Whether a row says something. Spot that costs more than on demand is one seller's list, and no spot market."""
    return row["capacity_type"] == CapacityType.ON_DEMAND or float(row["median"]) < prices[row["type"]]


def _written(row: Mapping[str, str], prices: Mapping[str, float]) -> dict[str, str]:
    spot = row["capacity_type"] == CapacityType.SPOT
    usd = _usd(row["median"]) if spot else _usd(prices[row["type"]])
    moved = not spot and usd != _usd(row["ladder"])
    basis = PriceBasis.MEDIAN if spot else PriceBasis.CLAMPED if moved else PriceBasis.LADDER
    return {
        "gpu_type": row["type"],
        "capacity_type": row["capacity_type"],
        "usd_per_hour": usd,
        "basis": basis,
        "ladder_usd": "" if spot else _usd(row["ladder"]),
        "hyperscaler_usd": row["median_hyperscaler"],
        "offers": row["offers"],
        "voters": row["voters"],
        "date_from": row["date_from"],
        "date_to": row["date_to"],
        "source": row["source"],
    }


def _usd(value: float | str) -> str:
    return str(Decimal(value).quantize(Decimal("0.001")))


def text_of(rows: Iterable[Mapping[str, str]]) -> str:
    """Return the file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return HEAD + text.getvalue()


def main(arguments: list[str]) -> int:
    """Write the list from the table that is named. Returns the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("Name one table: scripts/make_prices.py MARKET.csv\n")
        return 2
    with Path(arguments[0]).open(encoding="utf-8", newline="") as table:
        PRICES.write_text(text_of(rows_of(csv.DictReader(table))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
