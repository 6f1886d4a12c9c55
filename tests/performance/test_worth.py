"""The worth of speed: dollars for the time that users wait."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.latency import UNMEASURED, Bound, Objective, Performance, Slo
from plimsoll.performance.slo import keeps_surely, upper_quarter
from plimsoll.performance.worth import ANSWER_TOKENS, delay_cost

FOUND = Performance(0.211, 0.211, 0.02, 400.0, Bound.MEMORY, 0.5, (0.1, 0.4), (0.016, 0.03), True, "measured")  # noqa: FBT003
SECONDS = st.floats(1e-4, 10.0)


def with_times(ttft: float, tpot: float) -> Performance:
    bands = (0.6 * ttft, 2.2 * ttft), (0.8 * tpot, 1.5 * tpot)
    return replace(
        FOUND, ttft_seconds=ttft, typical_ttft_seconds=ttft, tpot_seconds=tpot, ttft_band=bands[0], tpot_band=bands[1]
    )


def test_a_millisecond_costs_what_the_scale_says() -> None:
    """20 ms a token and 1 ms of the first one, for each of 8 users."""
    assert FOUND.ttft_seconds / ANSWER_TOKENS == 0.001
    assert delay_cost(Objective.BALANCED, 8, FOUND, None) == Decimal("0.0420")
    assert delay_cost(Objective.INTERACTIVE, 8, FOUND, None) == Decimal("2.1000")
    assert delay_cost(Objective.BATCH, 8, FOUND, None) == 0
    late = with_times(1e-4, 0.12)
    assert delay_cost(Objective.BALANCED, 1, late, None) == Decimal("0.4300"), "20 of the 120 ms are late"
    assert delay_cost(Objective.BALANCED, 1, late, Slo(tpot_seconds=1.0)) == Decimal("0.0300")


@given(ttft=SECONDS, tpot=SECONDS, more=st.floats(1.0, 1.01), users=st.integers(1, 512))
def test_more_time_never_costs_less_and_there_is_no_cliff(ttft: float, tpot: float, more: float, users: int) -> None:
    for objective in Objective:
        here = delay_cost(objective, users, with_times(ttft, tpot), None)
        there = delay_cost(objective, users, with_times(more * ttft, more * tpot), None)
        assert here <= there
        a_user = 12.5 * (tpot + ttft / ANSWER_TOKENS) + 5 * (tpot / 0.1 + ttft / 5.0)
        assert float(there - here) <= (more - 1) * users * a_user + 1e-3


def test_a_speed_that_nobody_has_measured_counts_as_the_upper_quarter_of_its_band() -> None:
    guess = replace(FOUND, trust=UNMEASURED, validated=False)
    ttft, tpot = upper_quarter(guess)
    assert FOUND.ttft_seconds < ttft < FOUND.ttft_band[1]
    assert FOUND.tpot_seconds < tpot < FOUND.tpot_band[1]
    assert delay_cost(Objective.BALANCED, 8, guess, None) == delay_cost(
        Objective.BALANCED, 8, with_times(ttft, tpot), None
    )


def test_a_promise_is_sure_with_the_upper_quarter_of_the_band() -> None:
    ttft, tpot = upper_quarter(FOUND)
    assert keeps_surely(Slo(ttft, tpot), FOUND)
    assert not keeps_surely(Slo(ttft_seconds=0.99 * ttft), FOUND)
    assert not keeps_surely(Slo(tpot_seconds=0.99 * tpot), FOUND)
    assert keeps_surely(Slo(), FOUND)
