"""The changes that the loop remembers: how long each counts, and what a clock that is set back does to them."""

from __future__ import annotations

from plimsoll.rebalance.history import HOUR_SECONDS, Ceiling, ChangeHistory

NOW = 1_800_000_000.0
AN_HOUR_AGO = NOW - HOUR_SECONDS


def test_a_change_counts_for_less_than_an_hour() -> None:
    assert HOUR_SECONDS == 3600
    history = ChangeHistory((AN_HOUR_AGO - 1, AN_HOUR_AGO, AN_HOUR_AGO + 1, NOW))
    assert history.within_last_hour(NOW) == 2
    assert ChangeHistory().within_last_hour(NOW) == 0


def test_a_new_change_is_the_latest_and_drops_those_of_an_hour_ago() -> None:
    history = ChangeHistory((AN_HOUR_AGO, AN_HOUR_AGO + 1, NOW - 60))
    assert history.recorded(NOW).changes == (AN_HOUR_AGO + 1, NOW - 60, NOW)


def test_a_change_without_a_ceiling_keeps_the_last_one_and_another_ceiling_replaces_it() -> None:
    first, second = Ceiling(NOW - 60, 100.0, 10.0), Ceiling(NOW, 200.0, 20.0)
    history = ChangeHistory((NOW - 60,), first)
    assert history.recorded(NOW).ceiling == first
    assert history.recorded(NOW, second).ceiling == second


def test_times_in_the_future_become_now_and_stay_in_order() -> None:
    history = ChangeHistory((NOW + 900, NOW - 60), Ceiling(NOW + 5, 100.0, 10.0))
    assert history.clamped(NOW) == ChangeHistory((NOW - 60, NOW), Ceiling(NOW, 100.0, 10.0))
    past = ChangeHistory((NOW - 60,), Ceiling(NOW - 90, 100.0, 10.0))
    assert past.clamped(NOW) == past


def test_the_pause_since_the_last_change_is_never_negative_and_unknown_without_one() -> None:
    assert ChangeHistory((NOW - 90, NOW - 30)).seconds_since_last(NOW) == 30
    assert ChangeHistory((NOW + 30,)).seconds_since_last(NOW) == 0
    assert ChangeHistory().seconds_since_last(NOW) is None
