"""Engines as candidates: the choice is the better of the fixed choices, and an engine that refuses harms no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plimsoll.adapters.highs import fleetwide
from plimsoll.api.conversion.engines import request_on_engines
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.outcomes import Fit
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineRefusal, EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.public_words import EngineReason
from plimsoll.domain.requests.serving import Request, TotalLoad
from plimsoll.engines.registry import ENGINES
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, SeenAnswers, Tenant, running_engine
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import Solver
from plimsoll.placement.solvers.greedy import solve_greedily
from tests.support.bodies import inference_deployment_body
from tests.support.planning import A100, H100, L4, L40S, LLAMA_8B, fleet, model, node, pool, request, tenant
from tests.support.toy_engine import ABACUS

RELEASES = {"vllm": (0, 32), "sglang": (0, 5, 23), "abacus": (2, 1)}
DEEPSEEK_V4 = "deepseek-ai/DeepSeek-V4-Flash"
"""SGLang keeps its compressed caches in pools that no law covers."""

ROOMY = fleet(node("a", L4, 2), node("b", L40S, 4), node("c", A100, 4), node("d", H100, 8))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, ABACUS.name, ABACUS)


def on(engine: str, wanted: Request, rank: int = 0) -> Request:
    return replace(wanted, engine=EngineChoice(EngineVersion(*RELEASES[engine]), name=engine), engine_rank=rank)


def named(wanted: Request, name: str) -> Request:
    return replace(wanted, key=wanted.key._replace(name=name))


def open_to(engines: Sequence[str], wanted: Request, *, ranked: bool = False) -> Request:
    first, *others = (on(engine, wanted, index if ranked else 0) for index, engine in enumerate(engines))
    return replace(first, others=tuple(others))


def decided(wanted: Request, where: Fleet, solver: Solver | None = None) -> Decision:
    (decision,) = plan([Tenant(wanted, 1)], where, solver=solver or fleetwide())
    assert not decision.failure, decision.failure
    return decision


def points(decision: Decision, rank: int) -> tuple[float, int, float, float, int]:
    """Return the points of the order by which a decision is judged, from its pools alone."""
    wanted, placed = decision.request.replicas, [each for each in decision.pools if each.choice is not None]
    doubts = bill = 0.0
    for each in placed:
        option = each.choice
        assert option is not None
        is_doubted = option.estimate.fit_by_figures is Fit.SURE and option.estimate.fit is not Fit.SURE
        doubts += each.replicas * (option.doubts + is_doubted)
        bill += each.replicas * (1000.0 * option.split.gpus if option.cost is None else float(option.cost))
    return decision.missing / wanted, rank, doubts / wanted, round(bill, 6), wanted


ENGINE_SETS = st.lists(st.sampled_from([*RELEASES]), min_size=1, max_size=3, unique=True)
FLEETS = st.dictionaries(st.sampled_from([L4, L40S, A100, H100]), st.sampled_from([1, 2, 4, 8]), min_size=1).map(
    lambda found: fleet(*(node(name, name, gpus) for name, gpus in found.items()))
)
WISHES = st.builds(
    lambda context, concurrency, replicas, objective: request(
        context=context, concurrency=concurrency, replicas=replicas, objective=objective
    ),
    st.sampled_from([2048, 8192, 32768]),
    st.sampled_from([1, 4, 16, 64]),
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from([*Objective]),
)


@settings(max_examples=40, deadline=None)
@example(  # on one of the engines, a mix of both types costs less than any single place on any engine
    engines=["vllm", "sglang", "abacus"],
    where=fleet(node("a", L4, 1), node("b", L40S, 2)),
    wanted=request(context=2048, concurrency=16, replicas=2),
    ranked=False,
    greedy=False,
)
@given(engines=ENGINE_SETS, where=FLEETS, wanted=WISHES, ranked=st.booleans(), greedy=st.booleans())
def test_the_choice_is_the_better_one_of_the_fixed_choices(
    *, engines: list[str], where: Fleet, wanted: Request, ranked: bool, greedy: bool
) -> None:
    solver: Solver = solve_greedily if greedy else fleetwide()
    fixed = {engine: decided(on(engine, wanted), where, solver) for engine in engines}
    best = min(engines, key=lambda each: points(fixed[each], engines.index(each) if ranked else 0))
    found = decided(open_to(engines, wanted, ranked=ranked), where, solver)
    chosen = found.request.engine.name
    rank = engines.index(chosen) if ranked else 0
    assert points(found, rank) == points(fixed[best], engines.index(best) if ranked else 0)
    own, theirs = found.pools, fixed[chosen].pools
    assert [(each.place, each.replicas) for each in own] == [(each.place, each.replicas) for each in theirs]
    assert {each.engine for each in own} <= {chosen}
    assert found.request.others == ()
    if len(engines) > 1:
        assert found.engines[0].engine == chosen
        assert {each.engine for each in found.engines} == set(engines)


@settings(max_examples=20, deadline=None)
@given(where=FLEETS, wanted=WISHES, sglang_first=st.booleans())
def test_an_engine_without_a_law_for_the_model_changes_nothing_for_the_other(
    *, where: Fleet, wanted: Request, sglang_first: bool
) -> None:
    facts = model(DEEPSEEK_V4)
    wanted = replace(request(facts), shape=wanted.shape, replicas=wanted.replicas)
    engines = ["sglang", "vllm"] if sglang_first else ["vllm", "sglang"]
    found, alone = decided(open_to(engines, wanted, ranked=True), where), decided(on("vllm", wanted), where)
    assert found.request.engine.name == "vllm"
    assert (found.pools, found.missing, found.rejections) == (alone.pools, alone.missing, alone.rejections)
    (_, refused) = found.engines
    assert (refused.engine, refused.reason) == ("sglang", EngineReason.FIELD_REFUSED)
    assert dict(refused.numbers)["field"] == "spec.model"


def test_a_neighbour_gets_what_it_gets_next_to_a_fixed_choice() -> None:
    neighbour = request(name="neighbour", context=8192, concurrency=8)
    mine = request(context=8192, concurrency=8)
    both = [Tenant(open_to(["vllm", "sglang"], mine), 1), Tenant(neighbour, 1)]
    fixed = [Tenant(on("vllm", mine), 1), Tenant(neighbour, 1)]
    (_, beside_open), (_, beside_fixed) = plan(both, ROOMY), plan(fixed, ROOMY)
    assert beside_open.pools == beside_fixed.pools


PRIORITIES = st.sampled_from([0, 0, 7])
SCARCE = st.sampled_from([(L4, H100), (L4, L40S), (L4,)]).map(
    lambda found: fleet(*(node(name, name, 1) for name in found))
)
TIGHT = st.sampled_from([8, 16, 16]).map(lambda concurrency: request(context=1024, concurrency=concurrency))
"""On an L4, 16,384 tokens of cache are too many for SGLang, and not for vLLM."""


@settings(max_examples=100, deadline=None)
@given(
    where=SCARCE,
    mine=TIGHT,
    other=TIGHT.map(lambda wanted: on("sglang", wanted)),
    engines=st.permutations(["vllm", "sglang"]),
    ranked=st.booleans(),
    mine_first=st.booleans(),
    priorities=st.tuples(PRIORITIES, PRIORITIES),
)
def test_no_engine_would_let_fewer_wait_of_those_who_come_first(
    *,
    where: Fleet,
    mine: Request,
    other: Request,
    engines: list[str],
    ranked: bool,
    mine_first: bool,
    priorities: tuple[int, int],
) -> None:
    """The fleet has a place for one replica, or for two of which not every engine fits on both."""
    mine, other = replace(mine, created="b"), replace(named(other, "other"), created="c" if mine_first else "a")

    def waiting(wanted: Request) -> tuple[int, ...]:
        ranks = [Priority(value) for value in priorities]
        tenants = [Tenant(each, 1, priority=rank) for each, rank in zip((wanted, other), ranks, strict=True)]
        found = plan(tenants, where, solver=fleetwide())
        assert not any(each.failure for each in found)
        return tuple(each.missing for each in found)

    assert waiting(open_to(engines, mine, ranked=ranked)) <= min(waiting(on(each, mine)) for each in engines)


def test_a_preferred_engine_does_not_take_the_only_place_of_a_neighbour() -> None:
    """SGLang holds 16,384 tokens on the H100 alone, vLLM on the L4 as well."""
    where, wanted = fleet(node("a", L4, 1), node("b", H100, 1)), request(context=1024, concurrency=16)
    neighbour = on("sglang", named(wanted, "neighbour"))
    mine = Tenant(open_to(["sglang", "vllm"], wanted, ranked=True), 1)
    alone = plan([mine], where)[0]
    assert [(each.gpu_type, each.engine) for each in alone.pools] == [(H100, "sglang")]
    both = plan([mine, Tenant(neighbour, 1)], where, solver=fleetwide())
    beside = {each.request.key.name: each for each in both}
    found = {name: [(each.gpu_type, each.engine) for each in decision.pools] for name, decision in beside.items()}
    assert found == {wanted.key.name: [(L4, "vllm")], "neighbour": [(H100, "sglang")]}
    assert beside[wanted.key.name].engines[0].reason is EngineReason.MORE_CACHE


POOL_STATES = st.lists(
    st.builds(
        lambda engine, state, ready, served, too_large: pool(
            H100, engine=engine, state=state, ready=ready, served=served, too_large=too_large and not served
        ),
        st.sampled_from([*RELEASES]),
        st.sampled_from([*PoolState]),
        st.sampled_from([0, 1, 2]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=4,
)


@given(pools=POOL_STATES)
def test_an_engine_of_which_a_replica_serves_is_not_left(pools: list[Pool]) -> None:
    found = running_engine(pools)
    serving: set[str | None] = {each.engine for each in pools if each.ready}
    known: set[str | None] = {None, *(each.engine for each in pools)}
    assert found in (serving or known)
    if found is None:
        assert not any(each.served for each in pools)
        counted = [each for each in pools if each.state is PoolState.ACTIVE] or pools
        assert all(each.too_large for each in counted)


def test_engines_that_the_list_omits_share_a_place_behind_those_that_it_names() -> None:
    """So doubts and cost decide between them, and not the order in which they are known."""

    def ranks(**engine: object) -> dict[str, int]:
        spec = {"model": {"name": "a/b"}, "contextLength": 4096, "engine": {"name": "auto", **engine}}
        resource = parse_inference_deployment(inference_deployment_body("chat", spec=spec))
        found = request_on_engines(resource, lambda each: on(each.spec.engine.engine_name, small()))
        return {each.engine.name: each.engine_rank for each in found.on_each_engine}

    listed = ranks(prefer=["sglang"])
    assert listed["sglang"] < listed["vllm"] == listed["abacus"]
    both = ranks(prefer=["sglang", "vllm"])
    assert both["sglang"] < both["vllm"] < both["abacus"]
    assert len(set(ranks().values())) == 1


def test_a_move_that_runs_out_of_memory_does_not_reopen_the_engine_that_serves() -> None:
    old = pool(L40S, engine="sglang", state=PoolState.RETIRING, replicas=2, served=True)
    new = pool(H100, engine="sglang", ready=0, too_large=True)
    assert running_engine([new, old]) == "sglang"
    assert running_engine([new]) is None


def small(facts: ModelFacts | str = LLAMA_8B) -> Request:
    return request(facts, context=8192, concurrency=8)


def test_more_cache_on_the_same_card_is_named_with_both_figures() -> None:
    """SGLang keeps more of 24 GB free than vLLM: 16,384 tokens are too many for what is left."""
    where, wanted = fleet(node("a", L4, 1)), request(context=1024, concurrency=16)
    assert not decided(on("sglang", wanted), where).pools
    first, second = decided(open_to(["sglang", "vllm"], wanted), where).engines
    assert (first.engine, first.reason, first.places) == ("vllm", EngineReason.MORE_CACHE, ("l4-24gb x 1",))
    figures = dict(first.numbers)
    assert int(figures["other_tokens"]) < int(figures["need_tokens"]) == 16_384 < int(figures["tokens"])
    assert (second.engine, second.reason, second.missing) == ("sglang", EngineReason.NOTHING_FITS, 1)
    assert "KvCacheTooSmall" in {each.reason.value for each in second.nearest}


def test_the_users_list_comes_before_cost_and_doubt_and_after_a_place() -> None:
    wanted = small()
    assert decided(open_to(["vllm", "sglang"], wanted, ranked=True), ROOMY).request.engine.name == "vllm"
    liked = decided(open_to(["sglang", "vllm"], wanted, ranked=True), ROOMY)
    assert [(each.engine, each.reason) for each in liked.engines] == [
        ("sglang", EngineReason.PREFERRED),
        ("vllm", EngineReason.LESS_PREFERRED),
    ]
    amd = fleet(node("m", "mi300x-192gb", 8))
    fallen_back = decided(open_to(["sglang", "vllm"], wanted, ranked=True), amd)
    assert [(each.engine, each.reason) for each in fallen_back.engines] == [
        ("vllm", EngineReason.MORE_ROOM),
        ("sglang", EngineReason.NOTHING_FITS),
    ]


def test_an_engine_that_refuses_a_field_is_named_where_one_is_left() -> None:
    refusal = EngineRefusal("sglang", "spec.engine.cpuOffload", "'4Gi'", "Remove it.")
    wanted = replace(on("vllm", small()), refused_engines=(refusal,))
    found = decided(wanted, ROOMY)
    assert found.pools == decided(on("vllm", small()), ROOMY).pools
    first, second = found.engines
    assert (first.engine, first.reason, first.release) == ("vllm", EngineReason.ONLY_ENGINE, "0.32.0")
    assert (second.reason, second.numbers[0]) == (EngineReason.FIELD_REFUSED, ("field", "spec.engine.cpuOffload"))


def test_a_load_of_all_replicas_gets_a_size_and_an_engine() -> None:
    wanted = replace(small(), total=TotalLoad(64))
    found = decided(open_to(["vllm", "sglang"], wanted), ROOMY)
    alone = decided(on(found.request.engine.name, wanted), ROOMY)
    assert found.request.total is None
    assert (found.request.replicas, found.sizes) == (alone.request.replicas, alone.sizes)


def test_a_fixed_engine_compares_nothing() -> None:
    found = decided(on("sglang", small()), ROOMY)
    assert found.engines == ()
    assert [each.engine for each in found.pools] == ["sglang"]


def test_if_memory_ran_out_the_other_engine_takes_over_and_keeps_the_place() -> None:
    """The pool's own engine has failed on its card, and no other card is there."""
    where, wanted = fleet(node("a", L40S, 1)), small()
    failed = replace(on("sglang", wanted), failed_starts=((L40S, pool(L40S).split),))
    tried = replace(failed, others=(on("vllm", wanted),))
    crashed = pool(L40S, engine="sglang", too_large=True, bound=1, generation=1)
    (decision,) = plan([Tenant(tried, 1, (crashed,))], where)
    assert decision.request.engine.name == "vllm"
    assert [(each.place, each.engine, each.replicas) for each in decision.pools] == [(crashed.place, "vllm", 1)]


