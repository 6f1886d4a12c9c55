"""When the days before are asked for, in which parts, and what a failure costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from plimsoll.app.live.season_watch import (
    DAY_SECONDS,
    EVERY_SECONDS,
    FILLING_SECONDS,
    OVERLAP_SECONDS,
    PATIENCE_SECONDS,
    DaysWanted,
    Outlook,
    SeasonWatch,
)
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.forecast import DAYS, LEAST_STARTUP_SECONDS, STEP_SECONDS, Point, Season
from plimsoll.rebalance.signals.reading import PastReading

NOW = 19_700 * DAY_SECONDS + 7 * 3600 + 3000.0
KEY, OTHER = ObjectKey("ns", "llama"), ObjectKey("ns", "other")
WANTED = DaysWanted(600.0, 2400.0)
METRICS = engine_of().metrics


def morning(at: float) -> float:
    """2 requests a second at night and 6 from 8:40 on, every day."""
    return 2 + 4 * min(1.0, max(0.0, (at % DAY_SECONDS - 8 * 3600) / 2400))


@dataclass
class Server:
    """Answers with the rates of the steps that it is asked for, as far as it keeps them."""

    rate: Callable[[float], float] = morning
    keeps_from: float = 0.0
    is_silent: bool = False
    asked: list[tuple[float, float]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def arrivals_before(
        self, namespace: str, deployment: str, metrics: EngineMetrics, *, until: float, seconds: float
    ) -> PastReading:
        assert (namespace, metrics) == ("ns", METRICS)
        self.names.add(deployment)
        self.asked.append((until - seconds, until))
        if self.is_silent:
            return PastReading(error="Prometheus did not answer within 3 s")
        first, last = int((until - seconds) // STEP_SECONDS) + 1, int(until // STEP_SECONDS)
        ends = [number * STEP_SECONDS for number in range(first, last + 1)]
        points = (Point(end, self.rate(end - STEP_SECONDS / 2)) for end in ends if end >= self.keeps_from)
        return PastReading(tuple(points))


def look(
    watch: SeasonWatch,
    server: Server,
    now: float,
    wanted: DaysWanted | None = WANTED,
    skew: float = 0.0,
    key: ObjectKey = KEY,
) -> Season | None:
    """Ask if a question is due, and return the season that is known then."""
    if wanted is not None and watch.is_due(key, wanted, now):
        watch.keep(key, watch.asked(server, key, wanted, (METRICS,), now, skew), now)
    return watch.outlook(key, wanted).season


def looks(watch: SeasonWatch, server: Server, begin: float, end: float, every: float = 5.0) -> Season | None:
    """Look as often as signals are read, and return the last season."""
    now, found = begin, None
    while now <= end:
        found = look(watch, server, now)
        now += every
    return found


def test_the_last_day_is_read_first_and_then_one_day_after_the_other() -> None:
    watch, server = SeasonWatch(), Server()
    looks(watch, server, NOW - 550, NOW)
    assert server.asked[0] == (NOW - 550 - DAY_SECONDS, NOW - 550)
    assert server.asked[1] == (NOW - 550 - 2 * DAY_SECONDS, NOW - 550 - DAY_SECONDS + OVERLAP_SECONDS)
    assert all(end - begin <= DAY_SECONDS + OVERLAP_SECONDS for begin, end in server.asked)
    assert min(begin for begin, _ in server.asked) < NOW - DAYS * DAY_SECONDS
    assert len(server.asked) == DAYS + 1


def test_days_that_are_known_make_a_season_and_then_only_what_is_new_is_read() -> None:
    watch, server = SeasonWatch(), Server()
    season = looks(watch, server, NOW - 1200, NOW)
    assert season is not None
    assert season.days == DAYS
    before = len(server.asked)
    looks(watch, server, NOW + 5, NOW + 3600)
    assert len(server.asked) - before <= 3600 / EVERY_SECONDS
    assert all(end - begin <= EVERY_SECONDS + OVERLAP_SECONDS + 5 for begin, end in server.asked[before:])


def test_a_server_that_keeps_little_is_asked_no_more_often() -> None:
    watch, server = SeasonWatch(), Server(keeps_from=NOW - 1.5 * DAY_SECONDS)
    assert looks(watch, server, NOW - 1200, NOW) is None
    assert len(server.asked) <= DAYS + 3
    assert watch.outlook(KEY, WANTED).error == "Prometheus has 1 of them, and 2 are needed"


def test_while_days_are_still_read_nothing_is_said_of_them() -> None:
    watch, server = SeasonWatch(), Server(keeps_from=NOW)
    look(watch, server, NOW)
    assert watch.outlook(KEY, WANTED) == Outlook()
    looks(watch, server, NOW, NOW + 1200)
    assert watch.outlook(KEY, WANTED) == Outlook(None, "Prometheus has 0 of them, and 2 are needed")


def test_days_of_impossible_numbers_are_no_days() -> None:
    for odd in (math.nan, -1.0, math.inf, 1e300):
        watch, server = SeasonWatch(), Server(rate=lambda _, odd=odd: odd)  # type: ignore[misc]
        assert looks(watch, server, NOW - 1200, NOW) is None
        assert watch.outlook(KEY, WANTED).error == "Prometheus has 0 of them, and 2 are needed"


def test_no_answer_is_waited_for_and_costs_what_was_known_nothing() -> None:
    watch, server = SeasonWatch(), Server()
    season = looks(watch, server, NOW - 1200, NOW)
    assert season is not None
    assert watch.outlook(KEY, WANTED) == Outlook(season)
    server.is_silent, before = True, len(server.asked)
    assert looks(watch, server, NOW + EVERY_SECONDS, NOW + EVERY_SECONDS + PATIENCE_SECONDS - 5) is not None
    assert len(server.asked) - before == 1
    assert watch.outlook(KEY, WANTED).error == "they cannot be read: Prometheus did not answer within 3 s"
    server.is_silent = False
    later = look(watch, server, NOW + EVERY_SECONDS + PATIENCE_SECONDS)
    assert later is not None
    assert later.first > season.first
    assert not watch.outlook(KEY, WANTED).error


def test_a_source_that_raises_counts_as_no_answer() -> None:
    watch, server = SeasonWatch(), Server()
    season = looks(watch, server, NOW - 1200, NOW)
    watch.keep(KEY, None, NOW + EVERY_SECONDS)
    assert watch.outlook(KEY, WANTED) == Outlook(season, "they cannot be read: the question failed")
    assert not watch.is_due(KEY, WANTED, NOW + EVERY_SECONDS + PATIENCE_SECONDS - 1)
    assert watch.is_due(KEY, WANTED, NOW + EVERY_SECONDS + PATIENCE_SECONDS)


def test_a_clock_that_was_set_back_asks_again() -> None:
    watch, server = SeasonWatch(), Server()
    look(watch, server, NOW)
    look(watch, server, NOW - 3 * DAY_SECONDS)
    assert server.asked[1] == (NOW - 4 * DAY_SECONDS, NOW - 3 * DAY_SECONDS)


def test_an_outage_of_days_is_read_anew() -> None:
    watch, server = SeasonWatch(), Server()
    looks(watch, server, NOW - 1200, NOW)
    season = looks(watch, server, NOW + 3 * DAY_SECONDS - 1200, NOW + 3 * DAY_SECONDS)
    assert season is not None
    assert season.days == DAYS


def test_a_server_whose_clock_is_wrong_is_asked_in_its_own_time() -> None:
    watch, server = SeasonWatch(), Server(rate=lambda at: morning(at - 900))
    now = NOW - 1200
    while now <= NOW:
        season = look(watch, server, now, skew=900.0)
        now += FILLING_SECONDS
    straight = looks(SeasonWatch(), Server(), NOW - 1200, NOW, FILLING_SECONDS)
    assert season is not None
    assert straight is not None
    assert season == straight
    assert server.asked[0][1] == NOW - 1200 + 900


def test_nothing_is_asked_where_it_would_not_help() -> None:
    watch, server = SeasonWatch(), Server()
    assert not watch.is_due(KEY, None, NOW)
    assert not watch.is_due(KEY, DaysWanted(LEAST_STARTUP_SECONDS - 1, 2400.0), NOW)
    assert watch.is_due(KEY, DaysWanted(LEAST_STARTUP_SECONDS, 2400.0), NOW)
    looks(watch, server, NOW - 1200, NOW)
    assert watch.outlook(KEY, DaysWanted(LEAST_STARTUP_SECONDS - 1, 2400.0)) == Outlook()
    assert watch.outlook(KEY, None) == Outlook()


def test_each_object_has_its_own_days() -> None:
    watch, server = SeasonWatch(), Server()
    look(watch, server, NOW)
    look(watch, server, NOW, key=OTHER)
    assert len(server.asked) == 2
    assert server.names == {KEY.name, OTHER.name}
    assert watch.known.keys() == {KEY, OTHER}
