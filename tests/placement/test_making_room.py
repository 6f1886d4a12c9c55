"""Room at others for one more replica: nothing is promised that planning after the changes would not give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.host import HostNeed, HostRoom
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.proposals import Proposal, ProposalReason
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, Overrides
from plimsoll.placement.demands.pools import PoolState, Tenant
from plimsoll.placement.proposing import proposals
from plimsoll.placement.proposing.proposals import Neighbours, room_for
from plimsoll.placement.proposing.running import Running
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import Plan, Room
from tests.support.planning import H100, fleet, node, pool, request, tenant
from tests.support.tables import examples
from tests.support.world_plans import planned

LEAST_SECONDS = 180

GOLD, LOW = ObjectKey("ns", "gold"), ObjectKey("ns", "low")
HIGH = Priority(10, preempts=True)


def deployment(key: ObjectKey, replicas: int, gpus: int = 1, **changes: Any) -> Tenant:
    wanted = request(
        key=key,
        replicas=replicas,
        overrides=Overrides(tensor_parallel=gpus),
        constraints=GpuConstraints(allow=(H100,)),
    )
    return tenant(wanted, pool(H100, gpus, replicas), **changes)


def replica(of: Tenant, where: str, **changes: Any) -> Running:
    [own] = of.pools
    return Running(of.request.key, own.target, where, of.priority.value, price=Decimal(2), **changes)


def one_more(plan: Plan) -> Answer:
    gold = plan.tenants[GOLD]
    return plan.ask(replace(gold, request=gold.request.with_replicas(gold.request.replicas + 1)))


def found(plan: Plan, running: Sequence[Running], **spare: int) -> Room | None:
    return room_for(
        plan, one_more(plan), Neighbours(tuple(running), {ObjectKey("ns", key): n for key, n in spare.items()})
    )


def room(plan: Plan, running: Sequence[Running], **spare: int) -> Room:
    made = found(plan, running, **spare)
    assert made is not None
    return made


FULL = fleet(node("a", H100, 3, held=3))
GOLD_RUNS = deployment(GOLD, 1, priority=HIGH)


def two_of_low(**changes: Any) -> tuple[Plan, list[Running]]:
    low = deployment(LOW, 2, **changes)
    return planned([GOLD_RUNS, low], FULL), [replica(GOLD_RUNS, "a"), replica(low, "a"), replica(low, "a")]


def test_a_replica_of_lower_priority_would_make_room_and_the_plan_after_it_is_given() -> None:
    plan, running = two_of_low()
    made = room(plan, running, low=1)
    assert made.proposal.reason == ProposalReason.PREEMPT_LOWER_PRIORITY
    [change] = made.proposal.changes
    assert (change.owner, change.leaving.replicas, change.to) == (LOW, 1, None)
    assert [(each.replicas, each.state) for each in made.then.pools] == [(2, PoolState.ACTIVE)]
    assert made.then.missing == 0
    assert [(each.target.place, each.replicas) for each in made.proposal.after] == 2 * [((H100, Split(1)), 1)]
    assert one_more(plan).decision.missing == 1, "nothing was changed by the look"


@pytest.mark.parametrize(
    ("priority", "spare", "is_found"),
    [(9, 1, True), (10, 1, False), (11, 1, False), (9, 0, False)],
    ids=["lower", "equal", "higher", "at its floor"],
)
def test_nobody_of_equal_or_higher_priority_and_nobody_at_its_floor_is_asked(
    priority: int, spare: int, *, is_found: bool
) -> None:
    plan, running = two_of_low(priority=Priority(priority))
    assert (found(plan, running, low=spare) is not None) is is_found


def test_without_the_admin_s_word_nobody_ends() -> None:
    low, gold = deployment(LOW, 2), deployment(GOLD, 1, priority=Priority(10))
    plan = planned([gold, low], FULL)
    assert found(plan, [replica(low, "a"), replica(low, "a")], low=2) is None


def waiting(name: str, **changes: Any) -> Tenant:
    """A deployment of high priority with one replica that serves, and one more that has no place."""
    one = deployment(ObjectKey("ns", name), 1, priority=HIGH, **changes)
    return replace(one, request=one.request.with_replicas(2))


@pytest.mark.parametrize(("count", "asked"), [(1, 1), (5, 5), (6, 5)])
def test_proposals_are_looked_for_of_the_first_five_that_wait(count: int, asked: int) -> None:
    low = deployment(LOW, 2)
    names = [f"gold-{index}" for index in range(count)]
    plan = planned([*map(waiting, names), low], fleet(node("a", H100, count + 2, held=count + 2)))
    made = proposals.proposals(plan, [replica(low, "a"), replica(low, "a")])
    assert [key.name for key in made] == names[:asked]
    assert {change.owner for each in made.values() for proposal in each for change in proposal.changes} == {LOW}


def test_for_a_suspended_deployment_nobody_makes_room() -> None:
    low = deployment(LOW, 2)
    plan = planned([waiting("gold", suspended=True), low], FULL)
    assert proposals.proposals(plan, [replica(low, "a"), replica(low, "a")]) == {}


TWO = fleet(node("a", H100, 8, held=1), node("b", H100, 8, held=2), node("c", H100, 8, held=8))


def whole_nodes() -> tuple[Plan, list[Running]]:
    gold, low, pair = deployment(GOLD, 1, gpus=8), deployment(LOW, 1), deployment(ObjectKey("ns", "pair"), 1, gpus=2)
    plan = planned([gold, low, pair], TWO)
    return plan, [replica(gold, "c"), replica(low, "a", startup_seconds=400.0), replica(pair, "b")]


def test_a_move_makes_room_for_a_whole_node_whatever_the_floors_and_priorities_are() -> None:
    plan, running = whole_nodes()
    made = room(plan, running)
    assert made.proposal.reason == ProposalReason.DEFRAGMENT_NODE
    [change] = made.proposal.changes
    assert (change.owner, change.node, change.to) == (LOW, "a", "b")
    assert [(each.split.gpus, each.replicas) for each in made.then.pools] == [(8, 2)]


def test_a_moved_replica_starts_before_the_old_one_ends_and_both_take_time() -> None:
    plan, running = whole_nodes()
    assert room(plan, running).seconds == 400 + 90
    unknown = [replace(each, startup_seconds=None) for each in running]
    assert room(plan, unknown).seconds == LEAST_SECONDS + 90


def test_the_time_of_running_requests_is_that_of_the_pool() -> None:
    low = deployment(LOW, 2)
    slow = replace(low, pools=(replace(low.pools[0], drain_seconds=330),))
    plan = planned([GOLD_RUNS, slow], FULL)
    assert room(plan, 2 * [replica(slow, "a")], low=1).seconds == 330


def test_a_node_that_lacks_memory_for_the_moved_replica_is_no_way_out() -> None:
    plan, running = whole_nodes()
    needs = [replace(each, need=HostNeed(1000, 10)) if each.owner == LOW else each for each in running]
    assert found(plan, needs) is not None
    small = HostRoom(cpu_millis=0, memory_bytes=0, pods=9)
    nodes = [replace(each, host=small, host_free=small) if each.name == "b" else each for each in TWO.nodes]
    tight = planned(list(plan.tenants.values()), fleet(*nodes))
    assert found(tight, needs) is None


def test_a_proposal_that_makes_no_room_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, running = two_of_low()
    real = room(plan, running, low=1).proposal
    monkeypatch.setattr(proposals, "proposals_for", lambda *_: (real,))
    assert found(plan, running, low=1) is not None
    monkeypatch.setattr(proposals, "proposals_for", lambda *_: (_elsewhere(real), _gone(real)))
    assert found(plan, running, low=1) is None


def _elsewhere(proposal: Proposal) -> Proposal:
    """Return the proposal with a replica that leaves for where it is."""
    return replace(proposal, changes=tuple(replace(each, to=each.node) for each in proposal.changes))


def _gone(proposal: Proposal) -> Proposal:
    """Return the proposal about a node that the fleet does not have."""
    return replace(proposal, changes=tuple(replace(each, node="gone") for each in proposal.changes))


@dataclass(frozen=True)
class World:
    """GPUs of each node, who stands where (owner, node, GPUs), and by owner its priority and what it can do without."""

    nodes: tuple[int, ...]
    stands: tuple[tuple[str, int, int], ...]
    priorities: dict[str, int]
    spare: dict[str, int]
    gpus: int


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Fleets with little that is free, so that somebody has to make room."""
    free = draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
    stands = draw(
        st.lists(
            st.tuples(st.sampled_from("xyz"), st.integers(0, len(free) - 1), st.sampled_from([1, 1, 2])),
            min_size=1,
            max_size=8,
        )
    )
    held = Counter(dict.fromkeys(range(len(free)), 0))
    for _, where, gpus in stands:
        held[where] += gpus
    return World(
        nodes=tuple(held[index] + more for index, more in enumerate(free)),
        stands=tuple(stands),
        priorities={name: draw(st.sampled_from([0, 5, 10, 20])) for name in "xyz"},
        spare={name: draw(st.integers(0, 2)) for name in "xyz"},
        gpus=draw(st.sampled_from([1, 2, 4])),
    )


