"""Whether a maintenance window is open and a scheduled minimum counts, on usual days and when clocks change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC as Z
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.api.checks.schedules import Window
from plimsoll.app.reading.openings import opening_of, scheduled_at
from plimsoll.rebalance.state.allowance import Opening
from plimsoll.rebalance.state.policy import RebalancePolicy
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


# -- scheduled minima --------------------------------------------------------------------------------------------------

DAYS = 4
ZONES = [UTC, BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Kolkata")]
CHANGES = ["2026-03-06", "2026-03-27", "2026-04-03", "2026-10-02", "2026-10-23", "2026-10-30", "2026-06-10"]
"""Four days from these dates hold each change of these zones' clocks, and one has none."""

ENTRIES = st.tuples(
    st.integers(0, 59),
    st.integers(0, 23),
    st.sets(st.integers(0, 6), min_size=1),
    st.one_of(st.integers(1, 2000), st.tuples(st.integers(0, 59), st.integers(0, 23))),
    st.sampled_from(ZONES),
    st.integers(1, 9),
)


@cache
def walked(zone: ZoneInfo, first: datetime) -> Sequence[tuple[datetime, datetime, datetime]]:
    """Walk a wall clock minute by minute over the time around ``first``: the moment, what it says, what it said before.

    Minutes in which the clock was set back are left out: they have been there.
    """
    moments = [first + timedelta(minutes=step) for step in range(-3 * 1440 - 1, (DAYS + 8) * 1440)]
    says = [moment.astimezone(zone).replace(tzinfo=None) for moment in moments]
    return [each for each in zip(moments[1:], says[1:], says, strict=False) if each[1] > each[2]]


def begins(minute: int, hour: int, days: set[int], zone: ZoneInfo, first: datetime) -> list[float]:
    """Return the moments of a time of day on a clock that is walked minute by minute.

    A time that the clock skips comes when it has been set forward; one that comes twice counts once.
    """
    found = list[float]()
    for moment, local, last in walked(zone, first):
        skipped = (last + timedelta(minutes=1 + each) for each in range(int((local - last).total_seconds()) // 60))
        if not any((each.minute, each.hour) == (minute, hour) and each.weekday() in days for each in skipped):
            continue
        again = any(  # the same minute of the wall clock was there an hour or half an hour ago
            (moment - timedelta(minutes=ago)).astimezone(zone).replace(tzinfo=None) == local for ago in (30, 60)
        )
        if not again:
            found.append(moment.timestamp())
    return found


@settings(max_examples=25)
@given(st.lists(ENTRIES, min_size=1, max_size=3), st.sampled_from(CHANGES), st.integers(0, 900), st.data())
def test_the_minimum_is_the_largest_that_a_wall_clock_walked_minute_by_minute_says(
    entries: list[tuple[int, int, set[int], int | tuple[int, int], ZoneInfo, int]],
    date: str,
    startup_seconds: int,
    data: st.DataObject,
) -> None:
    first, spans, windows = (
        datetime.fromisoformat(f"{date}T00:00").replace(tzinfo=Z),
        list[tuple[float, float, int]](),
        [],
    )
    for minute, hour, days, end, zone, replicas in entries:
        week = ",".join(str((day + 1) % 7) for day in sorted(days))
        cron, until = f"{minute} {hour} * * {week}", "" if isinstance(end, int) else f"{end[0]} {end[1]} * * *"
        windows.append((Window(cron, 60 * end if isinstance(end, int) else 0, zone, until), replicas))
        ends = [] if isinstance(end, int) else begins(*end, set(range(7)), zone, first)
        for begin in begins(minute, hour, days, zone, first):
            over = begin + 60 * end if isinstance(end, int) else min(at for at in (*ends, 1e12) if at > begin)
            spans.append((begin, over, replicas))
    for step in data.draw(st.lists(st.integers(0, DAYS * 1440), min_size=20, max_size=20)):
        now = first.timestamp() + 60 * step
        policy = RebalancePolicy(min_replicas=1, max_replicas=7).with_schedule(
            scheduled_at(windows, now), now, startup_seconds
        )
        due = [replicas for begin, over, replicas in spans if begin - startup_seconds - 60 <= now < over]
        assert policy.min_replicas == min(7, max([1, *due])), now
        assert (policy.scheduled is None) == (policy.min_replicas == 1)
