"""How many replicas a load needs: by arrivals, by the backlog, by the cache, and by the queue."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.rebalance.law.capacity import ReplicaModel, capacity_of
from plimsoll.rebalance.law.wishes import (
    DeploymentLoad,
    Need,
    Wish,
    is_saturated,
    wish_for_queue,
    wish_of,
    with_forecast,
)
from plimsoll.rebalance.signals.forecast import Expected
from plimsoll.rebalance.signals.traffic import Traffic
from tests.support.engine_loads import KV_TOKENS, NOW, Serves, moments, pod, replica_model, summary, traffic
from tests.support.tables import examples

COOLDOWN_SECONDS = 1800.0

LONG_QUEUE = 5.0
MOST_FORECAST = 2.0
NORMAL_QUEUE = 2.0
STORM_SHARE = 0.25

MODEL = replica_model()
USUAL = Serves()


def load(*pods: Serves, **changes: float) -> DeploymentLoad:
    return replace(alone(traffic(*pods), len(pods)), **{"startup_seconds": 300.0, **changes})  # type: ignore[arg-type]


def alone(seen: Traffic, pods: int) -> DeploymentLoad:
    """The traffic on as many replicas as are wanted, of which nothing else is known."""
    return DeploymentLoad(
        seen, pods, KV_TOKENS, rise=0.0, is_settled=False, most_work=None, startup_seconds=0.0,
        stay_seconds=COOLDOWN_SECONDS, starting=(), apart=0, lost=0.0, share=1.0, served=seen.served,
    )  # fmt: skip


def carried() -> float:
    """Requests a second that a replica carries of the usual load."""
    lengths = traffic(USUAL).lengths
    assert lengths is not None
    return capacity_of(MODEL, lengths).per_second


def of_rate(replicas_worth: float, pods: int = 2, **changes: float) -> Wish:
    """The wish where so many replicas' worth of requests come."""
    return wish_of(load(*pods * [replace(USUAL, rate=replicas_worth * carried() / pods)], **changes), MODEL)


@pytest.mark.parametrize(("worth", "replicas"), [(0.1, 1), (0.8, 1), (1.5, 2), (2.5, 3), (9.2, 11)])
def test_arrivals_need_as_many_replicas_as_carry_them(worth: float, replicas: int) -> None:
    wish = of_rate(worth)
    assert abs(wish.replicas - replicas) <= (worth > 9)
    assert wish.replicas >= worth
    assert wish.rate == pytest.approx(worth * carried())


@pytest.mark.parametrize("lost", [0.5, 1.0, 2.0])
def test_what_slow_replicas_do_less_is_needed_on_top(lost: float) -> None:
    whole, less = of_rate(3.5), of_rate(3.5, lost=lost)
    assert whole.need is less.need is Need.ARRIVALS
    assert less.replicas - whole.replicas == pytest.approx(lost, abs=0.5)
    assert less.enough - whole.enough == pytest.approx(lost, abs=0.5)


@given(worth=st.floats(0.05, 20), startup=st.floats(0, 900))
def test_a_wish_says_at_which_part_of_a_replica_another_one_is_started(worth: float, startup: float) -> None:
    """Who divides the arrivals by that part gets the number, so that a sentence with it explains itself."""
    wish = of_rate(worth, startup_seconds=startup)
    if wish.need is not Need.ARRIVALS:
        assert wish.use == 1.0
    elif wish.replicas > 1:
        assert (wish.replicas - 1) * wish.use * carried() < wish.rate <= 1.05 * wish.replicas * wish.use * carried()


def test_the_number_of_pods_that_serve_it_does_not_change_the_need() -> None:
    assert {of_rate(2.5, pods).replicas for pods in (1, 2, 3, 5)} == {3}


def test_more_arrivals_never_need_fewer_replicas() -> None:
    wishes = [of_rate(0.2 * step) for step in range(30)]
    assert [each.replicas for each in wishes] == sorted(each.replicas for each in wishes)
    assert [each.enough for each in wishes] == sorted(each.enough for each in wishes)


def test_what_is_enough_has_room_to_spare() -> None:
    wishes = [of_rate(0.1 * step) for step in range(1, 60)]
    assert all(each.enough >= each.replicas for each in wishes)
    assert any(each.enough > each.replicas for each in wishes)


def test_an_expected_rise_counts_like_arrivals() -> None:
    assert of_rate(1.5, rise=carried()).replicas == of_rate(2.5).replicas > of_rate(1.5).replicas


