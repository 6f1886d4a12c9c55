"""Prices as facts: the order of cards, what is doubtful about a price, and the prices in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.gpus import CapacityType, GpuType, MarketOffers, Price, PriceBasis
from plimsoll.domain.public_words import PriceDoubt
from plimsoll.facts.prices.remarks import OLDEST_DAYS, PriceRemark, is_better, remarks_on
from plimsoll.facts.prices.repricing import repriced
from tests.support.tables import every_case

TYPES = {gpu.name: gpu for gpu in load_gpu_types()}
TODAY = date(2026, 11, 22)
SOLID = MarketOffers(offers=9, voters=5, last=TODAY)
SLICE = "h100-sxm-80gb-mig-3g.40gb"


def priced(name: str, usd: str, market: MarketOffers | None = SOLID, spot: str | None = None) -> GpuType:
    other = None if spot is None else Price(Decimal(spot), "test", market=market)
    return replace(TYPES[name], price=Price(Decimal(usd), "test", other, market))


def doubts(*types: GpuType, capacities: Sequence[CapacityType] = tuple(CapacityType)) -> list[tuple[str, str]]:
    return [(each.doubt.value, each.gpu_type) for each in remarks_on(types, TODAY, capacities)]


@every_case(
    ("better", "lesser"),
    [
        ("h200-sxm-141gb", "h100-sxm-80gb"),
        ("b200-sxm-180gb", "h200-sxm-141gb"),
        ("h100-sxm-80gb", "h100-pcie-80gb"),
        ("h100-sxm-80gb", "l40s-48gb"),
        ("mi325x-256gb", "mi300x-192gb"),
        ("mi300x-192gb", "mi210-64gb"),
        ("rtx-5090-32gb", "rtx-4090-24gb"),
    ],
)
def test_the_better_card_of_a_family_is_known_and_the_lesser_one_is_not_better(better: str, lesser: str) -> None:
    assert is_better(TYPES[better], TYPES[lesser])
    assert not is_better(TYPES[lesser], TYPES[better])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("h100-sxm-80gb", "h100-sxm-80gb"),  # equal
        ("a100-sxm-80gb", "l4-24gb"),  # more memory and bandwidth, an older generation
        ("gh200-96gb", "h100-sxm-80gb"),  # more memory, no NVLink to its neighbours
        ("rtx-4090-24gb", "l4-24gb"),  # another family
        ("mi300x-192gb", "h100-sxm-80gb"),  # another maker
    ],
)
def test_cards_that_cannot_be_compared_have_no_order(one: str, two: str) -> None:
    assert not is_better(TYPES[one], TYPES[two])
    assert not is_better(TYPES[two], TYPES[one])


def test_prices_of_many_recent_voters_in_the_right_order_raise_no_doubt() -> None:
    assert doubts(priced("h100-sxm-80gb", "3.08"), priced("h200-sxm-141gb", "3.96")) == []


@pytest.mark.parametrize(
    ("written", "kept"), [("1.0", "1"), ("100", "100"), ("1E+2", "100"), ("0.50", "0.5"), ("NaN", "NaN")]
)
def test_equal_prices_are_written_alike(written: str, kept: str) -> None:
    """What is remembered of one of them is shown for the other one."""
    assert str(Price(Decimal(written), "test").usd_per_hour) == kept


def test_a_price_that_somebody_wrote_down_is_believed_whatever_its_age() -> None:
    assert doubts(priced("h100-sxm-80gb", "3.08", market=None)) == []


@pytest.mark.parametrize(("voters", "thin"), [(0, True), (1, True), (2, True), (3, False), (None, False)])
def test_one_or_two_voters_are_thin(voters: int | None, thin: bool) -> None:  # noqa: FBT001 - a parameter of the test
    expected = [("ThinPrice", "l4-24gb")] if thin else []
    assert doubts(priced("l4-24gb", "0.42", MarketOffers(voters=voters))) == expected


def test_a_thin_price_says_how_many_voted_and_whether_it_was_moved() -> None:
    market = MarketOffers(voters=2, basis=PriceBasis.CLAMPED)
    (remark,) = remarks_on([priced("l4-24gb", "0.42", market)], TODAY)
    assert remark == PriceRemark(
        PriceDoubt.THIN_PRICE, "l4-24gb", CapacityType.ON_DEMAND, (("voters", 2), ("clamped", 1))
    )


@pytest.mark.parametrize(("days", "old"), [(0, False), (OLDEST_DAYS, False), (OLDEST_DAYS + 1, True)])
def test_a_price_is_old_after_the_limit_on_the_day_of_its_use(days: int, old: bool) -> None:  # noqa: FBT001 - same
    newest = TODAY - timedelta(days=days)
    found = remarks_on([priced("l4-24gb", "0.42", replace(SOLID, last=newest))], TODAY)
    assert [each.numbers for each in found] == (
        [(("days", days), ("limit_days", 120), ("newest", newest.isoformat()))] if old else []
    )


def test_a_better_card_that_costs_less_is_named_with_the_dearest_lesser_one() -> None:
    cards = [priced("h200-sxm-141gb", "3"), priced("h100-sxm-80gb", "3.5"), priced("h100-pcie-80gb", "3.2")]
    (remark,) = remarks_on(cards, TODAY)
    assert (remark.doubt, remark.gpu_type) == (PriceDoubt.PRICES_UPSIDE_DOWN, "h200-sxm-141gb")
    assert dict(remark.numbers) == {"usd": "3", "lesser": "h100-sxm-80gb", "lesser_usd": "3.5"}


def test_equal_prices_and_a_cheap_card_of_another_family_are_in_order() -> None:
    assert doubts(priced("h200-sxm-141gb", "3"), priced("h100-sxm-80gb", "3")) == []
    assert doubts(priced("rtx-4090-24gb", "0.2"), priced("l4-24gb", "0.8")) == []


def test_spot_above_the_price_on_demand_is_doubtful() -> None:
    assert doubts(priced("l4-24gb", "0.42", spot="0.43")) == [("SpotCostsMore", "l4-24gb")]
    assert doubts(priced("l4-24gb", "0.42", spot="0.42")) == []


def test_doubts_about_spot_are_left_out_where_no_spot_price_is_used() -> None:
    gpu = replace(
        priced("l4-24gb", "0.42"), price=Price(Decimal(1), "t", Price(Decimal(2), "t", market=MarketOffers(voters=1)))
    )
    assert doubts(gpu) == [("SpotCostsMore", "l4-24gb"), ("ThinPrice", "l4-24gb")]
    assert doubts(gpu, capacities=[CapacityType.ON_DEMAND]) == []


def test_a_slice_speaks_for_its_card_once() -> None:
    thin = replace(priced("h100-sxm-80gb", "3", MarketOffers(voters=1)))
    assert thin.price is not None
    mig = TYPES[SLICE].mig
    assert mig is not None
    part = replace(TYPES[SLICE], price=mig.price(thin.price))
    assert doubts(part) == doubts(part, thin) == [("ThinPrice", "h100-sxm-80gb")]


class TestPricesInForce:
    def test_a_price_of_ones_own_wins_and_the_slice_follows_its_card(self) -> None:
        own = {"h100-sxm-80gb": Price(Decimal(4), "own", Price(Decimal(2), "own spot"))}
        card, part = repriced(TYPES["h100-sxm-80gb"], own), repriced(TYPES[SLICE], own)
        assert card.price == own["h100-sxm-80gb"]
        assert part.price is not None
        assert part.price.spot is not None
        assert (part.price.usd_per_hour, part.price.spot.usd_per_hour) == (Decimal("2.0000"), Decimal("1.0000"))
        assert repriced(TYPES["l4-24gb"], own) is TYPES["l4-24gb"]

    def test_a_type_that_a_list_leaves_out_has_no_price_and_neither_have_its_slices(self) -> None:
        own = {"h100-sxm-80gb": None}
        assert repriced(TYPES["h100-sxm-80gb"], own).price is None
        assert repriced(TYPES[SLICE], own).price is None

    def test_the_price_by_capacity_type(self) -> None:
        gpu = priced("l4-24gb", "0.42", spot="0.29")
        assert (gpu.price_of(CapacityType.ON_DEMAND), gpu.price_of(CapacityType.SPOT)) == (
            gpu.price,
            gpu.price.spot if gpu.price else None,
        )
        assert TYPES["h20-96gb"].price_of(CapacityType.SPOT) is None
