"""Laws of hypotheses: whatever several deployments wish at once, every accepted wish has its place at nobody's cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.proposals import Share
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, ObservedCapacity, Request
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, Tenant
from plimsoll.placement.plan import plan
from plimsoll.placement.transition.hypothesis import Plan
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import PodState, SignalState
from plimsoll.rebalance.signals.traffic import Rate, Traffic
from plimsoll.rebalance.state.decisions import AddReplica, Move, RemoveReplica
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.rebalance.state.situation import DeclaredNeed, PlacementState, Situation
from tests.laws.room import is_within
from tests.support.live_situations import enough_for
from tests.support.planning import H100, L4, L40S, LLAMA_8B, LLAMA_70B_FP8, fleet, node, request
from tests.support.tables import examples
from tests.support.world_plans import planned

pytestmark = pytest.mark.lengthy

NOW = 1_700_000_000.0
POLICY = RebalancePolicy(mode=Mode.AUTO, max_replicas=99)
HELD = 1000
WISHES = ("more", "less", "elsewhere", "nothing")
LONG = 2 * POLICY.cooldown_seconds


def situation(replicas: int, wish: str) -> Situation:
    """One in which a deployment wishes this, and all its replicas serve."""
    fresh = tuple(PodState(f"{index}", SignalState.FRESH, 1.0) for index in range(replicas))
    used = {"more": 1.2 * replicas * HELD, "less": 0.0}.get(wish, 0.7 * replicas * HELD)
    rates = Rate(1.0, 120.0), Rate(1.0, 60.0), Rate(1.0, 30.0), Rate(1.0, 15.0)
    seen = (
        Traffic(replicas, *rates, None, 0.0, float(replicas), used, None, None, 0.0, None, (), NOW)
        if replicas
        else None
    )
    smallest = 0 if wish == "elsewhere" else None
    load = LoadSummary(SignalState.FRESH, fresh, seen, replicas * HELD, smallest)
    placement = PlacementState(replicas, replicas, kv_capacity_tokens=0, budget_bytes_per_gpu=0)
    memory = enough_for(max(1, replicas - 1), LONG, now=NOW)
    need = DeclaredNeed(int(wish == "elsewhere"), 0)
    return Situation(need, placement, load, ChangeHistory(), NOW, POLICY, memory)


@st.composite
def deployments(draw: st.DrawFn, name: str) -> Request:
    """One that fits most GPUs, on one of them or on several."""
    model = draw(st.sampled_from((LLAMA_8B, LLAMA_8B, LLAMA_70B_FP8)))
    kinds = draw(st.sampled_from(((), (), (L40S,), (L40S, H100))))
    return request(
        model,
        name=name,
        context=draw(st.sampled_from((2048, 16_384))),
        created=draw(st.sampled_from("12")),
        replicas=draw(st.integers(1, 3)),
        constraints=GpuConstraints(allow=kinds),
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Tenant], Fleet]:
    """Deployments of which some run, some have just been created, and some have grown too large for their place."""
    kinds = draw(st.lists(st.sampled_from((L4, L40S, H100)), min_size=2, max_size=5))
    where = fleet(*(node(f"n{index}", kind, draw(st.integers(1, 8))) for index, kind in enumerate(kinds)))
    wanted = [draw(deployments(name)) for name in "abcd"]
    first = plan([Tenant(each, 1) for each in wanted[:3]], where)
    run = [_running(decision, draw(st.booleans()), draw(st.integers(0, 1))) for decision in first]
    return [*run, Tenant(wanted[3], 1)], where


def _running(decision: Decision, outgrown: bool, more: int) -> Tenant:  # noqa: FBT001
    """The deployment as the next pass finds it; the GPUs of its pods are promised to it."""
    pools = tuple(map(_waiting, decision.pools))
    seen = tuple(ObservedCapacity(each.gpu_type, each.split, 0) for each in pools) if outgrown else ()
    wanted = replace(decision.request, observed=seen, replicas=decision.request.replicas + more)
    return Tenant(wanted, 1, pools)


def _waiting(pool: PlannedPool) -> Pool:
    return Pool(pool.name, pool.target, PoolState.ACTIVE, pool.generation, pool.replicas)


def turns(plan: Plan, wishes: dict[ObjectKey, str]) -> tuple[Plan, dict[ObjectKey, LoopResult]]:
    """All deployments take their turn as in a pass."""
    done: dict[ObjectKey, LoopResult] = {}
    for key in plan.decisions:
        about = plan.what_if(key)
        done[key] = decide(situation(about.tenant.request.replicas, wishes[key]), about)
        answer = done[key].answer
        if answer is not None:
            plan = plan.adopted(answer)
    return plan, done


wishes = st.lists(st.sampled_from(WISHES), min_size=4, max_size=4)


@given(worlds(), wishes)
@settings(max_examples=examples(150), deadline=None)
def test_every_accepted_wish_has_its_place_and_nobody_loses_one(
    world: tuple[list[Tenant], Fleet], wished: list[str]
) -> None:
    tenants, where = world
    base = planned(tenants, where)
    after, done = turns(base, {each.request.key: wish for each, wish in zip(tenants, wished, strict=True)})
    assert is_within(tuple(after.decisions.values()), where)
    for key, decided in done.items():
        before, now = base.decisions[key], after.decisions[key]
        event(f"{type(decided.decision).__name__}{decided.decision.reason}")
        if decided.answer is None:
            assert now is before, "what has no accepted wish has what the plan gave it"
            continue
        assert now is decided.answer.decision
        assert decided.proposal is not None
        assert placed(decided.proposal.after) == serving(now)
        assert placed(decided.proposal.before) == serving(before)
        if isinstance(decided.decision, RemoveReplica):
            assert now.request.replicas == before.request.replicas - decided.decision.count
            assert now.missing <= before.missing
            had = sum(serving(before).values())
            assert min(now.request.replicas, had) <= sum(serving(now).values()) <= now.request.replicas
        else:
            assert sum(serving(now).values()) == now.request.replicas
            assert (now.missing, now.change_blocked) == (0, False)
            more = decided.decision.count if isinstance(decided.decision, AddReplica) else 0
            assert isinstance(decided.decision, AddReplica | Move)
            assert now.request.replicas == before.request.replicas + more


@given(worlds())
@settings(max_examples=examples(150), deadline=None)
def test_to_ask_for_what_one_has_gives_what_one_has(world: tuple[list[Tenant], Fleet]) -> None:
    tenants, where = world
    base = planned(tenants, where)
    for key, tenant in base.tenants.items():
        again, before = base.ask(tenant), base.decisions[key]
        assert sizes(again.decision) == sizes(before)
        assert again.decision.missing == before.missing
        assert sum(base.adopted(again).left.ledger.free.values()) == sum(base.left.ledger.free.values())


@given(worlds())
@settings(max_examples=examples(60), deadline=None)
def test_without_a_wish_the_turns_leave_the_plan_as_it_is(world: tuple[list[Tenant], Fleet]) -> None:
    tenants, where = world
    after, _ = turns(planned(tenants, where), {each.request.key: "nothing" for each in tenants})
    assert tuple(after.decisions.values()) == plan(tenants, where)


def sizes(decision: Decision) -> Counter[tuple[str, PoolState]]:
    return Counter({(pool.name, pool.state): pool.replicas for pool in decision.pools})


def serving(decision: Decision) -> Counter[tuple[str, Split]]:
    active = (pool for pool in decision.pools if pool.state is PoolState.ACTIVE and pool.replicas)
    return Counter({pool.place: pool.replicas for pool in active})


def placed(side: Iterable[Share]) -> Counter[tuple[str, Split]]:
    return Counter({each.target.place: each.replicas for each in side})
