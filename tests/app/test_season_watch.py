"""When the days before are asked for, in which parts, and what a failure costs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from plimsoll.app.season_watch import (
    DAY_SECONDS,
    EVERY_SECONDS,
    FILLING_SECONDS,
    OVERLAP_SECONDS,
    PATIENCE_SECONDS,
    DaysWanted,
    SeasonWatch,
)
from plimsoll.domain.keys import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.past import DAYS, STEP_SECONDS
from plimsoll.rebalance.season import LEAST_STARTUP_SECONDS, Season
from plimsoll.rebalance.trend import Point

NOW = 19_700 * DAY_SECONDS + 7 * 3600 + 3000.0
KEY, OTHER = ObjectKey("ns", "llama"), ObjectKey("ns", "other")
WANTED = DaysWanted(("llama-h100-tp2",), 600.0, 2400.0)
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

    def arrivals_before(
        self, namespace: str, workloads: Collection[str], metrics: EngineMetrics, *, until: float, seconds: float
    ) -> list[Point] | None:
        assert (namespace, tuple(workloads), metrics) == ("ns", WANTED.workloads, METRICS)
        self.asked.append((until - seconds, until))
        if self.is_silent:
            return None
        first, last = int((until - seconds) // STEP_SECONDS) + 1, int(until // STEP_SECONDS)
        ends = [number * STEP_SECONDS for number in range(first, last + 1)]
        return [Point(end, self.rate(end - STEP_SECONDS / 2)) for end in ends if end >= self.keeps_from]


def look(watch: SeasonWatch, server: object, now: float, wanted: DaysWanted | None = WANTED, skew: float = 0.0):  # type: ignore[no-untyped-def] # noqa: ANN201
    return watch.season(server, KEY, wanted, METRICS, now, skew)


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


def test_no_answer_is_waited_for_and_costs_what_was_known_nothing() -> None:
    watch, server = SeasonWatch(), Server()
    season = looks(watch, server, NOW - 1200, NOW)
    server.is_silent, before = True, len(server.asked)
    assert looks(watch, server, NOW + EVERY_SECONDS, NOW + EVERY_SECONDS + PATIENCE_SECONDS - 5) is not None
    assert len(server.asked) - before == 1
    assert season is not None
    server.is_silent = False
    later = look(watch, server, NOW + EVERY_SECONDS + PATIENCE_SECONDS)
    assert later is not None
    assert later.first > season.first


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
    assert look(watch, server, NOW, None) is None
    assert look(watch, server, NOW, DaysWanted(WANTED.workloads, LEAST_STARTUP_SECONDS - 1, 2400.0)) is None
    assert look(watch, server, NOW, DaysWanted((), 600.0, 2400.0)) is None
    assert look(watch, object(), NOW) is None
    assert (server.asked, watch.known) == ([], {})


def test_each_object_has_its_own_days() -> None:
    watch, server = SeasonWatch(), Server()
    look(watch, server, NOW)
    watch.season(server, OTHER, WANTED, METRICS, NOW, 0.0)
    assert len(server.asked) == 2
    assert watch.known.keys() == {KEY, OTHER}
