"""The memory of turns: a speed that is learned slowly and within bounds, arrivals, looks and start-ups."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.rebalance.signals.traffic import Rate
from plimsoll.rebalance.state.memory import Learned, Look, LoopMemory
from tests.support.engine_loads import NOW, Serves, alone, replica_model, traffic
from tests.support.tables import every_case

LONGEST_GAP_SECONDS = 90.0
MOST_WRONG = 3.0

MODEL = replica_model()
RATE = 2.5
LOAD = Serves(rate=4.0, running=20, kv_usage=0.05)


def taught(ratio: float, looks: int = 60, start: LoopMemory | None = None, **odd: Any) -> list[float]:
    """The slowness after each look at engines whose tokens take so many times as long as the model says."""
    memory, found = start or LoopMemory(), []
    seen = traffic(replace(alone(4.0, ratio), **odd))
    for index in range(looks):
        memory = memory.with_speed(replace(seen, end=NOW + 30.0 * index), MODEL)
        found.append(memory.slowness)
    return found


@pytest.mark.parametrize("ratio", [0.5, 1.3, 2.0])
def test_a_speed_is_learned_step_by_step(ratio: float) -> None:
    found = taught(ratio)
    assert found == sorted(found, reverse=ratio < 1)
    assert abs(found[0] - 1) < abs(ratio - 1) / 2, "one look is not believed"
    assert found[-1] == pytest.approx(ratio, rel=0.02)


@pytest.mark.parametrize("ratio", [1e-6, 1e6])
def test_what_is_learned_is_bounded(ratio: float) -> None:
    assert all(1 / MOST_WRONG <= each <= MOST_WRONG for each in taught(ratio, looks=300))


def test_what_was_learned_is_unlearned_when_it_is_over() -> None:
    slow = LoopMemory(slowness=MOST_WRONG)
    assert taught(1.0, start=slow)[-1] == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(
    "odd", [{"waiting": 1.0}, {"running": 0.0}, {"rate": 0.0}], ids=["queue", "nothing runs", "nothing came"]
)
def test_a_load_that_the_model_does_not_mean_teaches_nothing(odd: dict[str, Any]) -> None:
    assert taught(2.0, **odd)[-1] == 1.0


@pytest.mark.parametrize(
    ("known", "measured", "agrees"),
    [(1.0, 1.24, True), (1.0, 1.26, False), (1.0, 0.76, True), (1.0, 0.74, False), (2.0, 2.4, True)],
)
def test_a_speed_agrees_with_what_was_learned_within_a_quarter(known: float, measured: float, *, agrees: bool) -> None:
    memory = LoopMemory(slowness=known).with_speed(traffic(alone(4.0, measured)), MODEL)
    assert memory.speed_agreed is agrees
    far = replace(traffic(alone(4.0, 9.0)), end=NOW + 900)
    assert memory.with_speed(far, MODEL).speed_agreed is agrees, "once is enough"


def test_how_many_run_at_the_last_scrape_teaches_nothing() -> None:
    assert taught(1.3, running=1.0) == taught(1.3, running=90.0)


@pytest.mark.parametrize("seconds", [15.0, 30.0, 100.0])
def test_samples_teach_once_and_those_of_a_longer_time_more(seconds: float) -> None:
    seen = replace(traffic(alone(4.0, 2.0)), recent=Rate(4.0, seconds))
    once = LoopMemory().with_speed(seen, MODEL)
    assert once.slowness > 1
    assert once.with_speed(replace(seen, end=NOW + seconds - 1), MODEL) == once
    later = LoopMemory()
    for index in range(round(300 / seconds)):
        later = later.with_speed(replace(seen, end=NOW + seconds * index), MODEL)
    assert math.log(later.slowness) == pytest.approx(0.8 * math.log(2), rel=0.05), "80 % within five minutes"


# -- answers -----------------------------------------------------------------------------------------------------------


def test_the_mean_length_of_answers_is_learned() -> None:
    assert LoopMemory().with_answers(traffic(LOAD)).output_tokens == 200
    longer = LoopMemory(output_tokens=200.0).with_answers(traffic(replace(LOAD, output=1000)))
    assert longer.output_tokens == 1000


@pytest.mark.parametrize("output", [150, 200, 250])
def test_what_chance_explains_is_no_other_length(output: int) -> None:
    known = LoopMemory(output_tokens=200.0)
    assert known.with_answers(traffic(replace(LOAD, output=output))) is known


@pytest.mark.parametrize("output", [149, 251])
def test_a_length_that_differs_by_more_than_a_quarter_is_learned(output: int) -> None:
    assert LoopMemory(output_tokens=200.0).with_answers(traffic(replace(LOAD, output=output))).output_tokens == output


def test_few_requests_and_idle_engines_teach_no_length() -> None:
    known = LoopMemory(output_tokens=200.0)
    for load in (replace(LOAD, output=1000, rate=0.05), replace(LOAD, rate=0.0, running=0)):
        assert known.with_answers(traffic(load)) is known
    assert known.with_answers(traffic(replace(LOAD, output=1000, rate=0.15))).output_tokens == 1000


# -- arrivals ----------------------------------------------------------------------------------------------------------


def test_what_a_replica_does_at_most_is_measured_under_a_queue_and_raised_without_one() -> None:
    load = replace(traffic(LOAD), waiting=5.0, pods=1)
    assert load.lengths is not None
    work = load.served * load.lengths.work
    queued = LoopMemory(queued_since=load.end - load.recent.seconds)
    assert queued.with_work(load, is_saturated=True).most_work == pytest.approx(work)
    assert queued.with_work(load, is_saturated=False).most_work is None
    assert queued.with_work(replace(load, served=0.0), is_saturated=True).most_work is None
    hardly = replace(load, served=load.served * 0.3 / work)
    assert queued.with_work(hardly, is_saturated=True).most_work == pytest.approx(0.3), "little is not nothing"
    for waiting, most in ((0.9, work), (1.0, work / 2)):
        known = LoopMemory(most_work=work / 2).with_work(replace(load, waiting=waiting), is_saturated=False)
        assert known.most_work == pytest.approx(most)


@given(st.lists(st.tuples(st.floats(1.0, 200.0), st.booleans()), max_size=30))
def test_only_a_time_with_a_queue_all_along_shows_what_a_replica_does_at_most(turns: list[tuple[float, bool]]) -> None:
    load = traffic(LOAD)
    memory, at, since = LoopMemory(), NOW, None
    for seconds, is_long in turns:
        before, at = at, at + seconds
        is_new = since is None or seconds > LONGEST_GAP_SECONDS
        since = (at if is_new else since) if is_long else None
        later = memory.with_work(replace(load, end=at, waiting=9.0 if is_long else 1.0), is_saturated=is_long)
        teaches = since is not None and at - since >= load.recent.seconds
        assert (later.most_work != memory.most_work) == (teaches and memory.most_work is None), before
        memory = later.with_look(1, 600.0, at, RATE)


def test_arrivals_are_kept_once_for_each_window_and_not_for_ever() -> None:
    memory = LoopMemory()
    for index in range(200):
        memory = memory.with_arrivals(traffic(LOAD), 600, NOW + 5.0 * index)
    ages = [NOW + 995 - point.at for point in memory.points]
    assert max(ages) <= 600 + 30
    assert min(earlier - later for earlier, later in pairwise(ages)) >= 30
    assert {round(point.per_second, 6) for point in memory.points} == {4.0}


@pytest.mark.parametrize(("seconds", "points"), [(29.0, 1), (30.0, 2)])
def test_the_next_window_begins_where_the_last_one_ended(seconds: float, points: int) -> None:
    seen = replace(traffic(LOAD), recent=Rate(4.0, 30.0))
    once = LoopMemory().with_arrivals(seen, 600, NOW)
    assert len(once.with_arrivals(seen, 600, NOW + seconds).points) == points


@pytest.mark.parametrize(
    ("waiting", "first_token", "points"),
    [
        (1.0, 45.0, 1),
        (2.0, 0.5, 1),
        (90.0, 30.0, 1),
        (2.0, 30.1, 0),
        (90.0, 45.0, 0),
        (2.0, None, 0),
    ],
)
def test_a_queue_that_clients_leave_teaches_no_rise_and_a_shorter_one_does(
    waiting: float, first_token: float | None, points: int
) -> None:
    """Clients wait for 60 s. After half of it, some may have gone, whom nobody counts."""
    seen = replace(traffic(replace(LOAD, waiting=waiting)), ttft_seconds=first_token)
    assert len(LoopMemory().with_arrivals(seen, 600, NOW).points) == points


# -- looks -------------------------------------------------------------------------------------------------------------


def test_looks_are_kept_for_the_time_and_no_longer() -> None:
    memory = LoopMemory()
    for age in (700, 650, 600, 550):
        memory = memory.with_look(2, 600, NOW - age, RATE)
    assert memory.with_look(1, 600, NOW - 520, RATE).looks[-1] == Look(NOW - 520, 1, NOW - 520, RATE)
    assert [look.at - NOW for look in memory.with_look(1, 100, NOW - 500, RATE).looks] == [-600, -550, -500]


def looking(turns: int, every: float, keep: float, needs: dict[int, int] | None = None) -> list[LoopMemory]:
    """The memories after each of so many turns. ``needs`` are the turns at which more than one replica was enough."""
    memory, found = LoopMemory(), []
    for index in range(turns):
        memory = memory.with_look((needs or {}).get(index, 1), keep, NOW + every * index, RATE)
        found.append(memory)
    return found


@pytest.mark.parametrize(("keep", "most"), [(1800.0, 62), (600.0, 22), (60.0, 14)])
def test_turns_every_five_seconds_take_little_memory(keep: float, most: int) -> None:
    assert max(len(memory.looks) for memory in looking(1000, 5.0, keep)) <= most


@pytest.mark.parametrize(("every", "looks"), [(29.9, 1), (30.0, 2)])
def test_turns_within_half_a_minute_are_one_look(every: float, looks: int) -> None:
    assert len(looking(2, every, 1800.0)[-1].looks) == looks


def test_a_short_time_has_twenty_looks() -> None:
    memory = looking(100, 3.0, 60.0)[-1]
    assert [after.at - before.at for before, after in pairwise(memory.looks)] == [3.0] * 20


@every_case("turn", range(100, 112))
def test_a_need_of_one_turn_counts_for_the_whole_time_and_hardly_longer(turn: int) -> None:
    found = looking(400, 5.0, 600.0, {turn: 4})
    most = [max(look.enough for look in memory.looks) for memory in found]
    assert most[:turn] == [1] * turn
    assert most[turn : turn + 121] == [4] * 121, "600 s after it"
    assert most[turn + 130 :] == [1] * (270 - turn), "at most 45 s later"


@pytest.mark.parametrize(("every", "keep"), [(5.0, 1800.0), (10.0, 600.0), (15.0, 300.0), (5.0, 60.0)])
def test_the_time_that_is_covered_is_the_same_as_with_every_turn(every: float, keep: float) -> None:
    for index, memory in enumerate(looking(500, every, keep)):
        covered = every * index
        seen = NOW + covered - memory.looks[0].at
        assert seen == covered if covered < keep else keep <= seen <= keep + 30 + every


def test_a_gap_is_measured_from_the_last_turn_and_not_from_the_first_of_a_look() -> None:
    memory = LoopMemory().with_look(2, 600, NOW, RATE).with_look(1, 600, NOW + 25, RATE)
    assert memory.looks == (Look(NOW, 2, NOW + 25, RATE),)
    assert LoopMemory().with_look(2, 600, NOW, RATE).with_look(3, 600, NOW, RATE).looks == (Look(NOW, 3, NOW, RATE),)
    assert len(memory.with_look(1, 600, NOW + 25 + LONGEST_GAP_SECONDS, RATE).looks) == 2
    assert len(memory.with_look(1, 600, NOW + 26 + LONGEST_GAP_SECONDS, RATE).looks) == 1


def test_after_a_gap_nothing_from_before_counts() -> None:
    memory = LoopMemory().with_look(2, 600, NOW - LONGEST_GAP_SECONDS - 1, RATE)
    assert [look.at for look in memory.with_look(1, 600, NOW, RATE).looks] == [NOW]
    memory = LoopMemory().with_look(2, 600, NOW - LONGEST_GAP_SECONDS, RATE)
    assert len(memory.with_look(1, 600, NOW, RATE).looks) == 2


# -- start-ups ---------------------------------------------------------------------------------------------------------


def test_the_longest_start_that_was_seen_is_expected() -> None:
    memory = LoopMemory()
    assert memory.expected_startup_seconds == FIRST_STARTUP_SECONDS
    assert memory.with_startup(None) == memory
    assert memory.with_startup(0.0) == memory
    memory = memory.with_startup(90.0)
    assert memory.expected_startup_seconds == 90
    assert memory.with_startup(60.0).expected_startup_seconds == 90
    assert memory.with_startup(400.0).expected_startup_seconds == 400
    assert memory.stuck_after_seconds > 90, "a start that takes as long as the longest one is not stuck"


@pytest.mark.parametrize(("seen", "stuck_after"), [(1.0, 60), (40.0, 60), (100.0, 150)])
def test_a_short_start_on_one_node_makes_no_longer_one_on_another_node_a_stuck_one(
    seen: float, stuck_after: float
) -> None:
    """A node that has no image yet takes longer."""
    assert LoopMemory().with_startup(seen).stuck_after_seconds == pytest.approx(stuck_after)


# -- what survives -----------------------------------------------------------------------------------------------------


def test_a_new_process_knows_what_was_learned_and_nothing_that_was_seen() -> None:
    memory = LoopMemory("pool", slowness=1.4, startup_seconds=90.0).with_look(1, 600, NOW, RATE)
    again = LoopMemory.of(memory.learned)
    assert again == LoopMemory("pool", slowness=1.4, startup_seconds=90.0)


def test_of_the_replicas_of_another_pool_nothing_is_known() -> None:
    memory = LoopMemory("pool", slowness=1.4, startup_seconds=90.0)
    assert memory.about("pool") is memory
    assert memory.about("other") == LoopMemory("other", others=(("pool", 1.4),))
    assert LoopMemory().about("other") == LoopMemory("other")


def test_the_slowness_of_a_pool_that_was_left_is_remembered() -> None:
    there = replace(LoopMemory("slow", slowness=1.8).about("fast"), slowness=1.1)
    assert (there.slowness_at("slow"), there.slowness_at("unseen")) == (1.8, 1.1)
    assert replace(there, slowness=0.7).slowness_at("unseen") == 1.0
    assert there.about("slow") == LoopMemory("slow", slowness=1.8, others=(("fast", 1.1),))


def test_of_another_engine_nothing_is_known_of_any_pool_and_the_neighbour_keeps_its_own() -> None:
    known = LoopMemory("here", slowness=1.8, startup_seconds=90.0, output_tokens=300.0, others=(("there", 1.4),))
    changed = known.about("here", "sglang")
    assert changed == LoopMemory("here", output_tokens=300.0, engine="sglang")
    assert changed.about("there", "sglang").slowness_at("here") == 1.0
    assert LoopMemory.of(changed.learned).about("here", "sglang") == changed
    assert known.about("", "sglang") == known.about("") != known, "the pool alone is gone"
    assert known.about("here", "vllm") is known


def test_only_the_last_pools_are_remembered() -> None:
    memory = LoopMemory()
    for number in range(20):
        memory = replace(memory.about(f"pool-{number}"), slowness=1.0 + number)
    assert [name for name, _ in memory.others] == [f"pool-{number}" for number in range(11, 19)]


def test_a_promise_is_missed_since_the_first_look_that_says_so() -> None:
    missed = LoopMemory().with_promise(missed=True, strained=False, now=NOW)
    assert missed.with_promise(missed=True, strained=False, now=NOW + 60).missed_since == NOW
    assert missed.with_promise(missed=False, strained=False, now=NOW + 60).missed_since is None


def test_the_answers_stay_the_same_whatever_replicas_give_them() -> None:
    memory = LoopMemory("pool", slowness=1.4, output_tokens=300.0)
    assert memory.about("other") == LoopMemory("other", output_tokens=300.0, others=(("pool", 1.4),))
    assert LoopMemory.of(memory.learned) == memory


@every_case(
    ("other", "like"),
    [
        (Learned("p", 1.4, 100.0), True),
        (Learned("p", 1.42, 104.0), True),
        (Learned("p", 1.8, 100.0), False),
        (Learned("p", 1.4, 130.0), False),
        (Learned("p", 1.4, None), False),
        (Learned("q", 1.4, 100.0), False),
        (Learned("p", 1.4, 100.0, output_tokens=300.0), False),
        (Learned("p", 1.4, 100.0, others=(("left", 1.5),)), False),
    ],
    ids=str,
)
def test_a_small_difference_is_no_news(other: Learned, like: bool) -> None:  # noqa: FBT001 - a table's column
    assert other.is_like(Learned("p", 1.4, 100.0)) is like


@pytest.mark.parametrize(("slowness", "like"), [(1.55, True), (2.0, False)])
def test_a_small_difference_at_a_place_that_was_left_is_no_news(slowness: float, like: bool) -> None:  # noqa: FBT001
    known, now = (Learned("p", others=(("left", each),)) for each in (1.5, slowness))
    assert now.is_like(known) is like


def test_a_place_that_proved_slow_is_slow_for_the_next_process_as_well() -> None:
    """A place that was left before anything was measured there is as good as one that was never seen."""
    here = replace(LoopMemory("slow", slowness=1.8).about("unmeasured").about("fast"), slowness=1.2)
    again = LoopMemory.of(here.learned)
    assert (again.slowness_at("slow"), again.slowness_at("unmeasured")) == (1.8, 1.2)


def test_a_first_start_is_news() -> None:
    assert not Learned("p", 1.0, 100.0).is_like(Learned("p", 1.0, None))


def test_the_moment_since_when_something_lasts_stays_until_it_ends() -> None:
    cut_off = LoopMemory().with_way(cut_off=True, now=5.0)
    assert cut_off.cut_off_since == 5.0
    assert cut_off.with_way(cut_off=True, now=9.0) is cut_off
    assert cut_off.with_way(cut_off=False, now=9.0).cut_off_since is None
    both = LoopMemory().with_promise(missed=True, strained=True, now=5.0)
    assert (both.missed_since, both.strained_since) == (5.0, 5.0)
    assert both.with_promise(missed=True, strained=True, now=9.0) is both
    missed, strained = (both.with_promise(missed=each, strained=not each, now=9.0) for each in (True, False))
    assert (missed.missed_since, missed.strained_since) == (5.0, None)
    assert (strained.missed_since, strained.strained_since) == (None, 5.0)


def test_a_start_is_learned_if_it_took_longer_than_any_before() -> None:
    memory = LoopMemory()
    assert memory.expected_startup_seconds == 300.0
    assert memory.with_startup(None) is memory
    known = memory.with_startup(0.5)
    assert (known.startup_seconds, known.expected_startup_seconds) == (0.5, 0.5)
    assert known.with_startup(0.5) is known
    assert known.with_startup(0.6).startup_seconds == 0.6


def test_a_pool_of_which_nothing_was_learned_is_expected_to_be_no_faster_than_the_model() -> None:
    for here, there in ((0.5, 1.0), (1.0, 1.0), (1.5, 1.5)):
        memory = LoopMemory(slowness=here, others=(("a", 0.7),))
        assert (memory.slowness_at("a"), memory.slowness_at("b")) == (0.7, there)