@settings(max_examples=30, deadline=None)
@given(
    asked=st.sampled_from([*RELEASES]),
    before=st.sampled_from([*RELEASES]),
    replicas=st.integers(1, 3),
    is_known=st.booleans(),
)
def test_a_move_is_taken_back_only_to_a_pool_that_need_not_change_its_engine(
    *, asked: str, before: str, replicas: int, is_known: bool
) -> None:
    """The neighbour's move is as late, and its engine is the same in both pools."""

    def moving(wanted: Request, engine: str) -> Tenant:
        wanted = replace(wanted, replicas=replicas)
        spec = "s" if is_known else ""
        old = pool(L40S, replicas=replicas, engine=engine, state=PoolState.RETIRING, served=True, spec=spec)
        new = pool(A100, replicas=replicas, engine=wanted.engine.name, ready=0, generation=2)
        return Tenant(wanted, 2, (new, old), spec="s", overdue=True)

    mine, neighbour = small(), named(small(), "neighbour")
    where = fleet(node("a", L40S, 8), node("b", A100, 8))
    first, second = plan([moving(on(asked, mine), before), moving(on("vllm", neighbour), "vllm")], where)
    states = {each.gpu_type: (each.state, each.engine, each.replicas) for each in first.pools}
    if asked == before:
        assert states[L40S] == (PoolState.ACTIVE, asked, replicas)
        assert [each.place for each in first.rolled_back] == [pool(A100).place]
    else:
        assert states[L40S] == (PoolState.RETIRING, before, replicas)
        assert states[A100] == (PoolState.ACTIVE, asked, replicas)
        assert not first.rolled_back
        assert all(each.choice is None for each in first.pools if not each.is_active), "what serves is not rendered"
    assert {each.gpu_type: each.state for each in second.pools}[L40S] is PoolState.ACTIVE
    assert [each.place for each in second.rolled_back] == [pool(A100).place]