def plan_of(world: World) -> tuple[Plan, list[Running]]:
    """The deployment that asks has one replica on a node of its own; each owner has a pool for each size."""
    gold = deployment(GOLD, 1, world.gpus, priority=HIGH)
    held: Counter[int] = Counter()
    count: Counter[tuple[str, int]] = Counter()
    for name, where, gpus in world.stands:
        held[where] += gpus
        count[name, gpus] += 1
    nodes = [node(f"n{index}", H100, gpus, held=held[index]) for index, gpus in enumerate(world.nodes)]
    others = {
        (name, gpus): deployment(
            ObjectKey("ns", f"{name}{gpus}"), number, gpus, priority=Priority(world.priorities[name])
        )
        for (name, gpus), number in sorted(count.items())
    }
    running = [replica(others[name, gpus], f"n{where}") for name, where, gpus in world.stands]
    home = node("home", H100, world.gpus, held=world.gpus)
    return planned([gold, *others.values()], fleet(*nodes, home)), [replica(gold, "home"), *running]


@settings(max_examples=examples(60), deadline=None)
@given(worlds())
def test_room_that_is_found_is_room_and_takes_from_nobody_who_must_not_give(world: World) -> None:
    plan, running = plan_of(world)
    lacking = one_more(plan)
    if not lacking.decision.missing:
        return
    spare = {f"{name}{gpus}": world.spare[name] for name in "xyz" for gpus in (1, 2)}
    made = found(plan, running, **spare)
    assert made == found(plan, running, **spare)
    assert plan.ask(lacking.tenant).decision.missing == 1, "the plan itself is as it was"
    if made is None:
        return
    assert made.then.missing == 0
    ended: Counter[str] = Counter()
    free = {each.name: each.free for each in plan.left.fleet.nodes}
    for change in made.proposal.changes:
        free[change.node] += change.leaving.replicas * change.leaving.target.split.gpus
        if change.to is None:
            ended[change.owner.name] += change.leaving.replicas
        else:
            assert free[change.to] >= change.leaving.target.split.gpus, "the new one starts before the old one ends"
            assert change.to != change.node
            free[change.to] -= change.leaving.target.split.gpus
    assert max(free.values()) >= world.gpus
    for name, number in ended.items():
        assert number <= spare[name]
        assert world.priorities[name[0]] < HIGH.value


@pytest.mark.parametrize(
    ("willing", "is_open", "carried_out"),
    [((LOW,), (LOW,), (True, True)), ((LOW,), (), (True, False)), ((), (LOW,), (False, False)), ((GOLD,), (), None)],
    ids=["at once", "not yet", "by people", "only itself"],
)
def test_what_others_let_an_approval_do_is_carried_out_and_the_rest_people_do(
    willing: tuple[ObjectKey, ...], is_open: tuple[ObjectKey, ...], carried_out: tuple[bool, bool] | None
) -> None:
    plan, running = two_of_low()
    running = [each for each in running if each.owner == LOW] if willing != (GOLD,) else running
    neighbours = Neighbours(tuple(running), {LOW: 1}, frozenset(willing), frozenset(is_open))
    made = room_for(plan, one_more(plan), neighbours)
    assert made is not None
    assert (made.proposal.by_loop, made.is_open) == (carried_out or (False, False))
