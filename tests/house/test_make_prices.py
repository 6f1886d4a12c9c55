"""The catalogue's price list, and the script that makes it from a table of offers."""

from __future__ import annotations

import csv
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.price_list import COLUMNS, read_price_list
from plimsoll.domain.public_words import PriceDoubt
from plimsoll.facts.prices.remarks import remarks_on
from scripts import make_prices
from scripts.make_prices import HEAD, PRICES, Level, catalogue_order, clamped, rows_of, text_of

TYPES = {gpu.name: gpu for gpu in load_gpu_types()}
DAY = date(2026, 11, 22)


def offered(name: str, ladder: str, voters: int, *, spot: str | None = None, offers: int = 9) -> list[dict[str, str]]:
    """The rows of a card in the table."""
    common = {"type": name, "offers": str(offers), "median_hyperscaler": "9", "date_from": "2026-05-01"}
    common |= {"date_to": "2026-08-01", "source": "a tracker", "voters": str(voters)}
    demand = {"capacity_type": "on-demand", "median": "77", "ladder": ladder}
    rows = [common | demand]
    return rows if spot is None else [*rows, common | {"capacity_type": "spot", "median": spot, "ladder": ""}]


def usd(rows: list[dict[str, str]]) -> dict[tuple[str, str], str]:
    return {(row["gpu_type"], row["capacity_type"]): row["usd_per_hour"] for row in rows}


def chain(*names: str) -> make_prices.Better:
    """An order in which every card is better than those before it."""
    return lambda one, two: names.index(one) > names.index(two)


def test_three_voters_keep_their_ladder_and_spot_keeps_its_median() -> None:
    rows = rows_of([*offered("h100-sxm-80gb", "3.078", 14, spot="1.275"), *offered("h200-sxm-141gb", "3.961", 8)])
    assert usd(rows) == {
        ("h100-sxm-80gb", "on-demand"): "3.078",
        ("h100-sxm-80gb", "spot"): "1.275",
        ("h200-sxm-141gb", "on-demand"): "3.961",
    }
    assert [row["basis"] for row in rows] == ["ladder", "median", "ladder"]
    assert {row["hyperscaler_usd"] for row in rows} == {"9"}


def test_solid_ladders_are_never_moved_even_upside_down() -> None:
    levels = {"small": Level(5.0, 3), "large": Level(4.0, 3)}
    assert clamped(levels, chain("small", "large")) == {"small": 5.0, "large": 4.0}


@pytest.mark.parametrize(("ladder", "price"), [(1.0, 2.0), (3.0, 3.0), (9.0, 4.0)])
def test_a_thin_ladder_is_kept_between_its_solid_neighbours(ladder: float, price: float) -> None:
    levels = {"small": Level(2.0, 3), "thin": Level(ladder, 2), "large": Level(4.0, 7)}
    assert clamped(levels, chain("small", "thin", "large")) == pytest.approx(
        {"small": 2.0, "thin": price, "large": 4.0}
    )


def test_thin_ladders_that_contradict_each_other_get_their_mean_and_a_third_stays() -> None:
    levels = {"a": Level(1.0, 1), "b": Level(8.0, 1), "c": Level(2.0, 1)}
    found = clamped(levels, chain("a", "b", "c"))
    assert found["a"] == 1.0
    assert found["b"] == found["c"] == pytest.approx(4.0)


def test_a_chain_of_contradictions_ends_in_one_price() -> None:
    levels = {"a": Level(8.0, 1), "b": Level(4.0, 2), "c": Level(2.0, 1)}
    assert list(clamped(levels, chain("a", "b", "c")).values()) == pytest.approx([4.0, 4.0, 4.0])


def test_a_moved_price_is_marked_and_keeps_its_ladder() -> None:
    rows = rows_of([*offered("h100-sxm-80gb", "3.078", 14), *offered("h200-sxm-141gb", "2.5", 2)])
    (moved,) = (row for row in rows if row["gpu_type"] == "h200-sxm-141gb")
    assert (moved["usd_per_hour"], moved["basis"], moved["ladder_usd"]) == ("3.078", "clamped", "2.500")


