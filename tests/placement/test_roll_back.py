"""A move whose time is over: what is wanted again, what is given back, and where nothing can be taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints, ObservedCapacity, Overrides, Request, TotalLoad
from plimsoll.placement.demands.clocks import EarlierSettings
from plimsoll.placement.demands.failed_moves import Delay, FailedMove, RollBack
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant
from plimsoll.placement.demands.roll_back import NOT_READY, called_back, is_late
from plimsoll.placement.plan import plan
from tests.support.planning import A100, H100, L4, L40S, fleet, node, pool, request, tenant
from tests.support.tables import every_case

CRASH = Delay("EngineCrashed", "no such file")
RETIRING = PoolState.RETIRING
TOO_SMALL = (ObservedCapacity(L4, Split(1), 100),)
NODES = (node("l4", L4, 4, held=1), node("l", L40S, 4, held=1))


def new(kind: str = L40S, replicas: int = 1, **changes: Any) -> Pool:
    """A pool that does not serve in time."""
    return pool(kind, replicas=replicas, **{"ready": 0, "delay": CRASH, **changes})


def old(kind: str = L4, replicas: int = 1, **changes: Any) -> Pool:
    """A pool that serves until the new one does."""
    return pool(kind, replicas=replicas, **{"state": RETIRING, **changes})


def overdue(*pools: Pool, wanted: Request | None = None, **changes: Any) -> Tenant:
    return tenant(wanted or request(observed=TOO_SMALL), *pools, **{"overdue": True, **changes})


def decided(who: Tenant, *nodes: GpuNode) -> Decision:
    (decision,) = plan([who], fleet(*(nodes or NODES)))
    return decision


def shown(decision: Decision) -> dict[str, tuple[str, int]]:
    return {each.gpu_type: (each.state.value, each.replicas) for each in decision.pools}


def test_the_old_pool_is_wanted_again_the_new_one_is_gone_and_its_place_is_named() -> None:
    decision = decided(overdue(new(), old()))
    assert shown(decision) == {L4: ("Active", 1)}
    assert decision.rolled_back == (RollBack(L40S, Split(1), CRASH),)
    assert (decision.missing, decision.change_blocked) == (0, False)
    [kept] = decision.pools
    assert (kept.generation, kept.choice) == (1, None), "its engines run on as they are"


def test_what_the_roll_back_takes_away_does_not_move_besides() -> None:
    waits = new(replicas=3, bound=2, ready=1, stranded=1, failing=1, obstacle="InsufficientGpus")
    where = (node("l4", L4, 4, held=1), node("l", L40S, 4, held=2), node("h", H100, 8))
    decision = decided(overdue(waits, old(replicas=3), wanted=request(observed=TOO_SMALL, replicas=3)), *where)
    assert decision.departures == ()
    assert shown(decision) == {L40S: ("Active", 1), L4: ("Active", 2)}


@pytest.mark.parametrize("generation", [1, 2])
def test_an_old_pool_that_fits_is_kept_with_its_choice_also_under_another_spec(generation: int) -> None:
    decision = decided(overdue(new(), old(), generation=generation, wanted=request()))
    assert shown(decision) == {L4: ("Active", 1)}
    assert decision.pools[0].choice is not None


@every_case(
    ("who", "why"),
    [
        (overdue(new(), old(), overdue=False), "there is time"),
        (overdue(new(), old(ready=0)), "the old pool does not serve either"),
        (overdue(new()), "there is no old pool"),
        (
            overdue(new(), old(), generation=2, wanted=request(constraints=GpuConstraints(deny=(L4,)))),
            "the spec rules the old pool out",
        ),
        (
            overdue(new(), old(spec="before"), generation=2, spec="now"),
            "the old pool's engines are of another spec and do not fit this one",
        ),
        (
            overdue(new(), old(), generation=2, wanted=request(overrides=Overrides(gpu_type=L40S))),
            "the user asks for the new place",
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_nothing_is_taken_back_where(who: Tenant, why: str) -> None:
    decision = decided(who)
    states = {each.gpu_type: (each.state.value, each.replicas) for each in who.pools}
    assert shown(decision) == states, why
    assert decision.rolled_back == ()


def test_a_change_of_the_spec_that_leaves_the_engines_as_they_are_is_no_obstacle() -> None:
    decision = decided(overdue(new(), old(spec="s"), generation=2, spec="s"))
    assert shown(decision) == {L4: ("Active", 1)}
    assert decision.pools[0].generation == 2


@pytest.mark.parametrize("observed", [TOO_SMALL, ()], ids=["the-old-pool-is-outgrown", "it-fits-and-is-cheaper"])
def test_new_replicas_that_serve_stay_and_the_old_pool_gives_the_rest(observed: tuple[ObservedCapacity, ...]) -> None:
    who = overdue(new(replicas=3, ready=1), old(replicas=3), wanted=request(replicas=3, observed=observed))
    decision = decided(who, node("l4", L4, 4, held=3), node("l", L40S, 4, held=3))
    assert shown(decision) == {L40S: ("Active", 1), L4: ("Active", 2)}
    assert [each.gpu_type for each in decision.rolled_back] == [L40S]


def test_of_several_old_pools_those_with_the_most_serving_replicas_come_first() -> None:
    pools = old(A100, 2, ready=1), old(H100, 2), old(L4, 1)
    who = overdue(new(replicas=3), *pools, wanted=request(replicas=3, observed=TOO_SMALL))
    nodes = (node("l4", L4, 1, held=1), node("h", H100, 2, held=2), node("a", A100, 2, held=2), node("l", L40S, 3))
    assert shown(decided(who, *nodes)) == {H100: ("Active", 2), A100: ("Active", 1)}


def test_an_old_pool_that_the_spec_rules_out_serves_on_until_the_returned_one_is_whole() -> None:
    wanted = request(replicas=3, observed=TOO_SMALL, constraints=GpuConstraints(deny=(H100,)))
    returning, ruled_out = old(L4, 3, ready=1, spec="s"), old(H100, 2, spec="s")
    who = overdue(new(replicas=3), returning, ruled_out, wanted=wanted, generation=2, spec="s")
    nodes = (node("l4", L4, 3, held=3), node("h", H100, 2, held=2), node("l", L40S, 3))
    assert shown(decided(who, *nodes)) == {L4: ("Active", 3), H100: ("Retiring", 2)}


def test_a_pool_without_a_word_of_its_pods_has_a_reason_too() -> None:
    assert decided(overdue(new(delay=None), old())).rolled_back[0].delay == NOT_READY


def test_what_is_still_missing_goes_elsewhere_and_not_back_to_the_place_that_failed() -> None:
    who = overdue(new(replicas=2), old(L4, 1), wanted=request(replicas=2))
    decision = decided(who, node("l4", L4, 1, held=1), node("l", L40S, 4), node("h", H100, 1))
    assert shown(decision) == {L4: ("Active", 1), H100: ("Active", 1)}
    reasons = {each.gpu_type: each.reason for each in decision.rejections if each.split == Split(1)}
    assert reasons[L40S] is Reason.MOVE_FAILED


def test_no_gpu_of_the_given_up_pool_is_promised_to_anybody_in_the_same_pass() -> None:
    """Its pods hold their GPUs until they have ended."""
    starting = overdue(new(), old(), wanted=request(observed=TOO_SMALL, name="a", created="1"))
    waits = tenant(request(name="b", created="2", constraints=GpuConstraints(allow=(L40S,))))
    _, other = plan([starting, waits], fleet(node("l4", L4, 1, held=1), node("l", L40S, 1, held=1)))
    assert other.missing == 1


def test_gpus_that_were_kept_for_pods_without_a_node_are_given_back_at_once() -> None:
    waiting = new(bound=0)
    neighbour = tenant(request(name="b", created="2", constraints=GpuConstraints(allow=(L40S,))))
    nodes = (node("l4", L4, 1, held=1), node("l", L40S, 1))
    for is_overdue, missing in ((False, 1), (True, 0)):
        who = overdue(waiting, old(), wanted=request(observed=TOO_SMALL, name="a", created="1"), overdue=is_overdue)
        _, other = plan([who, neighbour], fleet(*nodes))
        assert other.missing == missing


@every_case(
    ("changes", "late"),
    [
        ({"replicas": 2, "ready": 1}, True),
        ({"replicas": 2, "ready": 2}, False),
        ({"replicas": 2, "ready": 3}, False),
        ({"replicas": 2, "ready": 0, "state": RETIRING}, False),
    ],
)
def test_an_active_pool_is_late_until_all_its_replicas_serve(changes: dict[str, Any], *, late: bool) -> None:
    assert is_late(pool(L4, **changes)) is late


class TestCalledBack:
    """A change of the spec rules out all new pools of a move, and the old ones hold what their successors wait for."""

    @staticmethod
    def called(who: Tenant, *, fits: tuple[str, ...] = (L4,), ruled_out: tuple[str, ...] = (L40S,)) -> Tenant:
        return called_back(who, lambda each: each.gpu_type in fits, lambda each: each.gpu_type in ruled_out)

    def test_the_old_pool_is_wanted_again_and_the_new_one_is_gone(self) -> None:
        found = self.called(overdue(new(), old()))
        assert [(each.gpu_type, each.state, each.replicas) for each in found.pools] == [(L4, PoolState.ACTIVE, 1)]
        assert not found.overdue

    @every_case(
        ("pools", "how"),
        [
            ((new(), old(ready=0)), {}),
            ((new(), old()), {"fits": ()}),
            ((new(), old()), {"ruled_out": ()}),
            ((new(ready=1), old()), {}),
            ((new(), new(A100), old()), {}),
            ((old(),), {}),
            ((new(),), {}),
            ((new(), pool(L4)), {}),
        ],
        ids=[
            "the old one does not serve",
            "it does not fit",
            "the new one is not ruled out",
            "the new one serves",
            "another new one is not ruled out",
            "no new one",
            "no old one",
            "what serves is wanted already",
        ],
    )
    def test_nothing_is_called_back_where(self, pools: tuple[Pool, ...], how: dict[str, Any]) -> None:
        who = overdue(*pools)
        assert self.called(who, **how) is who

    def test_a_new_total_load_chooses_a_size_first(self) -> None:
        who = overdue(new(), old(), wanted=replace(request(), total=TotalLoad(64)))
        assert self.called(who) is who

    def test_old_pools_return_for_the_replicas_that_are_wanted_and_the_others_retire(self) -> None:
        pools = new(replicas=3), old(A100, 1), old(L4, 2), old(H100, 2, ready=1)
        found = self.called(overdue(*pools, wanted=request(replicas=3)), fits=(L4, A100, H100))
        assert [(each.gpu_type, each.state, each.replicas) for each in found.pools] == [
            (L4, PoolState.ACTIVE, 2),
            (A100, PoolState.ACTIVE, 1),
            (H100, RETIRING, 2),
        ]


class TestMemory:
    failed = FailedMove(L40S, Split(1), CRASH, at=1_800_000_000.0, until=1_800_021_600.0, times=1, spec="s")
    where = (node("l", L40S, 4), node("h", H100, 4))

    def test_new_replicas_are_not_placed_where_a_move_failed(self) -> None:
        assert shown(decided(tenant(request()), *self.where)) == {L40S: ("Active", 1)}
        assert shown(decided(tenant(request(), failed=(self.failed,)), *self.where)) == {H100: ("Active", 1)}

    def test_where_only_such_a_place_is_left_the_deployment_waits_and_says_so(self) -> None:
        decision = decided(tenant(request(), failed=(self.failed,)), node("l", L40S, 1))
        assert decision.missing == 1
        assert Reason.MOVE_FAILED in {each.reason for each in decision.rejections}

    def test_replicas_that_run_there_stay(self) -> None:
        assert shown(decided(tenant(request(), pool(L40S), failed=(self.failed,)), *self.where)) == {
            L40S: ("Active", 1)
        }

    def test_a_forced_place_is_taken_and_the_warning_says_what_happened(self) -> None:
        forced = tenant(request(overrides=Overrides(gpu_type=L40S)), failed=(self.failed,))
        decision = decided(forced, *self.where)
        assert shown(decision) == {L40S: ("Active", 1)}
        assert decision.warnings[-1] == (
            "A move to l40s-48gb x 1 did not come up in time at 2027-01-15T08:00:00Z (EngineCrashed: no such file)."
        )
        plain = decided(replace(forced, failed=()), *self.where)
        assert decision.warnings[:-1] == plain.warnings


BEFORE = EarlierSettings("l4-24gb-tp1", StepLimits(2048, 8), 120)


def retuned(**changes: Any) -> Pool:
    """A pool whose engines are to run more requests at the same time and do not come up; the old ones serve."""
    settings = {"limits": StepLimits(2048, 32), "drain_seconds": 300, "spec": "s"}
    late = {"earlier": BEFORE, "overdue": True, "delay": CRASH, "bound": 3, "ready": 2}
    return pool(L4, **{"replicas": 2, **settings, **late, **changes})


def settings_of(decision: Decision) -> tuple[int | None, int | None, int | None]:
    [kept] = decision.pools
    return kept.sequences, kept.step_tokens, kept.drain_seconds


def asks(*pools: Pool, **changes: Any) -> Tenant:
    wanted = request(replicas=2, concurrency=4)
    return tenant(wanted, *pools, **{"spec": "s", **changes})


ROOM = (node("l4", L4, 4, held=3),)


def test_settings_that_do_not_come_up_are_taken_back_and_no_replica_ends_before_its_successor() -> None:
    decision = decided(asks(retuned()), node("l4", L4, 3, held=3))
    assert settings_of(decision) == (8, 2048, 120)
    assert decision.rolled_back == (RollBack(L4, Split(1), CRASH, StepLimits(2048, 32)),)
    [kept] = decision.pools
    assert (kept.replicas, kept.surge, kept.choice is not None) == (2, True, True)
    assert decision.missing == 0


def test_settings_stay_while_they_have_time_and_the_room_for_the_new_replica_was_taken() -> None:
    decision = decided(asks(retuned(overdue=False, delay=None, bound=2)), node("l4", L4, 2, held=2))
    assert settings_of(decision) == (32, 2048, 300)
    assert decision.rolled_back == ()
    assert decision.pools[0].surge
    plain = decided(asks(retuned(overdue=False, earlier=None, bound=2)), node("l4", L4, 2, held=2))
    assert not plain.pools[0].surge, "no change is under way"


def test_earlier_settings_that_the_spec_does_not_allow_any_more_do_not_come_back() -> None:
    who = asks(retuned())
    denied = replace(who, request=replace(who.request, constraints=GpuConstraints(deny=(L4,))))
    decision = decided(denied, *ROOM)
    assert decision.rolled_back == ()
    assert decision.pools[0].sequences == 32


def test_other_pools_of_the_deployment_keep_their_settings() -> None:
    other = pool(L40S, limits=StepLimits(2048, 32), spec="s")
    decision = decided(
        replace(asks(retuned(), other), request=request(replicas=3, concurrency=4)), *ROOM, node("l", L40S, 1, held=1)
    )
    assert {each.gpu_type: each.sequences for each in decision.pools} == {L4: 8, L40S: 32}
