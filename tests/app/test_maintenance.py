"""Whether a maintenance window is open, on usual days and on those when clocks change."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from plimsoll.api.checks.maintenance import Window
from plimsoll.app.reading.openings import opening_of
from plimsoll.rebalance.state.allowance import Opening
from tests.support.tables import every_case

UTC, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
HOUR = 3600


def at(text: str) -> float:
    """POSIX seconds of a time with its offset."""
    return datetime.fromisoformat(text).timestamp()


def closed(until: str) -> Opening:
    return Opening(is_open=False, opens_at=at(until))


SATURDAY = Window("0 2 * * sat", 4 * HOUR, BERLIN)


def test_without_windows_it_is_always_open() -> None:
    assert opening_of((), at("2026-11-23T12:00Z")) == Opening()


@every_case(
    ("moment", "expected"),
    [
        ("2026-11-28T01:59:59+01:00", closed("2026-11-28T02:00+01:00")),
        ("2026-11-28T02:00:00+01:00", Opening()),
        ("2026-11-28T05:59:59+01:00", Opening()),
        ("2026-11-28T06:00:00+01:00", closed("2026-12-05T02:00+01:00")),
        ("2026-07-04T00:30:00Z", Opening()),
        ("2026-07-04T04:30:00Z", closed("2026-07-11T00:00Z")),
    ],
)
def test_a_window_is_open_from_its_time_in_its_zone_for_its_duration(moment: str, expected: Opening) -> None:
    assert opening_of([SATURDAY], at(moment)) == expected


def test_one_open_window_of_several_is_enough_and_of_closed_ones_the_next_counts() -> None:
    noon, night = Window("0 12 * * *", HOUR, UTC), Window("0 22 * * *", HOUR, UTC)
    assert opening_of([noon, night], at("2026-11-23T12:30Z")) == Opening()
    assert opening_of([night, noon], at("2026-11-23T12:30Z")) == Opening()
    assert opening_of([noon, night], at("2026-11-23T13:00Z")) == closed("2026-11-23T22:00Z")


def test_a_window_that_is_longer_than_the_time_between_two_openings_never_closes() -> None:
    daily = Window("0 0 * * *", 25 * HOUR, UTC)
    assert all(opening_of([daily], at("2026-11-23T00:00Z") + hours * HOUR).is_open for hours in range(48))


def test_a_window_may_last_over_midnight_the_end_of_a_month_and_the_end_of_a_year() -> None:
    late = Window("0 23 31 12 *", 3 * HOUR, UTC)
    assert opening_of([late], at("2027-01-01T01:59Z")).is_open
    assert opening_of([late], at("2027-01-01T02:00Z")) == closed("2027-12-31T23:00Z")


def test_a_time_that_the_clock_skips_comes_when_the_clock_has_been_set_forward() -> None:
    """On 29 March 2026, 02:00 in Berlin is followed by 03:00."""
    window = Window("30 2 * * *", HOUR, BERLIN)
    assert opening_of([window], at("2026-03-29T01:59:59+01:00")) == closed("2026-03-29T03:00+02:00")
    assert opening_of([window], at("2026-03-29T03:30+02:00")) == Opening()
    assert opening_of([window], at("2026-03-29T04:00+02:00")) == closed("2026-03-30T02:30+02:00")


def test_a_time_that_comes_twice_opens_a_window_once_and_for_its_whole_duration() -> None:
    """On 25 October 2026, 03:00 in Berlin is followed by 02:00."""
    window = Window("30 2 * * *", HOUR, BERLIN)
    assert opening_of([window], at("2026-10-25T02:29:59+02:00")) == closed("2026-10-25T02:30+02:00")
    for moment in ("2026-10-25T02:30+02:00", "2026-10-25T02:10+01:00", "2026-10-25T02:29:59+01:00"):
        assert opening_of([window], at(moment)) == Opening(), moment
    assert opening_of([window], at("2026-10-25T02:30+01:00")) == closed("2026-10-26T02:30+01:00")


@every_case("schedule", ["* * * * *", "*/5 * * * *", "0 2 * * sat", "0 0 29 2 *", "15 6 1 */3 *"])
@every_case("zone", [UTC, BERLIN, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Antarctica/Troll")])
def test_a_closed_window_is_open_when_it_says_that_it_opens_and_not_a_minute_before(
    schedule: str, zone: ZoneInfo
) -> None:
    window = Window(schedule, 60, zone)
    moment = at("2026-03-28T22:07Z")
    for _ in range(4):
        opening = opening_of([window], moment)
        if opening.is_open:
            moment += 60
            continue
        assert opening.opens_at > moment
        assert opening_of([window], opening.opens_at) == Opening()
        assert opening_of([window], opening.opens_at - 60) == opening or schedule.startswith("*")
        moment = opening.opens_at + 60