def test_nothing_to_do_needs_one_replica() -> None:
    idle = load(Serves(rate=0.0, running=0, kv_usage=0.0))
    for model in (MODEL, None):
        wish = wish_of(idle, model)
        assert (wish.replicas, wish.enough, wish.capacity) == (1, 1, None)


def test_chance_does_not_change_the_wish() -> None:
    """A rate in the middle between two numbers of replicas, in a hundred windows of random arrivals."""
    rate, found = 1.4 * carried(), []
    for seed in range(100):
        rng, at, times = Random(seed), NOW - 200, []  # noqa: S311 - a simulation
        while (at := at + rng.expovariate(rate)) < NOW:
            times.append(at)
        seen = summary(
            pod("a", USUAL, moments(180), came=lambda at, came=times: 1000.0 + sum(each <= at for each in came))  # type: ignore[misc]
        ).traffic
        assert seen is not None
        found.append(wish_of(alone(seen, 1), MODEL).replicas)
    assert set(found) == {2}


# -- a new kind of requests --------------------------------------------------------------------------------------------


def turning(each: DeploymentLoad) -> DeploymentLoad:
    """The same load while it is not known how long the answers to new prompts are."""
    assert each.traffic.lengths is not None
    return replace(each, traffic=replace(each.traffic, lengths=replace(each.traffic.lengths, is_turning=True)))


@pytest.mark.parametrize(
    ("pods", "starting", "apart", "most"), [(1, 0, 0, 2), (2, 0, 0, 3), (4, 0, 0, 6), (4, 0, 2, 9), (2, 7, 0, 9)]
)
@pytest.mark.parametrize("waiting", [0.0, 400.0])
def test_requests_of_a_new_kind_add_half_of_the_replicas_until_their_answers_are_known(
    pods: int, starting: int, apart: int, most: int, waiting: float
) -> None:
    """The answers of the kind before say nothing of them. What was ordered already is not taken back."""
    busy = replace(USUAL, rate=30 * carried() / pods, waiting=waiting)
    known = replace(load(*pods * [busy]), starting=starting * (10.0,), apart=apart)
    assert wish_of(known, MODEL).replicas > 30
    assert wish_of(turning(known), MODEL).replicas == most
    few = load(*pods * [replace(USUAL, rate=0.5 * carried() / pods)])
    assert wish_of(turning(few), MODEL).replicas == wish_of(few, MODEL).replicas == 1, "it adds nothing by itself"


def test_a_cache_that_is_full_of_requests_of_a_new_kind_needs_what_is_seen() -> None:
    full = load(replace(USUAL, kv_usage=1.0), replace(USUAL, kv_usage=1.0), startup_seconds=60.0)
    many = replace(full, share=5.0)
    assert wish_of(turning(many), MODEL) == wish_of(many, MODEL)
    assert wish_of(many, MODEL).replicas > 9


# -- the backlog -------------------------------------------------------------------------------------------------------


def test_a_backlog_needs_replicas_beyond_those_for_the_arrivals() -> None:
    waiting = replace(USUAL, rate=0.9 * carried(), waiting=40 * carried())
    wish = wish_of(load(waiting, waiting, startup_seconds=60.0), MODEL)
    assert (wish.need, wish.replicas) == (Need.BACKLOG, 3)
    assert of_rate(1.8, startup_seconds=60.0).replicas == 2
    longer = wish_of(load(waiting, waiting, startup_seconds=60.0, stay_seconds=36_000.0), MODEL)
    assert longer.replicas < wish.replicas, "what stays for long must save more"


def test_replicas_that_start_already_serve_the_backlog() -> None:
    """The two that serve keep up with the arrivals, so only what waits is left. What comes later starts too late."""
    busy = replace(USUAL, rate=0.8 * carried() / 2, waiting=60 * carried())
    least = of_rate(0.8).replicas

    def wanted(*starting: float, startup: float = 30.0) -> Wish:
        return wish_of(replace(load(busy, busy, startup_seconds=startup), starting=starting), MODEL)

    assert wanted().need is Need.BACKLOG
    assert wanted().replicas > least
    assert wanted(*[30.0] * 9).replicas == wanted().replicas, "they serve no sooner than what is ordered now"
    assert wanted(*[9999.0] * 99).replicas == wanted().replicas, "nor do those that serve later still"
    assert wanted(*[0.0] * 9).need is not Need.BACKLOG
    assert wanted(startup=600.0).need is not Need.BACKLOG, "it is served long before"


def test_a_queue_as_usual_is_no_backlog() -> None:
    waiting = replace(USUAL, waiting=NORMAL_QUEUE)
    assert wish_of(load(waiting, waiting), MODEL).need is not Need.BACKLOG


