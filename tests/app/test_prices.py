"""Prices from a ConfigMap: what can be used is, what cannot is complained of once."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import Cluster, ObjectKind
from plimsoll.api.prices import parse_prices
from plimsoll.app.watch.prices import PriceList
from plimsoll.domain.cluster.gpus import CapacityType, Price
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.prices.repricing import OwnPrices, repriced
from tests.support.tables import every_case

TYPES = {gpu.name: gpu for gpu in load_gpu_types()}
SLICE = "h100-sxm-80gb-mig-3g.40gb"
KNOWN = [TYPES[name] for name in ("l4-24gb", "h100-sxm-80gb", SLICE)]
LIST = "gpu_type,capacity_type,usd_per_hour\nl4-24gb,,0.60\nl4-24gb,spot,0.20\n"


def usd(prices: OwnPrices) -> dict[str, tuple[str, str | None] | None]:
    """Prices on demand and spot, as text."""
    return {
        name: None
        if price is None
        else (str(price.usd_per_hour), None if price.spot is None else str(price.spot.usd_per_hour))
        for name, price in prices.items()
    }


def test_a_price_is_exact_and_names_its_source() -> None:
    prices, complaints = parse_prices({"l4-24gb": " 0.80 "}, "ns/prices", KNOWN)

    assert prices == {"l4-24gb": Price(Decimal("0.80"), "ConfigMap ns/prices")}
    assert complaints == ()


def test_an_entry_replaces_the_catalogue_s_price_with_its_spot_price() -> None:
    assert TYPES["l4-24gb"].price_of(CapacityType.SPOT) is not None
    prices, _ = parse_prices({"l4-24gb": "0.80"}, "ns/prices", KNOWN)
    assert usd(prices) == {"l4-24gb": ("0.8", None)}


def test_a_spot_entry_stands_beside_the_price_on_demand_that_holds() -> None:
    market = TYPES["l4-24gb"].price
    assert market is not None
    alone, none = parse_prices({"l4-24gb.spot": "0.1"}, "ns/prices", KNOWN)
    both, _ = parse_prices({"l4-24gb.spot": "0.1", "l4-24gb": "0.8"}, "ns/prices", KNOWN)
    assert (usd(alone), usd(both), none) == (
        {"l4-24gb": (str(market.usd_per_hour), "0.1")},
        {"l4-24gb": ("0.8", "0.1")},
        (),
    )


def test_the_spot_price_of_a_slice_stands_beside_its_card_s_own_price() -> None:
    prices, _ = parse_prices({"h100-sxm-80gb": "4", f"{SLICE}.spot": "0.5"}, "ns/prices", KNOWN)
    assert usd(prices)[SLICE] == ("2", "0.5")


def test_a_spot_entry_of_a_type_without_any_other_price_is_complained_of() -> None:
    bare = [replace(TYPES["l4-24gb"], price=None), TYPES["h100-sxm-80gb"]]
    prices, complaints = parse_prices({"l4-24gb.spot": "0.1", "h100-sxm-80gb": "3"}, "ns/prices", bare)
    assert list(prices) == ["h100-sxm-80gb"]
    assert complaints == ("ns/prices: l4-24gb.spot: l4-24gb has no price on demand; add an entry l4-24gb with one",)


def test_a_whole_list_replaces_the_prices_of_all_cards() -> None:
    prices, complaints = parse_prices({"prices.csv": LIST}, "ns/prices", KNOWN)
    assert complaints == ()
    assert usd(prices) == {"l4-24gb": ("0.6", "0.2"), "h100-sxm-80gb": None}
    assert [repriced(gpu, prices).price is None for gpu in KNOWN] == [False, True, True]


def test_single_entries_win_over_the_list() -> None:
    data = {"prices.csv": LIST, "l4-24gb.spot": "0.25", "h100-sxm-80gb": "2.5"}
    prices, _ = parse_prices(data, "ns/prices", KNOWN)
    assert usd(prices) == {"l4-24gb": ("0.6", "0.25"), "h100-sxm-80gb": ("2.5", None)}


def test_a_bad_row_of_the_list_is_named_and_the_others_count() -> None:
    prices, complaints = parse_prices({"prices.csv": f"{LIST}h100,,3\n"}, "ns/prices", KNOWN)
    assert usd(prices)["l4-24gb"] == ("0.6", "0.2")
    assert complaints[0].startswith("ns/prices, prices.csv: line 4: gpu_type: 'h100' is no GPU type")


def test_a_list_that_is_none_leaves_the_catalogue_in_force() -> None:
    prices, complaints = parse_prices({"prices.csv": "<html>", "l4-24gb": "0.5"}, "ns/prices", KNOWN)
    assert usd(prices) == {"l4-24gb": ("0.5", None)}
    assert complaints


@every_case("text", ["", "free", "-1", "NaN", "Infinity", "2,50"])
def test_what_is_no_price_is_left_out_and_quoted(text: str) -> None:
    prices, complaints = parse_prices({"l4-24gb": text, "h100-sxm-80gb": "3"}, "ns/prices", KNOWN)

    assert list(prices) == ["h100-sxm-80gb"]
    assert complaints == (f"ns/prices: l4-24gb: {text!r} is no price; write US dollars per GPU and hour, e.g. 2.50",)


def test_a_gpu_type_that_nobody_knows_is_complained_of() -> None:
    assert parse_prices({"h100": "3"}, "ns/prices", KNOWN) == (
        {},
        ("ns/prices: h100 is no GPU type; did you mean h100-sxm-80gb? `plimsoll gpus` lists them all",),
    )


def test_the_charts_own_example_names_types_that_there_are() -> None:
    values = (Path(__file__).resolve().parents[2] / "charts" / "plimsoll" / "values.yaml").read_text(encoding="utf-8")
    example = dict(re.findall(r'^#  (\S+): "([0-9.]+)"$', values, re.MULTILINE))
    prices, complaints = parse_prices(example, "ns/prices", load_gpu_types())

    assert len(prices) == 2
    assert complaints == ()


class OneConfigMap:
    """A cluster with nothing but the prices ConfigMap."""

    def __init__(self, data: dict[str, str]) -> None:
        self.data = data

    async def get(self, _kind: ObjectKind, _key: ObjectKey) -> dict[str, Any]:
        return {"data": self.data}


async def test_a_change_wakes_the_planner_and_a_complaint_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    changes: list[None] = []
    source = OneConfigMap({"l4-24gb": "0.80", "h100": "3"})
    prices = PriceList(cast("Cluster", source), ObjectKey("ns", "prices"), lambda: changes.append(None), KNOWN)

    with caplog.at_level(logging.WARNING):
        await prices.refresh()
        await prices.refresh()

    assert len(changes) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "ns/prices: h100 is no GPU type; did you mean h100-sxm-80gb? `plimsoll gpus` lists them all"
    ]


@every_case("text", ["9" * 5000, "1e999999", "1e7", "1" + "0" * 40, "x" * 100_000, "Infinity", "-0.01"])
def test_a_price_beyond_all_cards_is_none_and_is_named_in_few_words(text: str) -> None:
    prices, complaints = parse_prices(
        {"l4-24gb": text, "l40s-48gb": "1.5"}, "ns/prices", [TYPES["l4-24gb"], TYPES["l40s-48gb"]]
    )
    assert list(prices) == ["l40s-48gb"]
    assert len(complaints) == 1
    assert len(complaints[0]) < 500


async def test_a_list_in_the_config_map_is_in_force_and_its_bad_row_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    changes: list[None] = []
    source = OneConfigMap({"prices.csv": f"{LIST}h100,,3\n"})
    prices = PriceList(cast("Cluster", source), ObjectKey("ns", "prices"), lambda: changes.append(None), KNOWN)
    with caplog.at_level(logging.WARNING):
        await prices.refresh()
    assert usd(prices.current) == {"l4-24gb": ("0.6", "0.2"), "h100-sxm-80gb": None}
    assert "prices.csv: line 4: gpu_type: 'h100' is no GPU type" in caplog.text

    source.data = {}
    await prices.refresh()
    assert (prices.current, len(changes)) == ({}, 2)
