"""Doubtful prices in the operator: a metric that is always true, and a log that says each sentence once."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from plimsoll.app.watch.prices import PriceList, PriceWatch
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import CapacityType, MarketOffers, Price
from plimsoll.facts.prices.remarks import OLDEST_DAYS
from tests.support.office import Office
from tests.support.planning import H100, L4, fleet, gpu, node

NEWEST = date(2026, 8, 21)
LAST_GOOD_DAY = datetime.combine(NEWEST + timedelta(days=OLDEST_DAYS), datetime.min.time(), UTC).timestamp()
DAY = 86_400.0
GOOD = MarketOffers(voters=5, last=NEWEST)


def fleet_of(*, voters: int = 5, spot: bool = False) -> Fleet:
    """An H100 whose market price has that many voters, and an L4 with a price of the owner's own."""
    thin = Price(Decimal(1), "market", market=MarketOffers(voters=1))
    card = replace(gpu(H100), price=Price(Decimal(3), "market", thin, replace(GOOD, voters=voters)))
    where = fleet(node("h", card), node("l", gpu(L4, price="0.5")))
    if not spot:
        return where
    return where.with_nodes(replace(each, capacity_type=CapacityType.SPOT) for each in where.nodes)


def looked(watch: PriceWatch, where: Fleet, now: float = LAST_GOOD_DAY) -> list[tuple[str, str, str]] | None:
    found = watch.look(where, now)
    return None if found is None else [(each.doubt.value, each.gpu_type, each.capacity.value) for each in found]


def test_a_doubtful_price_is_logged_once_and_an_owner_s_price_never(caplog: pytest.LogCaptureFixture) -> None:
    watch = PriceWatch()
    with caplog.at_level(logging.WARNING):
        assert looked(watch, fleet_of(voters=2)) == [("ThinPrice", H100, "on-demand")]
        assert looked(watch, fleet_of(voters=2)) == [("ThinPrice", H100, "on-demand")]
    assert [record.getMessage() for record in caplog.records] == [
        f"ThinPrice: these prices come from one or two providers only: {H100}."
    ]


def test_the_same_fleet_on_the_same_day_is_not_looked_at_again() -> None:
    watch, where = PriceWatch(), fleet_of()
    assert looked(watch, where) == []
    assert looked(watch, where, LAST_GOOD_DAY + DAY - 1) is None


def test_a_price_grows_old_while_the_operator_runs(caplog: pytest.LogCaptureFixture) -> None:
    watch, where = PriceWatch(), fleet_of()
    assert looked(watch, where) == []
    with caplog.at_level(logging.WARNING):
        assert looked(watch, where, LAST_GOOD_DAY + DAY) == [("OldPrice", H100, "on-demand")]
        assert looked(watch, where, LAST_GOOD_DAY + 2 * DAY) == [("OldPrice", H100, "on-demand")]
    assert len(caplog.records) == 1


def test_a_spot_price_is_looked_at_only_where_there_are_spot_nodes() -> None:
    assert looked(PriceWatch(), fleet_of()) == []
    assert looked(PriceWatch(), fleet_of(spot=True)) == [("ThinPrice", H100, "spot")]


def doubts(office: Office) -> dict[str, str]:
    """The series of doubtful prices: GPU type and reason."""
    (found,) = (each for each in office.passes.metrics.registry.collect() if each.name == "plimsoll_price_doubts")
    return {sample.labels["gpu_type"]: sample.labels["reason"] for sample in found.samples}


async def test_a_pass_shows_the_doubts_about_the_prices_in_force_and_forgets_those_that_are_mended(
    tmp_path: Path,
) -> None:
    office = Office.open(tmp_path)
    bought = Price(Decimal(1), "contract")
    types = [each.name for each in office.make().snapshot.fleet.gpu_types()]
    thin = dict.fromkeys(types, bought) | {types[0]: replace(bought, market=MarketOffers(voters=1))}
    office.passes.prices = cast("PriceList", SimpleNamespace(current=thin))
    office.make()
    assert doubts(office) == {types[0]: "ThinPrice"}
    office.passes.prices = cast("PriceList", SimpleNamespace(current={**thin, types[0]: bought}))
    office.make()
    assert doubts(office) == {}
    await office.passes.reader.models.close()