@pytest.mark.parametrize("model", [MODEL, None], ids=["model", "no model"])
def test_a_full_cache_needs_more_whatever_the_model_says(model: ReplicaModel | None) -> None:
    full = replace(USUAL, kv_usage=0.99)
    wish = wish_of(load(full, full), model)
    assert (wish.need, wish.replicas) == (Need.KV_CACHE, 3)
    free = replace(USUAL, kv_usage=0.5)
    assert wish_of(load(free, free), model).replicas <= 2


def test_without_a_model_arrivals_decide_nothing() -> None:
    many = replace(USUAL, rate=100 * carried())
    wish = wish_of(load(many, many), None)
    assert (wish.replicas, wish.capacity) == (1, None)


def test_requests_that_wait_as_usual_hold_cache_soon() -> None:
    lengths = traffic(USUAL).lengths
    assert lengths is not None
    nearly = replace(USUAL, kv_usage=0.9, running=250)
    now, soon = (wish_of(load(replace(nearly, waiting=waiting)), None) for waiting in (0, NORMAL_QUEUE))
    assert now.need is soon.need is Need.KV_CACHE
    assert soon.enough >= now.enough


# -- the queue ---------------------------------------------------------------------------------------------------------


def test_a_long_queue_needs_more_where_the_speed_is_not_known() -> None:
    long = replace(USUAL, waiting=LONG_QUEUE)
    wish = wish_of(load(long, long, is_settled=True), None)
    assert (wish.need, wish.replicas) == (Need.QUEUE, 3)
    assert wish_of(load(long, long, is_settled=False), None).replicas < 3, "what is left of a start is no news"
    short = replace(long, waiting=LONG_QUEUE - 1)
    assert wish_of(load(short, short, is_settled=True), None).replicas < 3


@pytest.mark.parametrize("model", [MODEL, None], ids=["model", "no model"])
@pytest.mark.parametrize(("served", "is_more"), [(1.0, True), (1.9, True), (2.1, False), (3.0, False)])
def test_a_backlog_that_is_served_before_a_new_replica_would_serve_asks_for_none(
    served: float, *, is_more: bool, model: ReplicaModel | None
) -> None:
    """100 requests wait beyond the usual, a start-up takes 100 s, and 1 request a second comes to two replicas."""
    waits = replace(USUAL, rate=0.5, waiting=50 + NORMAL_QUEUE, kv_usage=0.99)
    seen = load(waits, waits, is_settled=True, startup_seconds=100.0, served=served)
    wish = wish_of(seen, model)
    assert (wish.replicas > 2) is is_more
    assert not is_more or wish.need in (Need.QUEUE, Need.KV_CACHE)
    full = replace(USUAL, rate=0.5, kv_usage=0.99)
    without_queue = load(full, full, is_settled=True, startup_seconds=100.0, served=served)
    assert wish_of(without_queue, model).need is Need.KV_CACHE, "no backlog fills it"


@given(replicas=st.integers(1, 12), busy=st.integers(1, 12), queue=st.floats(LONG_QUEUE, 500))
def test_a_queue_at_few_replicas_needs_no_more_and_one_at_half_of_them_or_at_the_gateway_does(
    replicas: int, busy: int, queue: float
) -> None:
    """The others have room: a router or a slow replica makes such a queue."""
    busy = min(busy, replicas)
    waits = [replace(USUAL, waiting=queue)] * busy + [replace(USUAL, waiting=0.0)] * (replicas - busy)
    wish = wish_of(load(*waits, is_settled=True), None)
    is_long = 2 * busy >= replicas and busy * queue >= LONG_QUEUE * replicas
    assert (wish.need is Need.QUEUE, wish.replicas > replicas) == (is_long, is_long)
    seen = load(*[replace(USUAL, waiting=0.0)] * replicas, is_settled=True)
    held = LONG_QUEUE * replicas
    at_gateway = replace(seen, traffic=replace(seen.traffic, waiting=held, at_gateway=held))
    assert wish_of(at_gateway, None).need is Need.QUEUE


@pytest.mark.parametrize("pods", [1, 3])
def test_requests_that_lose_their_cache_again_and_again_need_one_more_where_the_speed_is_not_known(pods: int) -> None:
    """Engines that have only just begun to serve may have lost some while they filled."""
    for share, is_settled, is_more in (
        (STORM_SHARE, True, True),
        (0.99 * STORM_SHARE, True, False),
        (1.0, False, False),
    ):
        seen = replace(load(*pods * [USUAL]), is_settled=is_settled)
        wish = wish_of(replace(seen, traffic=replace(seen.traffic, preempted_share=share)), None)
        assert (wish.need is Need.PREEMPTIONS, wish.replicas > pods) == (is_more, is_more)
        assert not is_more or wish.replicas == pods + 1


