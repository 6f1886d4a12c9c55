"""Simulated replicas together: starts, removal, routing, clients, faults, and what a policy sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isnan
from random import Random
from typing import cast

import pytest

from benchmarks.rebalance.running import run
from benchmarks.rebalance.values import Scenario
from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.fleet import Replica
from plimsoll.simulation.peers.view import Order, PodView, Policy, View
from plimsoll.simulation.routing import Router
from plimsoll.simulation.values import Arrival, Fate, FaultKind, InjectedFault, Routing, SimulatedRequest
from plimsoll.simulation.verdicts import Change
from tests.support.simulated import SPEC, Scripted, engine, outcome, poisson, scenario

LONG = Arrival(100.0, 1000, 5000)
"""A request that is under way for about half a minute."""


def fates(asked: Scenario, policy: Scripted, seed: int = 1) -> list[Fate]:
    return [each.fate for each in outcome(asked, policy, seed).answered]


def busy(seconds: float = 200.0) -> Scenario:
    """A burst that one small replica cannot hold, with clients of little patience and a short drain."""
    return replace(
        scenario(seconds=seconds),
        engine=replace(SPEC, max_num_seqs=16, kv_tokens=20_000),
        arrivals=poisson(5.0, 1000, 500, seconds),
        start_replicas=3,
        patience_seconds=4.0,
        drain_seconds=2.0,
        cold_start_seconds=20.0,
    )


SWINGING = {20.0: 1, 60.0: 5, 90.0: 2, 120.0: 4, 150.0: 1}


def test_every_arrival_has_exactly_one_fate() -> None:
    asked = busy()
    found = outcome(asked, Scripted(SWINGING))
    assert [each.arrival for each in found.answered] == [*asked.arrivals(1)]
    assert {each.fate for each in found.answered} == set(Fate)
    for each in found.answered:
        if each.fate is Fate.SERVED:
            assert each.ttft_seconds is not None
            assert 0 < each.ttft_seconds <= asked.patience_seconds
            assert (each.tpot_seconds is None) is (each.arrival.output_tokens == 1)
        else:
            assert each.tpot_seconds is None
            assert each.fate is Fate.LOST or each.ttft_seconds is None


def test_arrivals_after_the_measured_time_are_left_out_and_those_under_way_are_served() -> None:
    found = outcome(scenario(Arrival(299.0, 1000, 1000), Arrival(300.0, 1, 1), seconds=300), Scripted())
    assert [each.arrival.at for each in found.answered] == [299.0]
    assert found.answered[0].fate is Fate.SERVED
    assert found.replica_seconds == 300


@pytest.mark.parametrize("routing", Routing)
def test_the_same_seed_gives_the_same_outcome_and_another_one_does_not(routing: Routing) -> None:
    asked = replace(busy(100.0), routing=routing)
    first, again, other = (outcome(asked, Scripted(SWINGING), seed) for seed in (1, 1, 2))
    assert first == again
    assert first.answered != other.answered
    assert first.replica_seconds > 0


def test_a_wish_is_kept_within_its_bounds_and_changes_are_recorded() -> None:
    asked = replace(scenario(), start_replicas=2, min_replicas=2, max_replicas=4)
    found = outcome(asked, Scripted({10.0: 9, 20.0: 9, 30.0: 0}))
    assert found.changes == (Change(10.0, 2, 4), Change(30.0, 4, 2))
    assert found.replica_seconds == 2 * 300 + 2 * 20


def test_ticks_come_at_their_interval_within_the_measured_time() -> None:
    policy = Scripted(tick_seconds=15.0)
    outcome(scenario(seconds=60), policy)
    assert [view.now for view in policy.views] == [15.0, 30.0, 45.0]


def pods_at(policy: Scripted, now: float) -> tuple[PodView, ...]:
    return next(view.pods for view in policy.views if view.now == now)


def test_a_replica_serves_after_its_cold_start() -> None:
    asked, policy = replace(scenario(), max_replicas=20), Scripted({10.0: 20})
    outcome(asked, policy)
    started = [pod for pod in policy.views[-1].pods if pod.created_at > 0]
    took = [pod.ready_since - pod.created_at for pod in started if pod.ready_since is not None]
    assert len(took) == 19
    assert 90.0 <= min(took) < 100.0
    assert 120.0 < max(took) <= 130.0
    assert all(pod.ready_since is None and not pod.samples for pod in pods_at(policy, 15.0)[1:])


def test_requests_wait_in_the_gateway_until_a_replica_is_ready() -> None:
    asked = replace(scenario(Arrival(20.0, 100, 2)), min_replicas=0, cold_start_seconds=30.0)
    policy = Scripted({5.0: 0, 15.0: 2})
    (served,) = outcome(asked, policy).answered
    assert sum(pod.samples[-1].finished_total for pod in policy.views[-1].pods) == 1
    assert served.fate is Fate.SERVED
    assert served.ttft_seconds is not None
    assert 27 - 5 < served.ttft_seconds < 39 - 5 + 1


def test_a_policy_sees_the_requests_that_wait_in_the_gateway() -> None:
    asked = replace(scenario(*(Arrival(20.0 + each, 100, 2) for each in range(8))), min_replicas=0)
    policy, honest = Scripted({5.0: 0, 30.0: 1}), Scripted()
    outcome(replace(asked, cold_start_seconds=30.0), policy)
    outcome(asked, honest)
    held = {view.now: view.held for view in policy.views}
    assert [held[each] for each in (15.0, 25.0, 30.0, 80.0)] == [0, 6, 8, 0]
    assert {view.held for view in honest.views} == {0}


def test_a_client_in_the_gateway_gives_up() -> None:
    asked = replace(scenario(Arrival(20.0, 100, 2)), min_replicas=0, cold_start_seconds=30.0, patience_seconds=10.0)
    assert fates(asked, Scripted({5.0: 0, 15.0: 1})) == [Fate.GAVE_UP]


def test_replicas_that_start_are_removed_before_one_that_serves() -> None:
    later, policy = [Arrival(200.0 + each, 100, 5) for each in range(20)], Scripted({10.0: 3, 20.0: 1})
    found = outcome(scenario(*later), policy)
    (left,) = policy.views[-1].pods
    assert (left.name, left.samples[-1].finished_total) == ("pod-0", 20)
    assert found.replica_seconds == 300 + 2 * 10


def test_of_the_replicas_that_start_the_newest_is_removed() -> None:
    policy = Scripted({10.0: 2, 20.0: 3, 30.0: 2})
    outcome(scenario(), policy)
    assert [pod.name for pod in policy.views[-1].pods] == ["pod-0", "pod-1"]


def test_a_replica_that_is_stuck_is_removed_before_newer_ones_that_serve() -> None:
    fault, policy = InjectedFault(FaultKind.STUCK_STARTS, 5.0, 10.0), Scripted({10.0: 2, 20.0: 3, 200.0: 2})
    outcome(replace(scenario(), faults=(fault,)), policy)
    assert [pod.name for pod in policy.views[-1].pods] == ["pod-0", "pod-2"]


def test_the_replica_with_the_least_load_is_removed() -> None:
    asked, policy = replace(scenario(LONG, LONG, LONG), start_replicas=2), Scripted({105.0: 1})
    found = outcome(asked, policy)
    before = {pod.name: pod.samples[-1].running for pod in pods_at(policy, 120.0)}
    assert [*before.values()] == [2]
    assert [each.fate for each in found.answered] == [Fate.SERVED] * 3


@pytest.mark.parametrize(("drain", "lost"), [(90.0, Fate.SERVED), (5.0, Fate.LOST)])
def test_a_drain_loses_what_is_not_done_in_time(drain: float, lost: Fate) -> None:
    """Two replicas have a long request each. A short one on either of them is done in both cases."""
    asked = replace(scenario(LONG, LONG, Arrival(102.0, 100, 20)), start_replicas=2, drain_seconds=drain)
    found = outcome(asked, Scripted({105.0: 1}))
    assert sorted(each.fate for each in found.answered) == sorted([Fate.SERVED, Fate.SERVED, lost])
    assert found.answered[2].fate is Fate.SERVED
    assert all(each.ttft_seconds is not None for each in found.answered)
    drained = found.replica_seconds - 300 - 105
    assert drained == 5.0 if lost is Fate.LOST else 20 < drained < 60


@pytest.mark.parametrize(("drain", "fate"), [(90.0, Fate.SERVED), (5.0, Fate.LOST)])
def test_a_drain_loses_the_queue_too(drain: float, fate: Fate) -> None:
    asked = replace(scenario(LONG, Arrival(101.0, 100, 5)), engine=replace(SPEC, max_num_seqs=1), drain_seconds=drain)
    found = outcome(replace(asked, min_replicas=0), Scripted({105.0: 0}))
    assert [each.fate for each in found.answered] == [fate, fate]


def test_a_drain_after_the_measured_time_is_not_counted() -> None:
    asked = replace(scenario(replace(LONG, at=290.0), replace(LONG, at=290.0)), start_replicas=2)
    assert outcome(asked, Scripted({295.0: 1})).replica_seconds == 2 * 300


def test_a_replica_that_drains_gets_no_request_and_is_not_shown() -> None:
    asked, policy = replace(scenario(LONG, LONG), start_replicas=2), Scripted({105.0: 1})
    later = [Arrival(106.0 + each / 10, 100, 5) for each in range(20)]
    outcome(replace(asked, arrivals=lambda _: [LONG, LONG, *later]), policy)
    assert len(pods_at(policy, 105.0)) == 2
    (left,) = pods_at(policy, 150.0)
    assert left.samples[-1].finished_total == 1 + len(later)


def test_an_idle_replica_ends_at_once() -> None:
    assert outcome(replace(scenario(), start_replicas=2), Scripted({105.0: 1})).replica_seconds == 300 + 105


@pytest.mark.parametrize(("patience", "fate"), [(20.0, Fate.GAVE_UP), (60.0, Fate.SERVED)])
def test_a_client_in_the_queue_gives_up_and_leaves_it(patience: float, fate: Fate) -> None:
    asked = replace(
        scenario(LONG, Arrival(101.0, 100, 5)), engine=replace(SPEC, max_num_seqs=1), patience_seconds=patience
    )
    policy = Scripted()
    found = outcome(asked, policy)
    assert [each.fate for each in found.answered] == [Fate.SERVED, fate]
    waiting = [sample.waiting for sample in policy.views[-1].pods[0].samples if 101 + 20 < sample.at < 101 + 36]
    assert waiting[0] == (fate is Fate.SERVED)


def test_when_a_large_head_of_the_queue_gives_up_the_next_one_is_admitted_at_once() -> None:
    """The long request leaves no room for the prompt of 9,000 tokens, and runs on."""
    asked = replace(
        scenario(LONG, Arrival(101.0, 9000, 5), Arrival(110.0, 100, 5)),
        engine=replace(SPEC, kv_tokens=10_000),
        patience_seconds=20.0,
    )
    served, large, small = outcome(asked, Scripted()).answered
    assert [served.fate, large.fate, small.fate] == [Fate.SERVED, Fate.GAVE_UP, Fate.SERVED]
    assert small.ttft_seconds == pytest.approx(121 - 110, abs=0.06)


def test_a_client_gives_up_while_its_prompt_is_computed() -> None:
    """80,000 tokens take some seconds. The next request need not wait for all of them."""
    large, small = Arrival(100.0, 80_000, 10), Arrival(101.0, 100, 5)
    impatient = outcome(replace(scenario(large, small), patience_seconds=2.0), Scripted()).answered
    patient = outcome(replace(scenario(large, small), patience_seconds=60.0), Scripted()).answered
    assert [each.fate for each in impatient] == [Fate.GAVE_UP, Fate.SERVED]
    assert [each.fate for each in patient] == [Fate.SERVED, Fate.SERVED]
    assert (impatient[1].ttft_seconds or 0) < (patient[1].ttft_seconds or 0)


def test_a_client_that_has_its_first_token_stays() -> None:
    found = outcome(replace(scenario(LONG), patience_seconds=1.0), Scripted())
    assert found.answered[0].fate is Fate.SERVED


def test_pods_are_scraped_at_their_interval_each_at_its_own_phase() -> None:
    policy = Scripted()
    outcome(replace(scenario(), start_replicas=4), policy)
    phases = set[float]()
    for pod in policy.views[-1].pods:
        times = [sample.at for sample in pod.samples]
        assert 0 <= times[0] < 15
        assert {round(later - one, 6) for one, later in pairwise(times)} == {15.0}
        phases.add(times[0])
    assert len(phases) == 4


def test_a_policy_sees_ten_minutes() -> None:
    policy = Scripted()
    outcome(scenario(seconds=1500), policy)
    samples = policy.views[-1].pods[0].samples
    assert len(samples) == 40
    assert 1495 - 600 <= samples[0].at < samples[-1].at <= 1495


def views(fault: InjectedFault | None, plan: dict[float, int] | None = None, replicas: int = 2) -> Scripted:
    policy = Scripted(plan or {})
    faults = () if fault is None else (fault,)
    outcome(replace(scenario(), start_replicas=replicas, faults=faults), policy)
    return policy


def sample_times(policy: Scripted, pod: int) -> list[float]:
    return [sample.at for sample in policy.views[-1].pods[pod].samples]


@pytest.mark.parametrize("begins_at", [5.0, 200.0])
def test_replicas_that_are_created_during_stuck_starts_never_get_ready(begins_at: float) -> None:
    policy = views(InjectedFault(FaultKind.STUCK_STARTS, begins_at, 30.0), {10.0: 3}, replicas=1)
    ready = [pod.ready_since is not None for pod in policy.views[-1].pods]
    assert ready == [True, *([begins_at > 10] * 2)]


@pytest.mark.parametrize(("replicas", "stuck"), [(0, 0), (1, 1), (2, 2), (3, 3), (None, 3)])
def test_only_the_first_replicas_of_a_fault_are_stuck(replicas: int | None, stuck: int) -> None:
    policy = views(InjectedFault(FaultKind.STUCK_STARTS, 5.0, 30.0, replicas), {10.0: 3, 20.0: 4, 50.0: 5}, replicas=1)
    ready = [pod.ready_since is not None for pod in policy.views[-1].pods]
    assert ready == [True, *[False] * stuck, *[True] * (4 - stuck)]


def test_each_fault_hits_replicas_of_its_own() -> None:
    faults = tuple(InjectedFault(FaultKind.STUCK_STARTS, begins_at, 100.0, 1) for begins_at in (5.0, 6.0))
    policy = Scripted({10.0: 4})
    outcome(replace(scenario(), faults=faults), policy)
    assert [pod.ready_since is not None for pod in policy.views[-1].pods] == [True, False, False, True]


def test_a_stuck_replica_that_is_replaced_leaves_the_next_one_alone() -> None:
    fault, policy = InjectedFault(FaultKind.STUCK_STARTS, 0.0, 300.0, 1), Scripted({10.0: 2, 50.0: 1, 60.0: 2})
    outcome(replace(scenario(), faults=(fault,)), policy)
    assert [(pod.name, pod.ready_since is not None) for pod in policy.views[-1].pods] == [
        ("pod-0", True),
        ("pod-2", True),
    ]


def test_replicas_without_room_are_pending_and_start_when_there_is_room() -> None:
    fault, plan = InjectedFault(FaultKind.NO_ROOM, 5.0, 55.0), {10.0: 3, 70.0: 4}
    policy, honest = views(fault, plan, replicas=1), views(None, plan, replicas=1)
    assert [pod.is_placed for pod in pods_at(policy, 55.0)] == [True, False, False]
    assert [pod.is_placed for pod in pods_at(policy, 65.0)] == [True, True, True]
    assert all(pod.is_placed for view in honest.views for pod in view.pods)
    late = [(pod.ready_since or 0) - (other.ready_since or 0) for pod, other in last_pods(policy, honest)]
    assert late == pytest.approx([0, 50, 50, 0])


def last_pods(one: Scripted, other: Scripted) -> zip[tuple[PodView, PodView]]:
    return zip(one.views[-1].pods, other.views[-1].pods, strict=True)


def test_a_pending_replica_costs_nothing_until_it_is_placed() -> None:
    asked = replace(scenario(), faults=(InjectedFault(FaultKind.NO_ROOM, 5.0, 55.0),))
    assert outcome(asked, Scripted({10.0: 3, 40.0: 1})).replica_seconds == 300
    assert outcome(asked, Scripted({10.0: 3})).replica_seconds == 300 + 2 * 240
    assert outcome(replace(asked, faults=()), Scripted({10.0: 3})).replica_seconds == 300 + 2 * 290


def test_no_metrics_come_while_prometheus_does_not_answer() -> None:
    def seen(view: View) -> bool:
        return view.has_metrics and all(pod.samples for pod in view.pods)

    policy, honest = views(InjectedFault(FaultKind.NO_METRICS, 100.0, 60.0)), views(None)
    assert [view.now for view in policy.views if view.now > 20 and not seen(view)] == [*range(100, 160, 5)]
    assert not any(pod.samples for view in policy.views if not view.has_metrics for pod in view.pods)
    assert all(seen(view) for view in honest.views if view.now > 20)
    assert policy.views[-1] == honest.views[-1]


def test_the_samples_of_the_oldest_pod_stop_while_it_serves() -> None:
    policy, honest = views(InjectedFault(FaultKind.STALE_POD, 100.0, 60.0)), views(None)
    times = sample_times(policy, 0)
    assert times == [at for at in sample_times(honest, 0) if not 100 <= at < 160]
    assert len(times) == len(sample_times(honest, 0)) - 4
    assert sample_times(policy, 1) == sample_times(honest, 1)


def test_a_stale_pod_goes_on_serving() -> None:
    asked = replace(scenario(LONG), faults=(InjectedFault(FaultKind.STALE_POD, 50.0, 200.0),))
    assert outcome(asked, Scripted()).answered == outcome(replace(asked, faults=()), Scripted()).answered


def test_the_samples_of_the_oldest_pod_are_no_numbers() -> None:
    policy = views(InjectedFault(FaultKind.NOT_A_NUMBER, 100.0, 60.0))
    first, second = policy.views[-1].pods
    strange = [sample.at for sample in first.samples if isnan(sample.kv_usage)]
    assert strange == [sample.at for sample in first.samples if 100 <= sample.at < 160]
    assert len(strange) == 4
    assert all(isnan(sample.finished_total) for sample in first.samples if sample.at in strange)
    assert not any(isnan(sample.kv_usage) for sample in second.samples)


def replicas(loads: Sequence[int]) -> list[Replica]:
    agenda = Agenda()
    found = [Replica(number, engine(), agenda, 0.0, 0.0, lambda _: None) for number in range(len(loads))]
    for replica, load in zip(found, loads, strict=True):
        for _ in range(load):
            replica.receive(SimulatedRequest(Arrival(0.0, 10, 10)))
    return found


def chosen(routing: Routing, loads: Sequence[int]) -> Counter[int]:
    router = Router(routing, Random(1))  # noqa: S311 - a simulation
    ready = replicas(loads)
    return Counter(router.choose(ready, Arrival(0.0, 10, 10)).number for _ in range(600))


def test_requests_go_where_the_routing_says() -> None:
    assert set(chosen(Routing.LEAST_LOADED, [2, 0, 1, 0])) == {1, 3}
    assert set(chosen(Routing.LEAST_LOADED, [2, 1, 1, 0])) == {3}
    assert set(chosen(Routing.RANDOM, [2, 0, 1, 0])) == {0, 1, 2, 3}
    two = chosen(Routing.TWO_CHOICES, [0, 1, 2, 3])
    assert 3 not in two
    assert two[0] > two[1] > two[2] > 50
    assert set(chosen(Routing.TWO_CHOICES, [7])) == {0}
    assert chosen(Routing.ROUND_ROBIN, [9, 0, 1]) == {0: 200, 1: 200, 2: 200}


def token_seconds(asked: Scenario) -> list[float]:
    return [each.tpot_seconds or 0.0 for each in outcome(asked, Scripted()).answered]


def test_a_slow_pod_takes_longer_while_the_fault_lasts_and_others_do_not() -> None:
    arrivals = [Arrival(at, 1000, 100) for at in (10.0, 100.0, 200.0)]
    slow = InjectedFault(FaultKind.SLOW_POD, 50.0, 100.0, replicas=1, amount=10.0)
    alone = replace(scenario(*arrivals), faults=(slow,))
    times, usual = token_seconds(alone), token_seconds(replace(alone, faults=()))
    assert [found / expected for found, expected in zip(times, usual, strict=True)] == pytest.approx([1, 10, 1])
    two = replace(
        alone, start_replicas=2, arrivals=lambda _: [Arrival(100.0 + 1e-3 * index, 1000, 100) for index in (0, 1)]
    )
    assert sorted(round(each / usual[0]) for each in token_seconds(two)) == [1, 10]


def test_a_replica_is_replaced_by_one_that_serves_first_and_that_is_no_change_of_the_wish() -> None:
    orders = {20.0: Order(2, replaces=True), 40.0: Order(2, replaces=True, ends="pod-0"), 41.0: Order(2)}
    seen: dict[float, set[str]] = {}

    def policy(view: View) -> Order:
        seen[view.now] = {pod.name for pod in view.pods}
        return orders[max((at for at in orders if at <= view.now), default=20.0)]

    policy.tick_seconds = 1.0  # type: ignore[attr-defined]
    asked = replace(scenario(seconds=60), start_replicas=2, cold_start_seconds=10.0)
    found = run(asked, lambda _: cast("Policy", policy), "scripted", 1)
    assert (seen[1.0], seen[39.0], seen[45.0]) == (
        {"pod-0", "pod-1"},
        {"pod-0", "pod-1", "pod-2"},
        {"pod-1", "pod-2"},
    )
    assert found.changes == ()


def test_a_share_of_the_requests_sticks_to_the_oldest_pod() -> None:
    sticky = InjectedFault(FaultKind.STICKY, 0.0, 300.0, amount=0.5)
    policy = Scripted()
    asked = replace(scenario(seconds=1000), start_replicas=4, arrivals=poisson(4.0, 100, 10, 1000))
    outcome(replace(asked, faults=(sticky,), seconds=300), policy)
    served = [pod.samples[-1].first_tokens_total for pod in policy.views[-1].pods]
    assert served[0] / sum(served) == pytest.approx(0.5 + 0.5 / 4, abs=0.05)


def test_every_pod_may_report_a_full_cache_that_is_empty() -> None:
    fault = InjectedFault(FaultKind.FULL_CACHE, 100.0, 100.0, amount=0.97)
    policy = views(fault)
    reported = [(sample.at, sample.kv_usage) for pod in policy.views[-1].pods for sample in pod.samples]
    assert {use for at, use in reported if 100 <= at < 200} == {0.97}
    assert {use for at, use in reported if not 100 <= at < 200} == {0.0}


@pytest.mark.parametrize(("tries", "moments"), [(1, [0.0]), (3, [0.0, 4.0, 8.0])])
def test_a_client_that_gives_up_sends_its_request_again(tries: int, moments: list[float]) -> None:
    stuck = replace(scenario(Arrival(0.0, 4000, 10)), patience_seconds=4.0, tries=tries)
    slow = InjectedFault(FaultKind.SLOW_POD, 0.0, 300.0, amount=1e4)
    found = outcome(replace(stuck, faults=(slow,)), Scripted()).answered
    assert [each.arrival.at for each in found] == pytest.approx(moments, abs=0.1)
    assert {each.fate for each in found} == {Fate.GAVE_UP}
    served = outcome(replace(stuck, tries=3), Scripted()).answered
    assert [each.fate for each in served] == [Fate.SERVED]


def shared(stock: int, first: dict[float, int], second: dict[float, int]) -> tuple[Scripted, Scripted]:
    both = [Scripted(first), Scripted(second)]
    asked = replace(scenario(), stock=stock, neighbour=replace(scenario(), name="other"))
    found = run(asked, lambda each: both[each.name == "other"], "scripted", 1)
    assert found.neighbour is not None
    assert found.neighbour.scenario.name == "other"
    return both[0], both[1]


def test_two_deployments_share_a_stock_and_who_waits_is_placed_when_gpus_are_given_back() -> None:
    first, second = shared(4, {10.0: 3, 100.0: 1}, {20.0: 3})
    assert [pod.is_placed for pod in pods_at(first, 95.0)] == [True, True, True]
    assert [pod.is_placed for pod in pods_at(second, 95.0)] == [True, False, False]
    assert [pod.is_placed for pod in pods_at(second, 105.0)] == [True, True, True]
    assert [view.free for view in first.views if view.now in (5.0, 15.0, 105.0)] == [2, 0, 0]
    assert second.views[-1].pods[1].ready_since is not None


def test_a_stock_without_gpus_for_the_beginning_is_refused() -> None:
    with pytest.raises(ValueError, match="stock: 0 replicas, and 1 serve at the start"):
        shared(1, {}, {})
