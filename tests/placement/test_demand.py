"""The demand of one deployment in a pass, before a solver gives it anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.cluster.host import NO_HOST_NEED
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.observations import Correction, MeasuredSpeed
from plimsoll.domain.decisions.outcomes import Option, Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import ObservedCapacity, Overrides
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.demand import Demand, Move, demand_of
from plimsoll.placement.demands.pools import Pool, PoolState, Tenant, active, replicas_by_name, serving
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.ledger import NO_USE, use_of
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import NO_OPTIONS
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers.problem import wanted
from tests.support.planning import A100, H100, L4, L40S, fleet, node, pool, request, tenant

FLEET = fleet(node("h", H100, 8), node("l", L40S, 8), node("l4", L4, 8))
ONE = Split(1)
LEFT = (Rehoming(L4, ONE, "InsufficientGpus", at=1.0),)
TOO_SMALL = (ObservedCapacity(L40S, ONE, 100), ObservedCapacity(H100, ONE, 200))


def demand(who: Tenant) -> Demand:
    return demand_of(who, FLEET, Memo())


def stranded(replicas: int, without_node: int) -> Pool:
    return pool(L40S, replicas=replicas, bound=0, ready=0, stranded=without_node, obstacle="InsufficientGpus")


def test_a_deployment_with_all_its_replicas_asks_for_nothing() -> None:
    settled = demand(tenant(request(replicas=2), pool(H100, replicas=2)))
    assert (settled.missing, settled.asks, settled.options) == (0, False, NO_OPTIONS)
    fewer = demand(tenant(request(replicas=1), pool(H100, replicas=2)))
    assert (fewer.missing, fewer.asks) == (-1, False)
    assert (wanted(settled), wanted(fewer)) == (0, 0)


def test_one_missing_replica_is_asked_for_with_a_verdict_on_every_candidate() -> None:
    grows = demand(tenant(request(replicas=3), pool(H100, replicas=2)))
    assert (grows.missing, grows.asks) == (1, True)
    assert len(grows.options.verdicts) == 3 * 4
    assert any(isinstance(verdict, Option) for verdict in grows.options.verdicts)


def test_without_replicas_a_place_is_asked_for_until_there_is_one() -> None:
    assert demand(tenant(request(replicas=0))).asks
    assert not demand(tenant(request(replicas=0), pool(H100, replicas=0, bound=0, ready=0))).asks


def test_no_more_replicas_move_than_the_pool_still_has() -> None:
    waits = replace(stranded(2, 1), claim=NO_HOST_NEED)
    use = use_of(request(), "nvidia.com/gpu", Split(1).shape, NO_HOST_NEED)
    assert demand(tenant(request(replicas=2), waits)).moves == (
        Move("l40s-48gb-tp1", (L40S, ONE), 1, "InsufficientGpus", use),
    )
    assert [move.use for move in demand(tenant(request(replicas=2), stranded(2, 1))).moves] == [NO_USE], "it has no pod"
    assert [move.replicas for move in demand(tenant(request(), stranded(1, 3))).moves] == [1]


def test_an_empty_pool_is_kept_unless_its_last_pods_found_no_node() -> None:
    empty = demand(tenant(request(replicas=0), stranded(0, 1)))
    assert (empty.kept, empty.moves) == ((), ())
    assert [each.name for each in demand(tenant(request(replicas=0), stranded(0, 0))).kept] == ["l40s-48gb-tp1"]


def test_places_left_in_the_last_hour_are_excluded_until_the_user_speaks() -> None:
    silent = demand(tenant(request(replicas=2), pool(H100), left=LEFT))
    assert (silent.excluded, silent.remembers_moves) == (((L4, ONE),), True)
    forced = demand(tenant(request(replicas=2, overrides=Overrides(gpu_type=H100)), pool(H100), left=LEFT))
    changed = demand(tenant(request(replicas=2), pool(H100), generation=2, left=LEFT))
    for spoken in (forced, changed):
        assert (spoken.excluded, spoken.remembers_moves) == ((), False)


def test_pools_of_before_serve_as_long_as_one_pod_of_them_is_ready() -> None:
    denied = request(replicas=2, observed=TOO_SMALL)
    first, second = pool(L40S, ready=0), pool(H100, ready=0)
    assert not demand(tenant(denied, first, second, generation=2)).serves
    assert demand(tenant(denied, first, pool(H100, ready=1), generation=2)).serves


def test_the_first_outgrown_pool_gives_the_reason_and_both_are_kept() -> None:
    both = demand(tenant(request(replicas=2, observed=TOO_SMALL), pool(L40S), pool(H100)))
    assert both.outgrown is not None
    assert (both.outgrown.reason, both.outgrown.gpu_type) == (Reason.OBSERVED_TOO_SMALL, L40S)
    assert [each.gpu_type for each in both.kept] == [L40S, H100]


def test_a_pool_on_a_type_that_the_fleet_lost_is_kept_without_a_judgement() -> None:
    lost = demand(tenant(request(), pool(A100)))
    assert ([each.choice for each in lost.kept], lost.outgrown) == ([None], None)
    assert not lost.asks


def test_a_retiring_pool_is_neither_kept_nor_replaced() -> None:
    old = demand(tenant(request(), pool(H100, state=PoolState.RETIRING)))
    assert (old.kept, old.outdated, old.missing) == ((), (), 1)


def test_a_pool_on_its_way_out_and_one_without_replicas_serve_nobody() -> None:
    leaves, empty, one = pool(A100, state=PoolState.RETIRING), pool(L4, replicas=0), pool(L40S, replicas=1)
    pools = (leaves, empty, one, pool(H100, replicas=2))
    assert [(each.gpu_type, each.replicas) for each in serving(pools)] == [(L40S, 1), (H100, 2)]
    assert active(pools) == [empty, *serving(pools)]
    assert replicas_by_name(pools) == {empty.name: 0, one.name: 1, pools[-1].name: 2}


def test_a_pool_too_large_to_start_is_replaced_without_a_change_of_the_spec() -> None:
    failed = request(failed_starts=((L40S, ONE),))
    crashing = pool(L40S, ready=0, too_large=True)
    assert demand(tenant(failed, crashing)).outdated == (crashing,)
    assert demand(tenant(failed, pool(L40S, ready=0))).outdated == ()


def test_the_step_of_running_engines_is_kept_while_the_spec_is_theirs() -> None:
    def step(held: Pool, generation: int = 1) -> int | None:
        (kept,) = demand(tenant(request(), held, generation=generation)).kept
        return kept.step_tokens

    usual = step(pool(H100))
    assert usual == 8192
    assert step(pool(H100, limits=StepLimits(4096))) == 4096
    assert step(pool(H100, limits=StepLimits(4096)), generation=2) == usual
    assert step(pool(H100, limits=StepLimits(4096), too_large=True)) == usual


def test_a_change_that_changes_no_engine_keeps_the_step() -> None:
    """Another number of replicas is another generation of the same spec."""

    def step(recorded: str) -> int | None:
        held = pool(H100, limits=StepLimits(4096), spec=recorded)
        (kept,) = demand(replace(tenant(request(replicas=3), held, generation=2), spec="same")).kept
        return kept.step_tokens

    assert (step("same"), step("other"), step("")) == (4096, 8192, 8192)


def test_only_the_order_to_leave_judges_running_engines_by_another_step() -> None:
    """53 GiB more than the law says: one H100 is too small with steps of 16,384 tokens and large enough with 2,048."""
    kind = request().engine_kind(H100, ONE)
    learned = request(corrections=(Correction(kind, rest_bytes=53 * GIB),))
    held = pool(H100, limits=StepLimits(16_384))
    stays, ordered = (demand(tenant(learned, held, accepts_move=order)) for order in (False, True))
    assert ([each.step_tokens for each in stays.kept], stays.outgrown is not None) == ([16_384], True)
    assert ([each.step_tokens for each in ordered.kept], ordered.outgrown, ordered.outdated) == ([2048], None, ())


@pytest.mark.parametrize(("tpot", "factor"), [(1.0, 2.0), (0.03, 1.0)], ids=["it keeps its promise", "it does not"])
def test_a_running_pool_has_its_measured_speed_and_stays_if_that_breaks_a_promise(tpot: float, factor: float) -> None:
    """By the estimate a token takes 27 ms there, and twice as long by what was measured."""
    usual = request(slo=Slo(ttft_seconds=10.0, tpot_seconds=tpot))
    slow = replace(usual, speeds=(MeasuredSpeed(usual.engine_kind(L40S, ONE), 2.0),))
    one, two = (plan([tenant(each, pool(L40S))], fleet(node("l", L40S, 1)))[0] for each in (usual, slow))
    assert two.outgrown is None
    assert one.choice is not None
    assert two.choice is not None
    assert one.choice.performance is not None
    assert two.choice.performance is not None
    assert two.choice.performance.tpot_seconds == pytest.approx(factor * one.choice.performance.tpot_seconds, rel=0.01)
