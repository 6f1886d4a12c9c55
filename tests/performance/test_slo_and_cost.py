"""What an option costs, and which promise it misses by how much."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.domain.cluster.gpus import Price
from plimsoll.domain.decisions.latency import Bound, Performance, Slo
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.performance.model import Load, cost
from plimsoll.performance.slo import INTERACTIVE, SloFigure, SloMiss, slo_misses

FOUND = Performance(
    ttft_seconds=8.0,
    typical_ttft_seconds=6.0,
    tpot_seconds=0.09,
    output_tokens_per_second=1000.0,
    bound=Bound.MEMORY,
    margin=0.5,
    ttft_band=(3.0, 12.0),
    tpot_band=(0.06, 0.14),
    validated=True,
    trust="measured",
)


def test_a_kept_promise_misses_nothing() -> None:
    assert slo_misses(Slo(ttft_seconds=6.0, tpot_seconds=0.09), FOUND) == ()
    assert slo_misses(Slo(), FOUND) == ()


def test_a_miss_says_the_figure_the_limit_and_how_sure_it_is() -> None:
    (miss,) = slo_misses(INTERACTIVE, FOUND)
    assert miss == SloMiss(SloFigure.TTFT, seconds=6.0, limit_seconds=5.0, is_sure=False)
    assert miss.excess == pytest.approx(0.2)


def test_the_larger_excess_comes_first_and_a_band_above_the_limit_is_sure() -> None:
    misses = slo_misses(Slo(ttft_seconds=5.0, tpot_seconds=0.03), FOUND)
    assert [miss.figure for miss in misses] == [SloFigure.TPOT, SloFigure.TTFT]
    assert [miss.is_sure for miss in misses] == [True, False]


def test_the_default_is_for_a_person_who_reads_along() -> None:
    assert Slo(ttft_seconds=5.0, tpot_seconds=0.1) == INTERACTIVE


def test_a_million_tokens_cost_their_share_of_the_hour() -> None:
    load = Load(prompt_tokens=3000, output_tokens=1000, running=32)
    found = cost(Price(Decimal("3.60"), "list"), Split(2), load, FOUND)
    assert found.usd_per_hour == Decimal("7.20")
    assert found.usd_per_million_tokens == pytest.approx(0.5)


def test_twice_the_throughput_halves_the_price_of_a_token() -> None:
    load, price = Load(100, 100, 1), Price(Decimal(1), "list")
    once = cost(price, Split(1), load, FOUND)
    twice = cost(price, Split(1), load, replace(FOUND, output_tokens_per_second=2000.0))
    assert once.usd_per_million_tokens == pytest.approx(2 * twice.usd_per_million_tokens)
    assert once.usd_per_hour == twice.usd_per_hour
