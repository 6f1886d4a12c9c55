"""Prices of a status: what is no number counts as unknown, and its honest neighbour as it is."""

from __future__ import annotations

from decimal import Decimal

from plimsoll.console.views.words import dollars_of
from tests.support.tables import every_case


@every_case("text", [None, "", "free", "NaN", "Infinity", "-Infinity"])
def test_a_price_that_is_no_number_is_unknown(text: str | None) -> None:
    assert dollars_of(text) is None


def test_a_price_is_kept_to_the_cent() -> None:
    assert dollars_of("12.50") == Decimal("12.50")
