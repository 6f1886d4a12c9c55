"""What runs, and what would be chosen today: the figures that differ, only where something is better."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.console.views.deployment.candidates import ChosenToday, candidates_of, chosen_today
from plimsoll.console.views.rows import row_of
from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.public_words import Reason
from tests.console.test_candidates import FIGURES, candidates_with, status_with
from tests.support.console_pages import deployment_page
from tests.support.planning import H100

NUMBERS = (("price", "0.10"), ("saved", "0.70"), ("charge", "0.04"), ("gpus", 2), ("best_price", "0.80"))


def better(reason: Reason, price: str = "0.10", split: int = 2) -> Rejection:
    return Rejection(H100, Split(split), reason, NUMBERS, replace(FIGURES, hourly_price=Decimal(price)))


def comparison(*rejections: Rejection) -> ChosenToday | None:
    return chosen_today(candidates_with(*rejections))


@pytest.mark.parametrize("reason", [Reason.PLACEMENT_KEPT, Reason.KEPT_TO_AVOID_MOVE])
def test_a_better_candidate_that_is_left_for_what_runs_is_compared_with_it(reason: Reason) -> None:
    found = comparison(better(reason))
    assert found is not None
    lines = {line.name: (line.before, line.after) for line in found.lines}
    before, after = lines["GPUs of a replica"]
    assert before.startswith("l4-24gb")
    assert after == f"{H100} \u00d7 2"
    assert lines["price of a replica per hour"][1] == "$0.10"
    assert (found.reason, found.others) == (reason.value, 0)
    assert "what runs is kept" in found.message


def test_figures_that_are_the_same_are_left_out() -> None:
    found = comparison(better(Reason.PLACEMENT_KEPT))
    assert found is not None
    assert all(line.before != line.after for line in found.lines)


def test_of_several_the_cheapest_is_compared_and_the_others_are_counted() -> None:
    found = comparison(
        better(Reason.PLACEMENT_KEPT, "0.30", 4),
        better(Reason.KEPT_TO_AVOID_MOVE),
        better(Reason.COSTS_MORE, "0.01", 8),
    )
    assert found is not None
    assert (found.reason, found.others) == (Reason.KEPT_TO_AVOID_MOVE.value, 1)


@pytest.mark.parametrize("reason", [Reason.COSTS_MORE, Reason.LEFT_RECENTLY])
def test_where_nothing_is_better_there_is_no_comparison(reason: Reason) -> None:
    assert comparison(better(reason)) is None
    assert comparison() is None


def test_without_a_place_there_is_nothing_to_compare() -> None:
    status, body = status_with(better(Reason.PLACEMENT_KEPT))
    del body["status"]["placement"]
    assert chosen_today(candidates_of(status.model_copy(update={"placement": None}), row_of(body))) is None


async def test_the_page_shows_the_comparison_and_only_then() -> None:
    _, body = status_with(better(Reason.KEPT_TO_AVOID_MOVE))
    _, plain = status_with(better(Reason.COSTS_MORE))
    title = "What runs, and what would be chosen today"
    seen = (await deployment_page(body)).text
    assert title in seen
    assert "would save $0.70/h, but what runs is kept: moving costs $0.04 once" in seen
    assert title not in (await deployment_page(plain)).text
