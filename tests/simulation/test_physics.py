"""Laws that every run must keep: of memory, of queues, and of counting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.simulation.batch import BLOCK_TOKENS, blocks_of
from plimsoll.simulation.result import Happening, SimulationResult
from plimsoll.simulation.run import ReplicaKind, ReplicaLimits
from plimsoll.simulation.simulate import simulate
from plimsoll.simulation.workload import Workload, arrivals
from tests.support.simulation_runs import HEAVY, LIGHT, kind, policy, simulation_run, with_limits
from tests.support.tables import every_case

LONG = Workload(1.0, 800, 1200, minutes=10)
"""Long answers: requests outgrow the cache while they run."""


def with_sequence_slots(number: int) -> ReplicaKind:
    """A replica whose sequence slots never bind, so that its cache does."""
    return with_limits(kind(), lambda limits: replace(limits, max_num_seqs=number))


def with_cache(tokens: int, slots: int = 256) -> ReplicaKind:
    """A replica with a KV cache of its own."""
    return with_limits(kind(), lambda limits: ReplicaLimits(tokens, slots, limits.max_batched_tokens))


def kinds_of(result: SimulationResult) -> set[Happening]:
    return {each.kind for each in result.events}


def test_a_load_below_capacity_never_queues() -> None:
    result = simulate(simulation_run(LIGHT))
    assert result.events == ()
    assert result.totals.gave_up == result.totals.lost == result.totals.preemptions == 0
    assert max(each.waiting for each in result.moments) <= 1  # a prompt waits for the end of a step
    assert "neither the KV cache" in result.summary


def test_a_load_above_capacity_fills_the_replica_and_clients_give_up() -> None:
    result = simulate(simulation_run(HEAVY))
    assert kinds_of(result) >= {Happening.SLOTS_FULL, Happening.GAVE_UP}
    assert result.totals.gave_up > 0
    assert "the sequence slots fill after" in result.summary


def test_the_cache_is_that_of_the_memory_law() -> None:
    found = kind()
    moment = simulate(simulation_run(LIGHT)).moments[-1]
    assert found.limits.kv_tokens == found.place.figures.kv_capacity_tokens
    assert moment.hold_tokens == found.limits.kv_tokens // BLOCK_TOKENS * BLOCK_TOKENS


def test_cache_in_use_is_that_of_the_running_requests() -> None:
    same = replace(HEAVY, spread=0.0)
    least, most = (blocks_of(tokens) * BLOCK_TOKENS for tokens in (800, 800 + 300))
    moments = simulate(simulation_run(same)).moments
    assert max(each.running for each in moments) == kind().limits.max_num_seqs
    for each in moments:
        assert each.running * least <= each.held_tokens <= each.running * most
        assert each.held_tokens <= each.hold_tokens
        assert each.running <= each.sequence_slots


@every_case("workload", [LIGHT, HEAVY, LONG], most=4, always=["4-1-workload1", "1-1-workload2"])
@every_case("seed", [1, 2])
@every_case("most", [1, 4])
def test_no_request_is_made_or_lost_from_count(workload: Workload, seed: int, most: int) -> None:
    asked = simulation_run(workload, policy(most), seed=seed)
    totals = simulate(asked).totals
    assert totals.arrived == len(arrivals(workload, asked.kind.room_tokens, seed))
    assert totals.arrived == totals.served + totals.gave_up + totals.lost + totals.under_way


@every_case("seed", [1, 2, 3])
@every_case("rate", [0.2, 1.0])
def test_twice_the_cache_serves_no_less(seed: int, rate: float) -> None:
    workload = replace(LONG, requests_per_second=rate)
    once, twice = (
        simulate(simulation_run(workload, found=with_cache(tokens), seed=seed)) for tokens in (16_384, 32_768)
    )
    assert twice.totals.served > once.totals.served
    assert twice.totals.gave_up < once.totals.gave_up
    assert once.totals.ttft is not None
    assert twice.totals.ttft is not None
    assert twice.totals.ttft.median < 1.01 * once.totals.ttft.median  # under overload, both are nearly the patience


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cache_that_is_twice_as_large_preempts_less_where_it_is_large_enough(seed: int) -> None:
    workload = replace(LONG, requests_per_second=0.1)
    once, twice = (
        simulate(simulation_run(workload, found=with_cache(tokens), seed=seed)) for tokens in (16_384, 32_768)
    )
    assert once.totals.preemptions > twice.totals.preemptions


def test_nothing_is_preempted_while_the_cache_has_room() -> None:
    roomy = simulate(simulation_run(LONG, found=with_cache(1_000_000)))
    assert roomy.totals.preemptions == 0
    assert max(each.fullest for each in roomy.moments) < 1
    assert Happening.PREEMPTION not in kinds_of(roomy)


def test_requests_are_preempted_only_when_the_cache_was_full() -> None:
    moments = simulate(replace(simulation_run(LONG, found=with_cache(16_384)), sample_seconds=1.0)).moments
    struck = [number for number, each in enumerate(moments) if each.preemptions]
    assert struck
    for number in struck:
        assert max(each.fullest for each in moments[max(0, number - 1) : number + 1]) > 0.85


def test_a_full_cache_and_full_slots_are_told_apart() -> None:
    assert Happening.CACHE_FULL in kinds_of(simulate(simulation_run(LONG, found=with_cache(16_384))))
    slots = simulate(simulation_run(HEAVY, found=with_cache(1_000_000, slots=8)))
    assert Happening.SLOTS_FULL in kinds_of(slots)
    assert Happening.CACHE_FULL not in kinds_of(slots)


def test_a_shared_prefix_makes_first_tokens_faster() -> None:
    long = Workload(0.5, 3000, 50, spread=0.2, minutes=10)
    cold, warm = (
        simulate(simulation_run(replace(long, shared_prefix_tokens=tokens))).totals.ttft for tokens in (0, 2500)
    )
    assert cold is not None
    assert warm is not None
    assert warm.median < cold.median


def test_the_same_run_has_the_same_result_and_another_seed_another() -> None:
    assert simulate(simulation_run(HEAVY, policy())) == simulate(simulation_run(HEAVY, policy()))
    assert simulate(simulation_run(HEAVY, policy())) != simulate(simulation_run(HEAVY, policy(), seed=2))


def test_moments_are_evenly_apart_and_end_with_the_run() -> None:
    moments = simulate(simulation_run(LIGHT)).moments
    assert [each.at for each in moments] == [15.0 * number for number in range(81)]
