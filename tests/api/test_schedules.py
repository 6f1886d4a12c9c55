"""Maintenance windows and scheduled minima of a spec: what is refused, by which field, and what they are read as."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from plimsoll.api.checks.schedules import check_times, minima_of, windows_of
from plimsoll.api.v1alpha1 import RebalancingSpec
from plimsoll.domain.errors import InvalidInput
from tests.support.tables import every_case

NIGHTLY = {"schedule": "0 2 * * *", "duration": "4h"}


def spec_of(*windows: dict[str, Any]) -> RebalancingSpec:
    return RebalancingSpec.model_validate({"maintenanceWindows": list(windows)})


def test_without_windows_there_are_none_and_the_zone_is_utc_unless_one_is_named() -> None:
    assert list(windows_of(RebalancingSpec())) == []
    assert list(windows_of(spec_of())) == []
    [plain, named] = windows_of(spec_of(NIGHTLY, NIGHTLY | {"timeZone": "Europe/Berlin"}))
    assert (plain.schedule, plain.zone.key, named.zone.key) == ("0 2 * * *", "UTC", "Europe/Berlin")


@every_case(
    ("duration", "seconds"),
    [("1m", 60), ("90m", 5400), ("4h", 14_400), ("4h30m", 16_200), ("4h0m", 14_400), ("999h", 3_596_400)],
)
def test_durations_are_hours_and_minutes(duration: str, seconds: int) -> None:
    [window] = windows_of(spec_of(NIGHTLY | {"duration": duration}))
    assert window.seconds == seconds


@every_case("duration", ["", "0m", "0h", "4", "h", "m", "-1h", "1.5h", "30m4h", "1d", "90s", "4h m", "4H"])
def test_the_crd_refuses_other_durations(duration: str) -> None:
    with pytest.raises(ValidationError, match="duration"):
        spec_of(NIGHTLY | {"duration": duration})


@pytest.mark.parametrize(
    "schedule",
    ["0 2 * * sat", "*/15 0-6,22 1 JAN-mar mon-FRI", "0  2 * * 7", "0 0 29 2 *", "30 1 1,15 * 1"],
)
def test_schedules_as_cron_jobs_have_them_are_taken(schedule: str) -> None:
    check_times(spec_of(NIGHTLY | {"schedule": schedule}))


@every_case(
    "schedule",
    ["", "@daily", "0 2 * *", "0 0 2 * * *", "0 2 L * *", "0 2 * * 5L", "0 2 * * 1#2", "0 2 ? * *", "TZ=UTC 0 2 * * *"],
)
def test_the_crd_refuses_what_is_no_schedule_of_five_fields(schedule: str) -> None:
    with pytest.raises(ValidationError, match="schedule"):
        spec_of(NIGHTLY | {"schedule": schedule})


@every_case(
    ("schedule", "wrong"),
    [
        ("60 2 * * *", "Bad minute"),
        ("0 24 * * *", "Bad hour"),
        ("0 2 0 * *", "Bad day-of-month"),
        ("0 2 * 13 *", "Bad month"),
        ("0 2 * abc *", "Bad month"),
        ("0 2 * * 8", "Bad day-of-week"),
        ("0 2 * * xyz", "Bad day-of-week"),
        ("0 2 * * fri-mon", "Bad day-of-week"),
        ("*/0 2 * * *", "Bad minute"),
        ("1- 2 * * *", "Bad minute"),
        ("0 2 31 feb,apr *", "Bad day-of-month"),
    ],
)
def test_a_schedule_that_never_comes_is_refused_with_field_value_and_fix(schedule: str, wrong: str) -> None:
    """The window before it is in order, and is not the one that is named."""
    with pytest.raises(InvalidInput) as refused:
        check_times(spec_of(NIGHTLY, NIGHTLY | {"schedule": schedule}))
    assert str(refused.value).startswith(
        f"spec.rebalancing.maintenanceWindows[1].schedule: {schedule!r} cannot be used. {wrong}. Write five fields: "
    )


@pytest.mark.parametrize("zone", ["Europe/Berlln", "Europe", "Local", "UTC-2", "America/Argentina/Nowhere"])
def test_a_zone_that_the_database_does_not_have_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_times(spec_of(NIGHTLY | {"timeZone": zone}))
    assert str(refused.value) == (
        f"spec.rebalancing.maintenanceWindows[0].timeZone: {zone!r} cannot be used. The time zone database does not "
        "have it. Write a name such as Europe/Berlin."
    )


@every_case("zone", ["", "../../etc/passwd", "/etc/localtime", "Europe/", "a/b/c/d", "x" * 65])
def test_the_crd_refuses_paths_in_place_of_zones(zone: str) -> None:
    with pytest.raises(ValidationError, match="timeZone"):
        spec_of(NIGHTLY | {"timeZone": zone})


def test_eight_windows_are_enough() -> None:
    check_times(spec_of(*8 * (NIGHTLY,)))
    with pytest.raises(ValidationError, match="maintenanceWindows"):
        spec_of(*9 * (NIGHTLY,))


MORNING = {"cron": "0 8 * * mon-fri", "minReplicas": 4, "duration": "10h"}


def minima(*entries: dict[str, Any]) -> RebalancingSpec:
    return RebalancingSpec.model_validate({"schedule": list(entries)})


def test_a_scheduled_minimum_lasts_for_a_duration_or_until_another_time_of_its_zone() -> None:
    until = {name: value for name, value in MORNING.items() if name != "duration"} | {"until": "30 18 * * *"}
    [(lasts, four), (ends, two)] = minima_of(minima(MORNING, until | {"timeZone": "Asia/Tokyo", "minReplicas": 2}))
    assert (lasts.schedule, lasts.seconds, lasts.until, lasts.zone.key, four) == (
        *("0 8 * * mon-fri", 36_000, "", "UTC"),
        4,
    )
    assert (ends.seconds, ends.until, ends.zone.key, two) == (0, "30 18 * * *", "Asia/Tokyo", 2)


@every_case(
    ("change", "field", "words"),
    [
        ({"cron": "0 24 * * *"}, "cron: '0 24 * * *'", "Bad hour. Write five fields: "),
        ({"cron": "0 8 31 feb *"}, "cron: '0 8 31 feb *'", "Bad day-of-month. Write five fields: "),
        ({"until": "61 8 * * *", "duration": None}, "until: '61 8 * * *'", "Bad minute. Write five fields: "),
        ({"timeZone": "Europe/Berlln"}, "timeZone: 'Europe/Berlln'", "The time zone database does not have it."),
    ],
)
def test_a_minimum_of_which_nobody_can_say_when_it_begins_or_ends_is_refused(
    change: dict[str, Any], field: str, words: str
) -> None:
    """The entry before it is in order, and is not the one that is named."""
    with pytest.raises(InvalidInput) as refused:
        check_times(minima(MORNING, MORNING | change))
    assert str(refused.value).startswith(f"spec.rebalancing.schedule[1].{field} cannot be used. {words}")


@every_case(
    ("field", "value"),
    [
        *(("cron", value) for value in ("@daily", "0 8 * *", "", "0 8 * * 1#2", 8)),
        *(("until", value) for value in ("18:00", "@daily", "")),
        *(("minReplicas", value) for value in (-1, 0, 1001, "many", None, 1.5)),
        *(("duration", value) for value in ("-1h", "0m", "1d")),
        ("timeZone", "../../etc/passwd"),
    ],
)
def test_the_crd_refuses_what_is_no_time_and_no_number_of_replicas(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        minima(MORNING | {field: value})


def test_32_minima_are_enough() -> None:
    check_times(minima(*32 * (MORNING,)))
    with pytest.raises(ValidationError, match="schedule"):
        minima(*33 * (MORNING,))
