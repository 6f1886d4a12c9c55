"""Prices from a ConfigMap: what can be used is, what cannot is complained of once."""

from __future__ import annotations

import logging
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster import Cluster, Kind
from plimsoll.api.prices import parse_prices
from plimsoll.app.prices import PriceList
from plimsoll.domain.keys import ObjectKey

KNOWN = frozenset({"l4-24gb", "h100-sxm-80gb"})


def test_a_price_is_exact_and_names_its_source() -> None:
    prices, complaints = parse_prices({"l4-24gb": " 0.80 "}, "ns/prices", KNOWN)

    assert (prices["l4-24gb"].usd_per_hour, prices["l4-24gb"].source) == (Decimal("0.80"), "ConfigMap ns/prices")
    assert complaints == ()


@pytest.mark.parametrize("text", ["", "free", "-1", "NaN", "Infinity", "2,50"])
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
    prices, complaints = parse_prices(example, "ns/prices", frozenset(gpu.name for gpu in load_gpu_types()))

    assert len(prices) == 2
    assert complaints == ()


class OneConfigMap:
    """A cluster with nothing but the prices ConfigMap."""

    def __init__(self, data: dict[str, str]) -> None:
        self.data = data

    async def get(self, _kind: Kind, _key: ObjectKey) -> dict[str, Any]:
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


@pytest.mark.parametrize("text", ["9" * 5000, "1e999999", "1e7", "1" + "0" * 40, "x" * 100_000, "Infinity", "-0.01"])
def test_a_price_beyond_all_cards_is_none_and_is_named_in_few_words(text: str) -> None:
    prices, complaints = parse_prices({"l4-24gb": text, "l40s-48gb": "1.5"}, "ns/prices", {"l4-24gb", "l40s-48gb"})
    assert list(prices) == ["l40s-48gb"]
    assert len(complaints) == 1
    assert len(complaints[0]) < 500
