"""Arrivals and their lengths: pods add up whenever they were scraped, and chance is no news."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.traffic import Lengths, Traffic
from tests.support.engine_loads import LONG_AGO, NOW, Serves, moments, pod, summary
from tests.support.tables import every_case

ENOUGH_FINISHED = 60
FEW_FINISHED = 20

STEADY = Serves(rate=2.0)
IDLE = replace(STEADY, running=0.0)
COUNTERS = (
    "prompt_tokens_total",
    "generation_tokens_total",
    "finished_total",
    "finished_prompt_tokens_total",
    "finished_output_tokens_total",
    "first_tokens_total",
)


def seen(*pods: PodSignals, **how: object) -> Traffic:
    found = summary(*pods, **how).traffic  # type: ignore[arg-type]
    assert found is not None
    return found


def stepping(before: float, after: float, at: float) -> Callable[[float], float]:
    """Requests until a moment, where their rate changes at a given one."""
    return lambda moment: 1000 + before * (min(moment, at) - LONG_AGO) + after * max(0.0, moment - at)


def by_chance(rate: float, seed: int) -> Callable[[float], float]:
    """Requests that come by chance (Poisson), counted until a moment."""
    rng, at, times = Random(seed), NOW - 900, []  # noqa: S311 - a simulation
    while (at := at + rng.expovariate(rate)) < NOW:
        times.append(at)
    return lambda moment: 1000.0 + sum(each <= moment for each in times)


# -- arrivals ----------------------------------------------------------------------------------------------------------


def test_pods_that_are_scraped_at_different_moments_add_up() -> None:
    phases = (0.0, 3.0, 7.5, 14.0)
    found = seen(*(pod(f"p{phase}", STEADY, moments(phase=phase)) for phase in phases))
    assert found.pods == 4
    for rate in (found.steady, found.recent, found.latest, found.arrivals):
        assert rate.per_second == pytest.approx(8.0)


def test_traffic_that_changes_its_pod_is_counted_once() -> None:
    first = pod("a", STEADY, moments(), came=stepping(4.0, 0.0, NOW - 60))
    second = pod("b", STEADY, moments(phase=7.5), came=stepping(0.0, 4.0, NOW - 60))
    assert seen(first, second).steady.per_second == pytest.approx(4.0, rel=0.02)


def test_requests_that_only_wait_have_arrived_as_well() -> None:
    times = moments()
    samples = [STEADY.sample(at) for at in times]
    filling = tuple(replace(each, waiting=max(0.0, each.at - NOW + 120)) for each in samples)
    assert seen(PodSignals("a", filling)).steady.per_second == pytest.approx(3.0), "2 begin and 1 joins the queue"
    draining = tuple(replace(each, waiting=max(0.0, NOW - each.at)) for each in samples)
    assert seen(PodSignals("a", draining)).steady.per_second == pytest.approx(1.0), "1 of those that begin has waited"


def test_a_pod_without_a_queue_has_no_load_but_what_runs() -> None:
    (load,) = seen(pod("a", replace(STEADY, waiting=0.0, running=3.0))).loads
    assert (load.waiting, load.running) == (0.0, 3.0)


def test_there_are_never_fewer_than_no_arrivals() -> None:
    idle = Serves(rate=0.0)
    emptied = tuple(replace(idle.sample(at), waiting=max(0.0, NOW - at)) for at in moments())
    found = seen(PodSignals("a", emptied))
    assert [rate.per_second for rate in (found.steady, found.recent, found.latest)] == [0.0, 0.0, 0.0]


def test_a_restarted_engine_begins_again_and_loses_only_its_last_requests() -> None:
    reset = NOW - 60
    found = seen(pod("a", STEADY, moments(), came=lambda at: 2.0 * (at - (LONG_AGO if at < reset else reset))))
    assert found.steady.per_second == pytest.approx(2.0, rel=0.13), "one period of 120 s is unseen"


def test_a_new_pod_is_counted_from_zero() -> None:
    since = NOW - 60
    young = pod("b", IDLE, moments(seconds=45), came=lambda at: 3.0 * (at - since))
    found = seen(pod("a", STEADY), young, ready_since={"a": LONG_AGO, "b": since})
    assert found.recent.per_second == pytest.approx(5.0)
    assert found.steady.per_second == pytest.approx(2.0 + 3.0 * 60 / 120)


def test_a_new_pod_with_one_sample_is_counted_from_its_readiness() -> None:
    once = pod("b", IDLE, [NOW], came=lambda _: 30.0)
    found = seen(pod("a", STEADY), once, ready_since={"a": LONG_AGO, "b": NOW - 10})
    assert found.pods == 2
    assert found.steady.per_second == pytest.approx(2.0 + 30 / 120)


def test_a_new_pod_whose_only_sample_is_of_the_moment_in_which_it_got_ready_hides_no_other() -> None:
    once = pod("b", IDLE, [NOW], came=lambda _: 30.0)
    for since in (NOW, NOW + 1):
        found = seen(pod("a", STEADY), once, ready_since={"a": LONG_AGO, "b": since})
        assert found.steady.per_second >= 2.0


def test_the_window_begins_after_the_last_removal() -> None:
    """The requests of the removed pod until then are in no count."""
    moved = pod("a", STEADY, moments(), came=stepping(2.0, 4.0, NOW - 60))
    assert seen(moved).steady.per_second == pytest.approx(3.0)
    assert seen(moved, removed_at=NOW - 60).steady.per_second == pytest.approx(4.0)


def test_a_removal_of_this_moment_leaves_some_time_to_count() -> None:
    found = seen(pod("a", STEADY), removed_at=NOW)
    assert found.steady.seconds > 0
    assert found.steady.per_second == pytest.approx(2.0)


@pytest.mark.parametrize("seconds", [-12.0, 0.0, 1.0, 1.5, 30.0])
def test_what_was_served_since_a_removal_is_a_rate_also_if_no_scrape_has_come_since(seconds: float) -> None:
    assert seen(pod("a", STEADY), removed_at=NOW - seconds).served == pytest.approx(2.0)


def _without(names: tuple[str, ...]) -> Callable[[EngineSample], EngineSample]:
    return lambda sample: replace(sample, **dict.fromkeys(names))  # type: ignore[arg-type]


@pytest.mark.parametrize("left_out", [("token_gaps_total",), ("token_gaps_total", "token_gap_seconds_total")], ids=len)
def test_a_pod_that_does_not_count_its_tokens_takes_no_part_in_their_mean(left_out: tuple[str, ...]) -> None:
    reporting = pod("a", STEADY)
    silent = replace(reporting, pod="b", samples=tuple(map(_without(left_out), reporting.samples)))
    both, [one, other] = seen(reporting, silent), seen(reporting, silent).loads
    assert (one.token_seconds.number > 0, other.token_seconds.number) == (True, 0)
    assert other.token_seconds.mean is None
    if len(left_out) > 1:
        assert both.token_seconds == seen(reporting).token_seconds == pytest.approx(STEADY.token_seconds)


def test_prompts_count_where_first_tokens_are_not_reported() -> None:
    samples = tuple(
        replace(each, first_tokens_total=None, ttft_seconds_total=None) for each in pod("a", STEADY).samples
    )
    found = seen(PodSignals("a", samples))
    assert found.steady.per_second == pytest.approx(2.0)
    assert found.ttft_seconds is None


@pytest.mark.parametrize("after", [6.0, 0.2])
def test_a_step_is_seen_in_the_last_scrapes(after: float) -> None:
    found = seen(*(pod(f"p{n}", STEADY, moments(), came=stepping(4.0, after, NOW - 30)) for n in range(4)))
    assert found.steady.per_second != pytest.approx(4 * after, rel=0.2)
    assert found.arrivals.per_second == pytest.approx(4 * after, rel=0.05)


def test_a_large_step_is_seen_in_one_scrape() -> None:
    found = seen(*(pod(f"p{n}", STEADY, moments(), came=stepping(4.0, 12.0, NOW - 15)) for n in range(4)))
    assert found.arrivals.per_second == pytest.approx(48.0, rel=0.05)


@pytest.mark.parametrize("pods", [2, 5])
def test_a_step_is_seen_in_the_scrape_of_a_pod_before_the_others_are_scraped(pods: int) -> None:
    """A scrape a minute: that of one pod is of now, and those of the others are 50 s old, from before the step."""
    steps = stepping(3.0, 30.0, NOW - 40)
    others = [
        pod(f"b{index}", Serves(rate=3.0), moments(every=60.0, phase=50.0), came=steps) for index in range(pods - 1)
    ]
    found = seen(pod("a", Serves(rate=3.0), moments(every=60.0), came=steps), *others)
    own = (20 * 3.0 + 40 * 30.0) / 60
    assert found.latest.per_second == pytest.approx(own + 3.0 * (pods - 1), rel=0.01)
    assert found.arrivals == found.latest


def test_prompts_change_at_the_same_moment_as_arrivals_and_answers_when_they_end() -> None:
    """Long prompts give way to four times as many short ones ten seconds ago, of which no answer has ended."""
    old, new, change = Serves(rate=5.0, prompt=6000, output=100), Serves(rate=20.0, prompt=600, output=400), NOW - 10
    samples = []
    for at in moments(every=5.0):
        before, after = old.sample(min(at, change)), new.sample(at, 20.0 * max(0.0, at - change))
        sums = {name: getattr(before, name) + getattr(after, name) for name in COUNTERS}
        ended = {name: getattr(before, name) for name in COUNTERS if name.startswith("finished")}
        samples.append(replace(after, **sums | ended))
    lengths = seen(PodSignals("a", tuple(samples))).lengths
    assert lengths is not None
    in_span = 5 * 5.0, 10 * 20.0
    assert lengths.prompt == pytest.approx((in_span[0] * 6000 + in_span[1] * 600) / sum(in_span), rel=0.01)
    assert lengths.output < 400


def test_the_longest_time_counts_that_no_shorter_one_contradicts() -> None:
    """A step a minute ago: the last minute says more than the last scrapes, and the two minutes are wrong."""
    found = seen(*(pod(f"p{n}", STEADY, moments(), came=stepping(4.0, 12.0, NOW - 60)) for n in range(4)))
    assert (found.arrivals, found.arrivals.seconds) == (found.middle, 60.0)
    assert found.arrivals.per_second == pytest.approx(48.0, rel=0.05)
    fresh = seen(*(pod(f"p{n}", STEADY, moments(), came=stepping(4.0, 12.0, NOW - 30)) for n in range(4)))
    assert fresh.arrivals is fresh.recent
    calm = seen(pod("a", STEADY))
    assert calm.arrivals is calm.steady


def test_chance_is_no_news() -> None:
    """Of a hundred and fifty windows of random arrivals, hardly one looks like a change of the load."""
    found = [seen(pod("a", STEADY, moments(), came=by_chance(2.0, seed))) for seed in range(150)]
    assert sum(each.arrivals is not each.steady for each in found) <= 8
    mean = sum(each.arrivals.per_second for each in found) / len(found)
    assert mean == pytest.approx(2.0, rel=0.05)


def test_a_few_requests_in_the_first_second_of_a_new_pod_are_no_rise() -> None:
    """Scrapes of the old pods from before and after would show one, and the longer time has both."""
    known = [pod(f"p{index}", STEADY) for index in range(4)]
    since = {each.pod: LONG_AGO for each in known}
    begun = pod("new", IDLE, [NOW], came=lambda _: 6.0)
    found = seen(*known, begun, ready_since=since | {"new": NOW - 1})
    assert found.arrivals.per_second == pytest.approx(8.0, rel=0.05)
    later = pod("new", IDLE, [NOW - 15, NOW], came=lambda at: 6.0 + 12.0 * (at - NOW + 15))
    found = seen(*known, later, ready_since=since | {"new": NOW - 16})
    assert found.arrivals.per_second == pytest.approx(8.0 + (6.0 + 12.0 * 15) / 30)


def test_requests_that_go_to_a_new_pod_instead_of_others_are_no_rise() -> None:
    """The old pods are scraped some seconds before and after it begins to serve, so a line between counts too late."""
    begins, period = NOW - 10, 15.0
    before = [
        pod(f"p{index}", IDLE, moments(phase=phase), came=stepping(4.0, 0.0, begins))
        for index, phase in enumerate((0.0, 2.0, 3.0, 4.0))
    ]
    new = pod("new", IDLE, [NOW], came=lambda _: 16.0 * (NOW - begins))
    since = {each.pod: LONG_AGO for each in before} | {"new": begins}
    found = seen(*before, new, ready_since=since)
    assert found.arrivals is found.steady
    assert found.arrivals.per_second == pytest.approx(16.0, rel=0.05)
    settled = {**since, "new": NOW - 2 * period - 1}
    assert seen(*before, new, ready_since=settled).latest.per_second != pytest.approx(16.0, rel=0.05)


@pytest.mark.parametrize(("age", "per_second"), [(29.0, 14.0), (30.0, 20.0), (31.0, 20.0)])
def test_a_rise_is_news_once_the_longer_time_begins_with_the_new_pod(age: float, per_second: float) -> None:
    """It gets 12 requests a second for the last 15 of 30 s, and the four old ones 2 each."""
    known = [pod(f"p{index}", STEADY) for index in range(4)]
    new = pod("new", IDLE, [NOW - 15, NOW], came=lambda at: 12.0 * (at - NOW + 15))
    since = {each.pod: LONG_AGO for each in known} | {"new": NOW - age}
    assert seen(*known, new, ready_since=since).latest.per_second == pytest.approx(per_second, rel=0.01)


def test_prompts_that_are_computed_at_last_have_not_come_now() -> None:
    """A hundred requests were admitted in overload; all of their first tokens come between the last two scrapes."""
    computing, load = 100.0, replace(STEADY, waiting=0.0)
    samples = pod("a", load).samples
    late = replace(samples[-1], first_tokens_total=(samples[-1].first_tokens_total or 0.0) + computing)
    found = seen(PodSignals("a", (*samples[:-1], late)))
    for rate in (found.steady, found.recent, found.latest):
        assert rate.per_second == pytest.approx(2.0, rel=0.1)
    unknown = tuple(replace(each, running=None) for each in (*samples[:-1], late))
    assert seen(PodSignals("a", unknown)).latest.per_second == pytest.approx(2.0 + computing / 15)


def test_where_first_tokens_alone_are_counted_those_that_wait_have_come_as_well() -> None:
    """Three requests more wait at each scrape."""
    samples = tuple(
        replace(each, running=None, waiting=3.0 * index) for index, each in enumerate(pod("a", STEADY).samples)
    )
    assert seen(PodSignals("a", samples)).steady.per_second == pytest.approx(2.0 + 3 / 15)


def test_requests_whose_client_left_have_come() -> None:
    """The engine does not count them as ended. One of four leaves after its first token."""
    samples = tuple(
        replace(each, finished_total=0.75 * (each.finished_total or 0.0)) for each in pod("a", STEADY).samples
    )
    assert seen(PodSignals("a", samples)).steady.per_second == pytest.approx(2.0)


def test_requests_that_run_on_have_not_left() -> None:
    """Four requests more run at each scrape: they have had their first token, and none of them has ended."""
    samples = tuple(
        replace(each, running=8.0 + 4 * index, first_tokens_total=(each.first_tokens_total or 0.0) + 4 * index)
        for index, each in enumerate(pod("a", STEADY).samples)
    )
    assert seen(PodSignals("a", samples)).steady.per_second == pytest.approx(2.0 + 4 / 15)


def test_the_first_two_scrapes_of_a_new_pod_show_what_came_between_them() -> None:
    """It served many requests before the first of them, and few since."""
    young = pod("b", STEADY, [NOW - 15, NOW], came=lambda at: 300.0 + 1.0 * (at - NOW + 15))
    found = seen(pod("a", STEADY), young, ready_since={"a": LONG_AGO, "b": NOW - 60})
    assert found.latest.per_second == pytest.approx(2.0 + 1.0)


def test_a_new_pod_does_not_hide_that_arrivals_fell() -> None:
    """A flood ended with the last scrape, and a replica that it asked for has just begun to serve."""
    known = [pod(f"p{index}", STEADY, moments(), came=stepping(40.0, 0.2, NOW - 15)) for index in range(2)]
    begun = pod("new", IDLE, [NOW], came=lambda _: 1.0)
    found = seen(*known, begun, ready_since={each.pod: LONG_AGO for each in known} | {"new": NOW - 1})
    assert found.steady.per_second > 60
    assert found.arrivals.per_second == pytest.approx(0.2 + 0.2 + 1 / 15)


def test_the_error_of_a_rate_is_that_of_chance_and_never_zero() -> None:
    rate = seen(pod("a", STEADY)).steady
    assert rate.error_within(100.0) == pytest.approx(math.sqrt(2.0 * 100) / 100, rel=0.01)
    assert replace(rate, per_second=0.0).error_within(30.0) == pytest.approx(1 / 30), "one request in that time"


# -- lengths -----------------------------------------------------------------------------------------------------------


def test_the_requests_of_a_removed_pod_still_show_how_long_requests_are() -> None:
    """Users ask for less now, and the pod that served most of them is gone: that is no news of longer requests."""
    longer = pod("a", replace(STEADY, rate=0.1, prompt=4000))
    shorter = pod("b", replace(STEADY, rate=1.9, prompt=400))
    before, after = seen(longer, shorter), seen(longer, shorter, expected=["a"])

    assert before.lengths is not None
    assert before.lengths.prompt == pytest.approx(0.05 * 4000 + 0.95 * 400)
    assert after.lengths == before.lengths
    assert after.pods == 1
    assert after.steady.per_second == pytest.approx(0.1)


def test_impossible_numbers_of_a_removed_pod_spoil_no_lengths() -> None:
    broken = PodSignals("b", tuple(replace(each, prompt_tokens_total=-1.0) for each in pod("b", STEADY).samples))

    assert seen(pod("a", STEADY), broken, expected=["a"]).lengths == seen(pod("a", STEADY)).lengths


def test_lengths_are_means_of_what_came() -> None:
    lengths = seen(pod("a", replace(STEADY, cached=0.4))).lengths
    assert lengths is not None
    assert lengths.prompt == pytest.approx(1000)
    assert lengths.output == pytest.approx(200)
    assert lengths.cached == pytest.approx(400)
    assert lengths.in_cache >= lengths.prompt + lengths.output / 2 - 1e-6


def test_requests_hold_what_is_measured_where_it_is_more_than_expected() -> None:
    full = replace(STEADY, running=10, kv_usage=0.1)
    lengths = seen(pod("a", full)).lengths
    assert lengths is not None
    assert lengths.in_cache == pytest.approx(0.1 * 400_000 / 10)
    little = seen(pod("a", replace(full, kv_usage=0.001))).lengths
    assert little is not None
    assert little.in_cache == pytest.approx(1100)


@pytest.mark.parametrize(
    ("rate", "ago", "prompt", "expected"),
    [
        (4.0, 120.0, 3000, 3000),
        (4.0, 30.0, 3000, 3000),
        (4.0, 30.0, 100, 100),
        (4.0, 120.0, 560, 512),
        (4.0, 30.0, 600, 505),
        (1.9, 30.0, 3000, 1125),
    ],
    ids=["two minutes", "the last scrapes", "shorter ones", "by chance", "by chance of few", "fewer than counted"],
)
def test_a_new_kind_of_use_is_soon_noticed_and_chance_is_none(
    rate: float, ago: float, prompt: float, expected: float
) -> None:
    """The mean is over the longest time from which no shorter one differs by more than chance."""
    change = NOW - ago
    old, new = Serves(rate=rate, prompt=500), Serves(rate=rate, prompt=prompt)
    samples = []
    for at in moments():
        first, more = old.sample(min(at, change)), rate * max(0.0, at - change)
        later = new.sample(at, more)
        samples.append(replace(later, **{name: getattr(first, name) + getattr(later, name) for name in COUNTERS}))
    assert (rate * ago >= ENOUGH_FINISHED) == (rate > 2)
    lengths = seen(PodSignals("a", tuple(samples))).lengths
    assert lengths is not None
    assert lengths.prompt == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ended", "turning"),
    [(0.0, True), (0.1, True), (0.45, False), (1.0, False)],
    ids=["none has ended", "a few have", "enough have", "all have"],
)
def test_answers_to_prompts_of_a_new_kind_are_known_once_enough_have_ended(ended: float, *, turning: bool) -> None:
    """Twelve seconds ago, twenty long prompts a second with short answers took the place of four with long answers."""
    old, new, change = Serves(rate=4.0, output=800), Serves(rate=20.0, prompt=4000, output=100), NOW - 12
    samples = []
    for at in moments(every=3.0):
        came, before = 20.0 * max(0.0, at - change), old.sample(min(at, change))
        after, done = new.sample(at, came), new.sample(at, ended * came)
        counted = {name: done if name.startswith("finished") else after for name in COUNTERS}
        sums = {name: getattr(before, name) + getattr(each, name) for name, each in counted.items()}
        samples.append(replace(after, **sums))
    lengths = seen(PodSignals("a", tuple(samples))).lengths
    assert lengths is not None
    assert lengths.is_turning is turning
    assert lengths.prompt > 3000
    assert turning or lengths.output < 400


@pytest.mark.parametrize("rate", [0.1, 3.0, 40.0])
def test_requests_that_stay_of_one_kind_are_no_new_one(rate: float) -> None:
    lengths = seen(pod("a", Serves(rate=rate), moments(), came=by_chance(rate, 7))).lengths
    assert lengths is not None
    assert not lengths.is_turning


@pytest.mark.parametrize("ago", [60.0, 240.0, 500.0])
def test_longer_prompts_with_the_same_answers_are_no_unknown_kind_for_long(ago: float) -> None:
    """They are known from the last scrapes no more, so their answers have ended, too."""
    old, new, change = Serves(rate=6.0), Serves(rate=6.0, prompt=3000), NOW - ago
    samples = []
    for at in moments():
        first, later = old.sample(min(at, change)), new.sample(at, 6.0 * max(0.0, at - change))
        samples.append(replace(later, **{name: getattr(first, name) + getattr(later, name) for name in COUNTERS}))
    lengths = seen(PodSignals("a", tuple(samples))).lengths
    assert lengths is not None
    assert lengths.prompt > 2000
    assert lengths.is_turning is (ago == 60.0)


def test_few_finished_requests_are_looked_for_in_a_longer_time() -> None:
    """One request in a minute: its length alone would be a wild mean."""
    rare = Serves(rate=0.1)
    came = stepping(0.1, 0.0, NOW - 200)
    lengths = seen(pod("a", rare, moments(), came=came)).lengths
    assert lengths is not None
    assert lengths.prompt == pytest.approx(1000)


def test_long_answers_that_still_run_count_where_few_have_ended() -> None:
    """Ten requests have begun and generated 900 tokens each; the two that ended were short."""
    end = Serves(rate=0.0)
    first = replace(end.sample(NOW - 300, 0.0))
    last = replace(
        end.sample(NOW, 0.0),
        first_tokens_total=10.0,
        prompt_tokens_total=10_000.0,
        generation_tokens_total=9000.0,
        finished_total=2.0,
        finished_prompt_tokens_total=2000.0,
        finished_output_tokens_total=100.0,
    )
    middle = replace(first, at=NOW - 15)
    lengths = seen(PodSignals("a", (first, middle, last))).lengths
    assert lengths is not None
    assert lengths.output == pytest.approx(9000 / (2 + math.sqrt(2) + 1))
    many = replace(last, finished_total=float(FEW_FINISHED), finished_output_tokens_total=50.0 * FEW_FINISHED)
    lengths = seen(PodSignals("a", (first, middle, many))).lengths
    assert lengths is not None
    assert lengths.output == pytest.approx(50), "with enough of them, those that ended are the mean"


@every_case(
    ("begun", "ended", "tokens", "mean"),
    [
        (100, 0, 1000, 20.0),
        (1, 0, 10, 10.0),
        (100, 40, 10_000, 10_000 / (40 + math.sqrt(40) + 1)),
        (100, 40, 3500, 50.0),
        (100, 40, 4250, 50 + (4250 / (40 + math.sqrt(40) + 1) - 50) / 2),
        (100, 20, 10_000, 250.0),
        (3, 1, 600, 200.0),
        (100, 79, 10_000, 10_000 / (79 + math.sqrt(79) + 1)),
        (100, 80, 10_000, 50.0),
    ],
    ids=[
        "none ended",
        "the only one runs",
        "half ended",
        "all of one length",
        "between both",
        "far too few ended",
        "no more run than ended",
        "just too many run",
        "few run",
    ],
)
def test_while_many_answers_run_the_mean_is_not_that_of_the_short_ones(
    begun: int, ended: int, tokens: float, mean: float
) -> None:
    """Answers that ended had 50 tokens, because short ones end first."""
    last = replace(
        Serves(rate=0.0).sample(NOW, 0.0),
        first_tokens_total=float(begun),
        prompt_tokens_total=1000.0 * begun,
        generation_tokens_total=float(tokens),
        finished_total=float(ended),
        finished_prompt_tokens_total=1000.0 * ended,
        finished_output_tokens_total=50.0 * ended,
    )
    before = Serves(rate=0.0).sample(NOW - 100, 0.0)
    lengths = seen(PodSignals("a", (before, replace(before, at=NOW - 15), last))).lengths
    assert lengths is not None
    assert lengths.output == pytest.approx(mean)


def test_a_request_whose_prompt_is_cached_computes_one_token_of_it() -> None:
    assert [Lengths(100, 10, cached, 100).work for cached in (0, 99, 100)] == [140, 41, 41]


def test_before_the_first_token_nothing_is_known_of_the_lengths() -> None:
    found = seen(pod("a", Serves(rate=0.0)))
    assert found.lengths is None
    assert (found.ttft_seconds, found.token_seconds) == (None, None)


@pytest.mark.parametrize(
    "unknown",
    [
        ("prompt_tokens_total", "finished_prompt_tokens_total"),
        ("generation_tokens_total", "finished_output_tokens_total"),
    ],
    ids=["prompts", "answers"],
)
def test_the_length_of_prompts_or_of_answers_alone_is_no_length_of_requests(unknown: tuple[str, str]) -> None:
    nothing: dict[str, Any] = dict.fromkeys(unknown)
    samples = tuple(replace(each, **nothing) for each in pod("a", STEADY).samples)
    assert seen(PodSignals("a", samples)).lengths is None


def test_times_are_means_of_the_last_scrapes() -> None:
    found = seen(pod("a", STEADY), pod("b", replace(STEADY, token_seconds=0.04)))
    assert found.token_seconds == pytest.approx(0.03)
    assert found.ttft_seconds == pytest.approx(0.2)


# -- what is held now --------------------------------------------------------------------------------------------------


def test_what_is_held_now_is_summed_over_the_newest_samples() -> None:
    silent = replace(STEADY, kv_usage=0.5, capacity=None, waiting=3)
    found = seen(pod("a", replace(STEADY, kv_usage=0.25, running=4)), pod("b", silent), capacity=1000)
    assert found.used_tokens == pytest.approx(0.25 * 400_000 + 500), "one reports no capacity, so it is assumed"
    assert (found.waiting, found.running) == (3, 12)


def test_an_idle_pod_holds_nothing() -> None:
    for running in (0.0, None):
        idle = pod("a", replace(STEADY, waiting=0.0, kv_usage=0.0))
        [load] = seen(replace(idle, samples=tuple(replace(each, running=running) for each in idle.samples))).loads
        assert (load.waiting, load.running, load.kv_use, load.used_tokens) == (0, 0, 0, 0)


def test_an_unknown_queue_holds_nobody_up() -> None:
    assert seen(pod("a", STEADY)).waiting == 0


@pytest.mark.parametrize(
    ("quiet", "is_stalled"), [((), True), ((4,), True), ((3,), False), ((0, 3), False), ((2,), False)]
)
def test_a_pod_is_stalled_if_requests_waited_at_every_scrape_of_the_last_minute(
    quiet: tuple[int, ...], *, is_stalled: bool
) -> None:
    """No token is generated. At the scrapes of ``quiet``, counted back from the newest but one, nobody waits."""
    samples = pod("a", Serves(rate=0.0, waiting=3.0), moments()).samples
    told = [replace(each, waiting=0.0) if len(samples) - 2 - at in quiet else each for at, each in enumerate(samples)]
    [load] = seen(PodSignals("a", tuple(told))).loads
    assert load.is_stalled is is_stalled


def test_without_first_tokens_what_was_served_is_counted_by_prompts() -> None:
    without = _without(("first_tokens_total",))
    counted = PodSignals("a", tuple(map(without, pod("a", STEADY).samples)))
    [load] = seen(counted).loads
    assert load.served == pytest.approx(2.0)
    assert seen(counted).served == pytest.approx(2.0)
