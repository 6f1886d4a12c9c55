"""Whatever pods do in moves: what serves goes after its replacement serves, and no GPU is booked twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plimsoll.placement.demands.clocks import MOST_EXTENSIONS
from plimsoll.placement.demands.failed_moves import standing
from plimsoll.placement.demands.pools import Decision, PoolState, pool_name
from tests.laws.moving_world import MOVE_SECONDS, SPEC, Moving, MovingWorld
from tests.support.planning import H100, L4, L40S, fleet, node, request

pytestmark = pytest.mark.lengthy

PASSES = 40
KINDS = (L4, L40S, H100)

worlds = st.tuples(
    st.lists(st.integers(1, 4), min_size=len(KINDS), max_size=len(KINDS)),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(0, 2**32),
)


def world_of(counts: list[int], replicas: list[int], seed: int) -> MovingWorld:
    """A lucky deployment, and others that move."""
    where = fleet(*(node(kind, kind, count) for kind, count in zip(KINDS, counts, strict=True)))
    lives = [Moving(request(name="lucky", created="0"), lucky=True)]
    lives += [
        Moving(request(name=f"moves{index}", created=str(index + 1), replicas=count), lucky=False)
        for index, count in enumerate(replicas)
    ]
    return MovingWorld(where, lives, random.Random(seed))  # noqa: S311 - a test's dice


@given(worlds)
@example(([4, 4, 4], [2, 1], 7))
@example(([3, 3, 2], [3], 86950))  # a replica has no place, and one of an old pool gets its node late
@settings(max_examples=20, deadline=None)
def test_nothing_that_serves_goes_before_a_replacement_serves_and_no_gpu_is_booked_twice(
    drawn: tuple[list[int], list[int], int],
) -> None:
    world = world_of(*drawn)
    for _ in range(PASSES):
        before = {life.wanted.key.name: life.serving for life in world.lives}
        waiting, refused = stranded(world), closed(world)
        serve_on = {life.wanted.key.name: life.old_serves for life in world.lives}
        decided = world.step()
        for life in world.lives:
            name, wanted = life.wanted.key.name, life.wanted.replicas
            assert not decided[name].failure
            placed = wanted - decided[name].missing  # an old pool serves until those serve that have a place
            assert life.serving >= min(before[name], placed), f"{name} serves less than before"
            assert refused[name].isdisjoint(opened(decided[name])), f"{name} went back to a place that failed"
            assert life.clock is None or life.clock.due <= life.clock.began + MOST_EXTENSIONS * MOVE_SECONDS
            is_late = life.clock is not None and life.clock.is_over(world.now)
            assert not (is_late and serve_on[name]), "an old pool serves on although the time is over"
        assert_booked_once(world, decided, waiting)
        world.schedule()
    assert world.lives[0].serving >= min(1, world.lives[0].wanted.replicas)


def stranded(world: MovingWorld) -> Counter[tuple[str, str]]:
    """Pods without a node, for which no GPUs are kept, by deployment and pool."""
    return Counter(
        {
            (life.wanted.key.name, name): sum(pod.stranded for pod in pods)
            for life in world.lives
            for name, pods in life.pods.items()
        }
    )


def closed(world: MovingWorld) -> dict[str, set[str]]:
    """Pools that may not be opened in the next pass: time passes before it, so only long pauses count."""
    soon = world.now + 1200
    return {
        life.wanted.key.name: {pool_name(*each.place) for each in standing(life.failed, SPEC, soon)}
        - {pool.name for pool in life.pools}
        for life in world.lives
    }


def opened(decision: Decision) -> set[str]:
    return {pool.name for pool in decision.pools if pool.state is PoolState.ACTIVE}


def assert_booked_once(world: MovingWorld, decided: dict[str, Decision], waiting: Counter[tuple[str, str]]) -> None:
    """The GPUs that pods hold, and those kept for pods that are still to come, are never more than there are."""
    booked = world.held()
    for life in world.lives:
        for pool in decided[life.wanted.key.name].pools:
            without = sum(not pod.has_node for pod in life.pods[pool.name])
            booked[pool.gpu_type] += pool.split.gpus * max(0, without - waiting[life.wanted.key.name, pool.name])
    for each in world.where.nodes:
        assert booked[each.gpu.name] <= each.allocatable


def test_the_world_takes_moves_back_and_lets_others_come_up() -> None:
    """Otherwise the test above would prove nothing."""
    lives = []
    for seed in range(6):
        world = world_of([4, 4, 4], [1, 2], seed)
        for _ in range(PASSES):
            world.step()
            world.schedule()
        lives += world.lives[1:]
    assert sum(life.taken_back for life in lives) >= 3
    assert sum(life.came_up for life in lives) >= 3