def test_no_offer_gives_no_row_and_spot_above_on_demand_is_left_out() -> None:
    rows = rows_of(
        [
            *offered("h100-sxm-80gb", "3", 14, spot="3.1"),
            *offered("l4-24gb", "0.4", 4, spot="0.3"),
            *offered("h20-96gb", "", 0, offers=0),
        ]
    )
    assert set(usd(rows)) == {("h100-sxm-80gb", "on-demand"), ("l4-24gb", "on-demand"), ("l4-24gb", "spot")}


def test_the_pairs_that_the_catalogue_cannot_tell_apart_are_ordered() -> None:
    assert catalogue_order("mi355x-288gb", "mi350x-288gb")
    assert not catalogue_order("mi350x-288gb", "mi355x-288gb")
    assert catalogue_order("h200-sxm-141gb", "h100-sxm-80gb")


def test_the_script_writes_a_list_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, target = tmp_path / "market.csv", tmp_path / "prices.csv"
    rows = offered("h100-sxm-80gb", "3.078", 14, spot="1.275")
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    monkeypatch.setattr(make_prices, "PRICES", target)
    assert make_prices.main([str(table)]) == 0
    found = read_price_list(target.read_text(), "x", TYPES)
    assert found.complaints == ()
    assert found.prices["h100-sxm-80gb"].usd_per_hour == Decimal("3.078")
    assert make_prices.main([]) == 2


ROWS = tuple(csv.DictReader(line for line in PRICES.read_text().splitlines() if not line.startswith("#")))


class TestTheListThatShips:
    def test_it_is_what_the_script_writes(self) -> None:
        assert text_of(ROWS) == PRICES.read_text()
        assert PRICES.read_text().startswith(HEAD)
        assert tuple(ROWS[0]) == COLUMNS

    def test_its_prices_follow_from_its_ladders(self) -> None:
        demand = [row for row in ROWS if row["capacity_type"] == "on-demand"]
        levels = {row["gpu_type"]: Level(float(row["ladder_usd"]), int(row["voters"])) for row in demand}
        found = clamped(levels, catalogue_order)
        assert {row["gpu_type"]: float(row["usd_per_hour"]) for row in demand} == pytest.approx(found, abs=0.0006)

    def test_the_cards_that_were_upside_down_are_in_order(self) -> None:
        prices = [TYPES[name].price for name in ("h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb")]
        assert [f"{price.usd_per_hour:.2f}" for price in prices if price] == ["3.08", "3.96", "5.90"]
        found = remarks_on(TYPES.values(), DAY)
        assert [each for each in found if each.doubt is PriceDoubt.PRICES_UPSIDE_DOWN] == []
        assert [each for each in found if each.doubt is PriceDoubt.SPOT_COSTS_MORE] == []

    def test_every_price_has_its_evidence(self) -> None:
        for row in ROWS:
            assert int(row["offers"]) >= int(row["voters"]) >= 1, row
            assert row["source"]
            assert row["date_from"] <= row["date_to"] <= "2026-08-21"
            assert row["basis"] == ("median" if row["capacity_type"] == "spot" else row["basis"])
            assert row["basis"] != "clamped" or int(row["voters"]) <= 2

    def test_the_prices_of_slices_are_shares_of_both_capacity_types(self) -> None:
        card, part = TYPES["h100-sxm-80gb"].price, TYPES["h100-sxm-80gb-mig-3g.40gb"].price
        assert card is not None
        assert part is not None
        assert card.spot is not None
        assert part.spot is not None
        assert (part.usd_per_hour, part.spot.usd_per_hour) == (card.usd_per_hour / 2, card.spot.usd_per_hour / 2)
        assert part.market == card.market
