"""However a scheduler answers: nobody moves for ever, and nobody else is moved or robbed for it."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plimsoll.domain.requests.serving import GpuConstraints
from plimsoll.placement.demands.pools import Decision, PoolState
from plimsoll.placement.demands.rehoming import MAX_REHOMINGS_PER_HOUR
from tests.laws.scheduled_world import Life, World, hours_of
from tests.support.planning import A100, H100, L4, L40S, fleet, node, request

pytestmark = pytest.mark.lengthy

KINDS = (H100, L40S, L4, A100, "a100-sxm-40gb", "h200-sxm-141gb", "a40-48gb")
PASSES = 200
ONE_GPU = GpuConstraints(max_per_replica=1)

counts = st.lists(st.integers(0, 4), min_size=len(KINDS), max_size=len(KINDS))
tenants = st.lists(st.tuples(st.booleans(), st.integers(1, 4)), min_size=2, max_size=3)


@given(counts, tenants, st.integers(0, 2**32))
@example([4] * len(KINDS), [(True, 2), (False, 3), (False, 1)], 7)
@settings(max_examples=6, deadline=None)
def test_whatever_the_scheduler_says_moves_are_few_and_the_honest_are_left_alone(
    gpus: list[int], who: list[tuple[bool, int]], seed: int
) -> None:
    where = fleet(*(node(kind, kind, count) for kind, count in zip(KINDS, gpus, strict=True) if count))
    lives = [
        Life(request(name=f"t{index}", created=str(index), replicas=replicas), honest)
        for index, (honest, replicas) in enumerate(who)
    ]
    world = World(where, lives, random.Random(seed))  # noqa: S311 - a test's dice
    settled: dict[str, dict[str, int]] = {}
    for _ in range(PASSES):
        decisions = world.step()
        assert all(not decision.failure for decision in decisions)
        assert all(world.held()[each.name] <= each.allocatable for each in where.nodes)
        for life in lives:
            if life.honest:
                check_undisturbed(life, settled)
    for life in lives:
        check_bounded(life)


@given(counts, tenants, st.integers(0, 2**32))
@example([1] * len(KINDS), [(False, 1), (True, 1)], 7)
@settings(max_examples=8, deadline=None)
def test_what_moves_without_a_quota_moves_with_a_quota_that_is_used_up(
    gpus: list[int], who: list[tuple[bool, int]], seed: int
) -> None:
    """The pod that finds no node ends before its successor is made: the quota never counts both."""
    where = fleet(*(node(kind, kind, count) for kind, count in zip(KINDS, gpus, strict=True) if count))
    free, bounded = (
        World(
            where,
            [
                Life(request(name=f"t{index}", created=str(index), replicas=replicas, constraints=ONE_GPU), honest)
                for index, (honest, replicas) in enumerate(who)
            ],
            random.Random(seed),  # noqa: S311 - a test's dice
            quota=quota,
        )
        for quota in (None, sum(replicas for _, replicas in who))
    )
    for _ in range(PASSES // 2):
        for without, within in zip(free.step(), bounded.step(), strict=True):
            assert (sizes(within), within.departures) == (sizes(without), without.departures)
        assert bounded.asked() <= (bounded.quota or 0)


def sizes(decision: Decision) -> list[tuple[str, PoolState, int]]:
    """The pools with their replicas. A quota may leave no room to start a replica more during an update."""
    return [(pool.name, pool.state, pool.replicas) for pool in decision.pools]


def check_undisturbed(life: Life, settled: dict[str, dict[str, int]]) -> None:
    """Every pod of it has a node, and what once ran is still there."""
    assert life.waits == {}
    assert life.departures == []
    before = settled.get(life.wanted.key.name, {})
    now = {pool.name: pool.replicas for pool in life.pools if pool.state is PoolState.ACTIVE}
    assert {name: now.get(name, 0) >= replicas for name, replicas in before.items()} == dict.fromkeys(before, True)
    settled[life.wanted.key.name] = now


def check_bounded(life: Life) -> None:
    """Few places are left in any hour, none is gone back to within it, so few pools are opened."""
    assert max((len(set(places)) for places in hours_of(life.departures)), default=0) <= MAX_REHOMINGS_PER_HOUR
    opened = max(map(len, hours_of(life.openings)), default=0)
    assert opened <= MAX_REHOMINGS_PER_HOUR * life.wanted.replicas + len(KINDS)
    for left_at, place in life.departures:
        assert [at for at, name in life.openings if name == place and left_at < at < left_at + 3600] == []


def test_a_scheduler_that_refuses_every_place_is_asked_a_few_times_and_then_waited_for() -> None:
    where = fleet(*(node(kind, kind, 4) for kind in KINDS))
    life, neighbour = Life(request(name="a"), honest=False), Life(request(name="b"), honest=True)
    world = World(where, [life, neighbour], NeverLucky())
    for _ in range(20):
        spent = world.step()[0].rehomings_spent
    assert len(life.departures) == MAX_REHOMINGS_PER_HOUR
    assert spent
    assert neighbour.openings == neighbour.openings[:1]
    world.now += 3600
    world.step()
    assert len(life.departures) == MAX_REHOMINGS_PER_HOUR + 1


class NeverLucky(random.Random):
    """Every pod of a deployment that is not honest finds its GPUs taken; a pass comes every second."""

    def choice(self, seq: object) -> object:  # type: ignore[override]
        return seq[1]  # type: ignore[index]

    def randint(self, a: int, b: int) -> int:
        assert a <= b
        return a
