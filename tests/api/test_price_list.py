"""A price list in CSV: every usable row counts, and everything else is named by line, field, value and fix."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from plimsoll.api.price_list import COLUMNS, PriceRows, read_price_list
from plimsoll.domain.cluster.gpus import CapacityType, MarketOffers, PriceBasis
from tests.support.tables import every_case

KNOWN = frozenset({"l4-24gb", "h100-sxm-80gb", "h100-pcie-80gb"})
HEAD = "gpu_type,capacity_type,usd_per_hour,date_from,date_to,offers,voters,basis,source"
NEIGHBOUR = "h100-sxm-80gb,,3.10,,,,,,"


def read(*rows: str, head: str = HEAD) -> PriceRows:
    return read_price_list("\n".join([head, *rows]), "my.csv", KNOWN)


def test_a_row_carries_its_price_and_the_offers_behind_it() -> None:
    found = read("l4-24gb,on-demand,0.418,2026-05-24,2026-08-03,8,4,ladder,a tracker")
    price = found.prices["l4-24gb"]
    assert found.complaints == ()
    assert (price.usd_per_hour, price.source) == (Decimal("0.418"), "my.csv: 4 votes of 8 offers, newest 2026-08-03")
    assert price.market == MarketOffers(
        8, 4, date(2026, 5, 24), date(2026, 8, 3), PriceBasis.LADDER, origin="a tracker"
    )


def test_two_columns_are_enough() -> None:
    found = read("l4-24gb,0.71", head="gpu_type,usd_per_hour")
    price = found.prices["l4-24gb"]
    assert (price.usd_per_hour, price.source, price.spot) == (Decimal("0.71"), "my.csv", None)
    assert price.market is not None
    assert not price.market.is_thin


def test_spot_has_its_own_figure_and_its_own_evidence() -> None:
    found = read("l4-24gb,spot,0.29,,2026-07-01,2,2,median,", "l4-24gb,on-demand,0.42,,2026-08-03,8,4,ladder,")
    price = found.prices["l4-24gb"]
    spot = price.of(CapacityType.SPOT)
    assert (price.of(CapacityType.ON_DEMAND), price.usd_per_hour) == (price, Decimal("0.42"))
    assert spot is not None
    assert spot.market is not None
    assert (spot.usd_per_hour, spot.market.voters, spot.market.last) == (Decimal("0.29"), 2, date(2026, 7, 1))
    assert spot.spot is None


def test_a_type_without_a_spot_row_has_no_spot_price() -> None:
    assert read(NEIGHBOUR).prices["h100-sxm-80gb"].of(CapacityType.SPOT) is None


def test_comments_empty_lines_and_a_byte_order_mark_are_no_rows() -> None:
    found = read_price_list("\ufeff# mine, of today\n\n gpu_type , usd_per_hour\n,\n# L4\nl4-24gb, 0.71 \n", "f", KNOWN)
    assert found.complaints == ()
    assert found.prices["l4-24gb"].usd_per_hour == Decimal("0.71")


@every_case(
    ("row", "said"),
    [
        ("h100,,2,,,,,,", "gpu_type: 'h100' is no GPU type; did you mean h100-pcie-80gb or h100-sxm-80gb?"),
        ("l4-24gb,spots,2,,,,,,", "capacity_type: 'spots' cannot be used; write one of on-demand, spot"),
        ("l4-24gb,,,,,,,,", "usd_per_hour: '' is no price of l4-24gb; write US dollars per GPU and hour, e.g. 2.50"),
        ('l4-24gb,,"2,50",,,,,,', "usd_per_hour: '2,50' is no price of l4-24gb"),
        ("l4-24gb,,-1,,,,,,", "usd_per_hour: '-1' is no price of l4-24gb"),
        ("l4-24gb,,2,,1.8.2026,,,,", "date_to: '1.8.2026' cannot be used; write a date such as 2026-08-21"),
        ("l4-24gb,,2,2026-08-02,2026-08-01,,,,", "date_to: 2026-08-01 is before date_from 2026-08-02; exchange them"),
        ("l4-24gb,,2,,,many,,,", "offers: 'many' cannot be used; write a whole number"),
        ("l4-24gb,,2,,,,-2,,", "voters: '-2' cannot be used; write a whole number"),
        ("l4-24gb,,2,,,,,guess,", "basis: 'guess' cannot be used; write one of ladder, clamped, median, or nothing"),
        ("l4-24gb,,2,,,,,,a,b", "it has 10 fields and the header has 9; quote a field that holds a comma"),
        ("l4-24gb,,2", "it has 3 fields and the header has 9"),
        ("l4-24gb,spot,2,,,,,,", "gpu_type: l4-24gb has a spot price and no price on demand; add a row with"),
        (NEIGHBOUR, "gpu_type: h100-sxm-80gb has its on-demand price in line 2 already; keep one of them"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_its_neighbour_counts(row: str, said: str) -> None:
    found = read(NEIGHBOUR, row)
    assert len(found.complaints) == 1
    assert found.complaints[0].startswith(f"my.csv: line 3: {said}")
    assert {name: price.usd_per_hour for name, price in found.prices.items()} == {"h100-sxm-80gb": Decimal("3.10")}


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("", "the column gpu_type is missing; begin with a header such as gpu_type,capacity_type,usd_per_hour"),
        ("gpu_type,price", "the column usd_per_hour is missing"),
        ("gpu_type,usd_per_hour,voter", "there is no column 'voter'; did you mean voters?"),
        ("gpu_type,usd_per_hour,zzz", f"there is no column 'zzz'; the columns are {', '.join(COLUMNS)}"),
        ("gpu_type,usd_per_hour,gpu_type", "the column gpu_type stands there twice; keep one"),
    ],
)
def test_a_text_with_another_header_is_no_list_and_gives_no_price(head: str, said: str) -> None:
    found = read("l4-24gb,1,1", head=head)
    assert (dict(found.prices), found.is_list) == ({}, False)
    assert any(said in complaint for complaint in found.complaints)


def test_a_quote_that_is_not_closed_makes_it_no_list() -> None:
    found = read('"l4-24gb,,2,,,,,,')
    assert (dict(found.prices), found.is_list) == ({}, False)
    assert "it is not CSV" in found.complaints[0]


def test_messages_stay_short_whatever_stands_in_the_list() -> None:
    found = read(f"{'x' * 100_000},,{'9' * 100_000},,,,,,", f"l4-24gb,,{'9' * 100_000},,,,,,")
    assert dict(found.prices) == {}
    assert all(len(complaint) < 500 for complaint in found.complaints)