@settings(max_examples=examples(80), deadline=None)
@given(
    st.floats(0, 500),
    st.floats(0, 1),
    st.floats(0, 10_000),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([None, MODEL]),
)
def test_every_load_has_a_wish(
    rate: float,
    usage: float,
    waiting: float,
    pods: int,
    is_settled: bool,  # noqa: FBT001 - drawn
    model: ReplicaModel | None,
) -> None:
    each = replace(USUAL, rate=rate, kv_usage=usage, waiting=waiting)
    wish = wish_of(load(*pods * [each], is_settled=is_settled), model)
    assert 1 <= wish.replicas <= wish.enough


def expecting(worth: float) -> Expected:
    """A forecast of so many replicas' worth of requests."""
    return Expected(worth * carried(), NOW + 600, days=7, error=0.1)


@pytest.mark.parametrize(("worth", "replicas"), [(0.5, 2), (1.8, 2), (2.6, 3), (3.6, 4), (9.0, 4)])
def test_a_forecast_adds_what_it_needs_up_to_twice_the_need_of_now(worth: float, replicas: int) -> None:
    now = of_rate(1.6)
    wish = with_forecast(now, expecting(worth), None)
    assert now.replicas == 2
    assert (wish.replicas, wish.need is Need.RISE) == (replicas, replicas > 2)
    assert wish.replicas <= MOST_FORECAST * now.replicas
    assert (wish.enough, wish.rate, wish.kept) == (now.enough, now.rate, wish.replicas)


def test_what_is_needed_later_is_kept_and_not_added() -> None:
    now = of_rate(1.6)
    wish = with_forecast(now, None, expecting(2.6))
    assert (wish.replicas, wish.need, wish.coming) == (now.replicas, now.need, None)
    assert wish.kept == 4
    assert with_forecast(now, None, None).kept == now.replicas


def test_a_forecast_for_replicas_of_unknown_speed_asks_for_nothing() -> None:
    now = wish_of(load(USUAL), None)
    assert with_forecast(now, expecting(9), expecting(9)) == now


def test_a_gateways_queue_needs_whole_replicas_for_its_requests_and_no_part_of_one() -> None:
    most = MODEL.limits.sequences
    wishes = [wish_for_queue(waiting, MODEL) for waiting in (1.0, most, most + 1.0)]
    assert [(each.replicas, each.enough, each.use, each.rate) for each in wishes] == [
        (1, 1, 1.0, 0.0),
        (1, 1, 1.0, 0.0),
        (2, 2, 1.0, 0.0),
    ]
    assert wish_for_queue(5000.0, None).replicas == 1


@pytest.mark.parametrize(
    ("waiting", "gain", "need"),
    [(10.0, 1.0, Need.ARRIVALS), (10.0, 0.0, Need.KV_CACHE), (NORMAL_QUEUE, 1.0, Need.KV_CACHE)],
    ids=["in time", "not served", "no backlog"],
)
def test_a_backlog_that_is_served_in_time_needs_no_cache(waiting: float, gain: float, need: Need) -> None:
    """Half a replica carries the arrivals, and a part of one has the cache for all."""
    one = replace(USUAL, rate=0.5 * carried() / 3, waiting=waiting)
    seen = load(one, one, one)
    wish = wish_of(replace(seen, served=seen.traffic.arrivals.per_second + gain), MODEL)
    assert (wish.need, wish.replicas) == (need, 1)


@pytest.mark.parametrize(("replicas", "held", "is_long"), [(4, 4, True), (4, 3, False), (1, 1, True)])
def test_a_queue_at_the_gateway_is_shared_by_all_replicas(replicas: int, held: int, *, is_long: bool) -> None:
    """Each of them has as many as make a long queue, or fewer."""
    seen = load(*[replace(USUAL, waiting=0.0)] * replicas, is_settled=True)
    waiting = LONG_QUEUE * held
    assert is_saturated(replace(seen, traffic=replace(seen.traffic, waiting=waiting, at_gateway=waiting))) is is_long
    at_one = replace(seen, traffic=replace(seen.traffic, waiting=LONG_QUEUE * replicas, at_gateway=LONG_QUEUE))
    assert not is_saturated(at_one) or replicas == 1
