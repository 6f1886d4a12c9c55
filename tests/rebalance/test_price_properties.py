"""Moves for the price end: for all prices, fleets and loads, none leads back to a place that was left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.pools import Pool, Tenant
from plimsoll.rebalance.decide import decide
from plimsoll.rebalance.places.sites import model_at
from plimsoll.rebalance.state.decisions import DecisionReason, Move
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.situation import DeclaredNeed, Situation
from tests.support import live_situations as live
from tests.support.engine_loads import Serves
from tests.support.live_situations import AUTO
from tests.support.other_places import DUE, looks, place_after, plan_of
from tests.support.planning import A100, H100, L4, L40S, fleet, gpu, node, pool, request, tenant
from tests.support.tables import examples

KINDS = (H100, A100, L40S, L4)
MOST = replace(AUTO, max_replicas=40)
MOST_MOVES = 12


@dataclass(frozen=True)
class World:
    """Prices in cents an hour and GPUs of each type, the load, and how slow engines turn out to be on each type."""

    prices: dict[str, int]
    gpus: dict[str, int]
    rate: float
    prompt: float
    output: float
    cached: float = 0.0
    slowness: dict[str, float] | None = None

    def fleet(self, held: Pool) -> Fleet:
        """The fleet in which one pool holds its GPUs."""
        taken = {held.gpu_type: held.replicas * held.split.gpus}
        types = {kind: gpu(kind, price=str(self.prices[kind] / 100)) for kind in KINDS}
        return fleet(
            *(
                node(f"{kind}-{number}", types[kind], 8, held=max(0, min(8, taken.get(kind, 0) - 8 * number)))
                for kind in KINDS
                for number in range(-(-(self.gpus[kind] + taken.get(kind, 0)) // 8))
            )
        )

    def slow(self, kind: str, expected: float) -> float:
        """How slow engines are on a type: as expected where nothing else is given."""
        return expected if self.slowness is None else self.slowness[kind]


ROOM = dict.fromkeys(KINDS, 160)
prices = st.fixed_dictionaries({kind: st.integers(5, 600) for kind in KINDS})
worlds = st.builds(
    World,
    prices=prices,
    gpus=st.just(ROOM),
    rate=st.floats(0.05, 40),
    prompt=st.sampled_from([200.0, 1000.0, 3000.0]),
    output=st.sampled_from([20.0, 200.0, 600.0]),
)
rough_worlds = st.builds(
    World,
    prices=prices,
    gpus=st.fixed_dictionaries({kind: st.sampled_from([0, 1, 4, 30]) for kind in KINDS}),
    rate=st.floats(0.05, 40),
    prompt=st.sampled_from([200.0, 1000.0, 3000.0]),
    output=st.sampled_from([20.0, 200.0, 600.0]),
    cached=st.sampled_from([0.0, 0.6]),
    slowness=st.fixed_dictionaries({kind: st.sampled_from([0.7, 1.0, 1.0, 1.6, 2.8]) for kind in KINDS}),
)
starts = st.tuples(st.sampled_from(KINDS), st.sampled_from([1, 1, 2]), st.integers(1, 8))


def moves(world: World, start: tuple[str, int, int]) -> Iterator[tuple[str, int]]:
    """Yield the places to which a deployment moves one after the other. No cool-down holds it back."""
    kind, degree, replicas = start
    memory = LoopMemory(pool=pool(kind, degree).name)
    for _ in range(MOST_MOVES):
        one = runs(request(replicas=replicas), kind, degree)
        memory = replace(memory.about(one.pools[0].name), sought=None)
        memory = replace(memory, slowness=world.slow(kind, memory.slowness), compared_at=DUE)
        decided = decide(
            situation(world, one, memory), plan_of(one, world.fleet(one.pools[0])).what_if(one.request.key)
        )
        if not isinstance(decided.decision, Move) or decided.decision.reason is not DecisionReason.CHEAPER_PLACE:
            return
        expected = decided.memory.slowness_at(pool(*next(iter(place_after(decided)))).name)
        [((kind, degree), replicas)] = place_after(decided).items()
        memory = replace(decided.memory.about(pool(kind, degree).name), slowness=expected)
        yield kind, degree


def runs(wanted: Request, kind: str, degree: int) -> Tenant:
    return tenant(wanted, pool(kind, degree, wanted.replicas))


def situation(world: World, one: Tenant, memory: LoopMemory) -> Situation:
    """The calm load of a deployment at its place, with the replicas that it has."""
    [active] = one.pools
    found = plan_of(one, world.fleet(active)).decisions[one.request.key].choice
    model = None if found is None else model_at(one.request, found)
    each = Serves(
        rate=world.rate / active.replicas,
        prompt=world.prompt,
        output=world.output,
        cached=world.cached,
        token_seconds=0.001,
        running=2,
        kv_usage=0.0,  # a fixed share would make the same requests larger at a place with a larger cache
        capacity=None if model is None else model.kv_tokens,
    )
    seen = looks(world.rate, enough=active.replicas, now=DUE)
    return live.situation(
        *[each] * active.replicas,
        memory=replace(memory, looks=seen),
        policy=MOST,
        need=DeclaredNeed(0, 0),
        now=DUE,
        model=model,
        most_sequences=None,
    )


@settings(max_examples=examples(60), deadline=None)
@given(worlds, starts)
def test_a_move_for_the_price_is_followed_by_no_other_one(world: World, start: tuple[str, int, int]) -> None:
    assert len(list(moves(world, start))) <= 1


@settings(max_examples=examples(60), deadline=None)
@given(rough_worlds, starts)
def test_no_move_for_the_price_leads_back_whatever_is_learned_after_it(
    world: World, start: tuple[str, int, int]
) -> None:
    """GPUs are scarce, and engines are as slow as nobody expected: a second move may follow, and no return."""
    visited = [start[:2], *moves(world, start)]
    assert len(set(visited)) == len(visited)
    assert len(visited) < MOST_MOVES


def test_such_worlds_do_have_moves() -> None:
    """Without this, the properties above could hold because nothing ever moves."""
    cents = {H100: 300, A100: 160, L40S: 115, L4: 42}
    assert list(moves(World(cents, ROOM, 0.5, 1000.0, 200.0), (H100, 1, 1))) == [(L4, 2)]
