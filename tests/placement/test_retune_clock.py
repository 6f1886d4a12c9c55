"""How long a change of settings may take, and what of its clock is believed."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.placement.demands.clocks import EarlierSettings, RetuneClock, trusted_retune

LONGEST_SECONDS = 86_400.0

NOW = 1_800_000_000.0
A, B = EarlierSettings("a", StepLimits(sequences=8)), EarlierSettings("b", StepLimits(sequences=16))
CLOCK = RetuneClock((A, B), NOW - 100, 900.0, "s")


def test_the_first_replica_has_its_time_and_each_one_that_serves_begins_it_anew() -> None:
    assert CLOCK.due((), 3) == NOW + 800
    assert CLOCK.due((NOW - 50, NOW - 20), 3) == NOW + 880


def test_what_served_before_the_change_gives_no_time() -> None:
    assert CLOCK.due((NOW - 100, NOW - 5000), 3) == NOW + 800


def test_replicas_that_get_ready_again_and_again_do_not_make_it_last_for_ever() -> None:
    assert CLOCK.due((NOW + 10_000,), 3) == NOW - 100 + 4 * 900


def test_a_clock_of_another_spec_and_no_clock_are_none() -> None:
    assert trusted_retune(CLOCK, "t", NOW) is trusted_retune(None, "s", NOW) is None
    assert trusted_retune(CLOCK, "s", NOW) == CLOCK


def test_times_that_cannot_be_are_cut() -> None:
    ahead = replace(CLOCK, began=NOW + 10**9, each=10.0**9)
    assert trusted_retune(ahead, "s", NOW) == replace(CLOCK, began=NOW, each=LONGEST_SECONDS)


def test_pools_that_came_up_leave_it_and_the_last_one_ends_it() -> None:
    assert CLOCK.without(["c"]) is CLOCK
    one = CLOCK.without(["a"])
    assert one == replace(CLOCK, before=(B,))
    assert (one.of("a"), one.of("b")) == (None, B)
    assert one.without(["b"]) is None