def test_on_an_alternative_engine_the_length_of_answers_is_known_and_the_speed_is_not() -> None:
    asked = replace(on("vllm", small()), replicas=3, alternatives=(on("sglang", small()),))
    who = Tenant(asked, 1, answers=SeenAnswers(250.0, "p", 1.7))
    there = who.on_engine("sglang")
    assert (there.request.engine.name, there.request.replicas) == ("sglang", 3)
    assert [each.engine.name for each in there.request.alternatives] == ["vllm"]
    assert there.answers == SeenAnswers(250.0)
    assert who.on_engine("abacus").request is who.request
    assert replace(who, answers=None).on_engine("sglang").answers is None


@pytest.mark.parametrize("name", ["h100-sxm-80gb-tp1", "h100-sxm-80gb-tp1-sglang"])
def test_an_old_pool_is_called_back_by_whatever_name_it_has(name: str) -> None:
    """It holds the only H100, so a new pool at its place would never get a node."""
    where, wanted = fleet(node("a", H100, 1), node("b", L40S, 1)), on("sglang", small())
    pinned = replace(wanted, overrides=replace(wanted.overrides, gpu_type=H100))
    old = pool(H100, engine="sglang", name=name, state=PoolState.RETIRING)
    new = pool(L40S, engine="sglang", bound=0, ready=0)
    (decision,) = plan([tenant(pinned, new, old, accepts_move=True)], where)
    assert [(each.name, each.state, each.replicas) for each in decision.pools] == [(name, PoolState.ACTIVE, 1)]
    other = replace(old, name="h100-sxm-80gb-tp1", engine="vllm")
    (decision,) = plan([tenant(pinned, new, other, accepts_move=True)], fleet(node("a", H100, 2)))
    assert [(each.name, each.engine) for each in decision.pools] == [
        ("h100-sxm-80gb-tp1-sglang", "sglang"),
        ("h100-sxm-80gb-tp1", "vllm"),
    ]
