"""The better law of the benchmark of rebalancing, part by part and as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from plimsoll.simulation.peers.better_law import BetterLaw, Demand, Look, demand_of, wish_of
from plimsoll.simulation.peers.service_rate import ServiceRate
from plimsoll.simulation.peers.signals import (
    Lengths,
)
from plimsoll.simulation.peers.view import PodView
from tests.benchmarks.rebalance_views import (
    NOW,
    near,
    over_time,
    pod,
    pods,
    sample,
    starting,
    view,
)

LOAD = Demand(arrivals=10, waiting=0, kv_tokens=50_000, mean=Lengths(1000, 250))


def test_the_wish_is_the_largest_of_three_needs() -> None:
    """A request is 2,000 of work, so a replica of 8,000 a second serves 4 requests a second."""
    assert wish_of(LOAD, 2, 8000, 100_000).replicas == 3, "10 / 3.6"
    assert wish_of(replace(LOAD, waiting=130), 2, 8000, 100_000).replicas == 4, "(10 + 126 / 60) / 4"
    full = replace(LOAD, kv_tokens=240_000, waiting=20)
    assert wish_of(full, 2, 8000, 100_000).replicas == 4, "262,500 / 85,000"
    assert [wish_of(each, 2, 8000, 100_000).by_cache for each in (LOAD, full)] == [False, True]
    assert wish_of(LOAD, 2, None, 100_000).replicas == 1, "nothing is known of the rate"


def test_the_demand_of_the_pods() -> None:
    found = demand_of(pods(2, kv=0.25), view(*pods(2, kv=0.25)))
    assert found == Demand(near(4), 0, 50_000, Lengths(near(1000), near(500)))

    growing = tuple(
        replace(each, samples=tuple(replace(one, waiting=one.at / 15) for one in each.samples)) for each in pods(2)
    )
    assert demand_of(growing, view(*growing)).arrivals == near(2 * (2 + 1 / 15))
    begun = replace(sample(NOW - 5, per_second=0), prompt_tokens_total=6000, first_tokens_total=3)
    first = demand_of([replace(pod(), samples=(begun,))], view(pod()))
    assert first.mean == Lengths(2000, 0), "no request has finished"


def test_slow_scrapes_still_show_arrivals() -> None:
    """Two scrapes a minute apart, and a queue for which the last 45 s count."""
    rare = replace(pod(), samples=(sample(NOW - 65, waiting=10), sample(NOW - 5, waiting=40)))
    assert demand_of([rare], view(rare)).arrivals == near(2 + 30 / 60)
    once = replace(pod(), samples=(sample(NOW - 5, waiting=40),))
    assert demand_of([once], view(once)).arrivals == 0


def test_a_rate_is_learned_under_a_queue_only() -> None:
    learned, idle = ServiceRate(), ServiceRate()

    learned.read(pods(1, waiting=3), NOW)
    idle.read(pods(1, waiting=0), NOW)
    assert learned.work == near(2 * (1000 + 4 * 500))
    assert idle.work is None


def test_a_rate_rises_at_once_and_falls_slowly() -> None:
    rates, slow = ServiceRate(work=9000.0), pods(1, waiting=3)  # 6,000 a second
    few = replace(slow[0], samples=slow[0].samples[-7:])
    more = replace(slow[0], samples=slow[0].samples[-8:])

    rates.read([few], NOW)
    assert rates.work == 9000, "six intervals with a queue"
    again = ServiceRate(work=9000.0)
    again.read([more], NOW)
    assert again.work == near(9000 - 0.05 * 3000), "the seventh"
    again.read([more], NOW)
    assert again.work == near(8850), "each scrape counts once"
    fast = ServiceRate(work=3000.0)
    fast.read([few], NOW)
    assert fast.work == near(6000)


def law(work: float = 8000) -> BetterLaw:
    return BetterLaw(rate=ServiceRate(work=work))


BUSY = {"per_second": 5.0, "output": 250.0}
"""Of two pods: 10 requests a second of 2,000 of work."""


def test_the_law_adds_all_at_once_and_counts_those_that_start() -> None:
    assert law()(view(*pods(2, **BUSY))) == 3
    assert law(2000)(view(*pods(2, **BUSY))) == 10, "12 within the bound"
    assert law()(view(*pods(2, **BUSY), starting())) == 3
    assert law()(view(*pods(2, **BUSY), has_metrics=False)) == 2


def test_the_law_replaces_a_replica_that_starts_for_too_long() -> None:
    """The pods took 100 s to start, so 150 s are too long."""
    assert law()(view(*pods(2, **BUSY), starting(created=NOW - 149))) == 3
    assert law()(view(*pods(2, **BUSY), starting(created=NOW - 151))) == 4


def test_the_law_answers_a_long_queue_whatever_the_rate() -> None:
    queue = pods(2, waiting=5, kv=0.1, per_second=0.0)

    assert BetterLaw()(view(*queue)) == 3
    assert BetterLaw()(view(*pods(2, waiting=4, kv=0.1, per_second=0.0))) == 2
    assert BetterLaw()(view(*(replace(each, ready_since=NOW - 30) for each in queue))) == 2, "they are too young"


def removals(policy: BetterLaw, look: Callable[[float], Sequence[PodView]], seconds: int = 600) -> int:
    """The answer at the end, while four replicas stay wanted."""
    return over_time(policy, seconds, lambda now: view(*look(now), wanted=4, now=now))[-1]


def test_the_law_removes_after_ten_quiet_minutes_at_most_a_half() -> None:
    def quiet(now: float) -> tuple[PodView, ...]:
        return pods(4, now=now, kv=0.05, per_second=0.1)

    assert removals(law(), quiet, seconds=585) == 4
    assert removals(law(), quiet) == 2
    assert removals(law(), lambda now: pods(4, now=now, kv=0.3 if now < NOW + 30 else 0.05, per_second=0.1)) == 2
    assert removals(law(), lambda now: pods(4, now=now, kv=0.6 if now < NOW + 30 else 0.05, per_second=0.1)) == 3


@pytest.mark.parametrize(
    "last",
    [
        lambda now: pod("last", now=now, kv=0.05, waiting=1),
        lambda now: replace(pod("last", now=now), samples=()),
        lambda _: starting("last", created=NOW),
        lambda now: replace(
            pod("last", now=now), samples=(sample(now - 60, kv=0.05), sample(now - 10, kv=0.05, preemptions=1))
        ),
    ],
)
def test_the_law_removes_nothing_while_a_pod_is_unknown_or_not_quiet(last: Callable[[float], PodView]) -> None:
    assert removals(law(), lambda now: (*pods(3, now=now, kv=0.05, per_second=0.1), last(now))) == 4


def test_the_law_remembers_the_arrivals_that_filled_the_caches() -> None:
    """Two replicas were full at 4 requests a second, so 4 need three."""
    policy = law(work=1e9)
    assert policy(view(*pods(2, kv=0.9, now=NOW - 700), now=NOW - 700)) == 3
    assert policy.crowded_arrivals == near(2)

    assert removals(policy, lambda now: pods(4, now=now, kv=0.05, per_second=1.0)) == 3
    assert removals(law(work=1e9), lambda now: pods(4, now=now, kv=0.05, per_second=1.0)) == 2

    policy.looks = []
    assert removals(policy, lambda now: pods(4, now=now, kv=0.05, per_second=1.0 if now < NOW + 30 else 0.1)) == 3


def test_the_law_bounds_additions_that_follow_removals() -> None:
    policy = law(work=1e9)
    policy.reversals = [NOW - 100]
    assert removals(policy, lambda now: pods(4, now=now, kv=0.05)) == 2
    assert policy(view(*pods(2, now=NOW + 615, kv=0.9), now=NOW + 615)) == 3
    assert policy.reversals == [NOW - 100, NOW + 615]

    policy.looks = [Look(NOW + 20, 1, 0)]
    assert policy(view(*pods(4, now=NOW + 620, kv=0.05, per_second=0.1), now=NOW + 620)) == 4
    policy.reversals = [NOW - 4000, NOW + 615]
    policy.looks = [Look(NOW + 25, 1, 0)]
    assert policy(view(*pods(4, now=NOW + 625, kv=0.05, per_second=0.1), now=NOW + 625)) == 2
