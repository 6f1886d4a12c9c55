"""Spot and on demand: two types of one card, each at its price, and a deployment says which of them it may use."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import CapacityType, GpuType, Price
from plimsoll.domain.cluster.quota_accounts import spot_account
from plimsoll.domain.cluster.spot import capacity_of, card_name, on_spot, spot_type
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.observations import EngineKind
from plimsoll.domain.decisions.outcomes import Option, Split
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints, Overrides
from plimsoll.placement.demands.pools import Decision, Pool, pool_name
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.places.place import with_room
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import DEFAULT_SOLVER, Solver
from plimsoll.placement.solvers.greedy import solve_greedily
from tests.support.other_places import plan_of
from tests.support.planning import A100, H100, fleet, gpu, node, placed, pool, refusals, request, tenant, unplaceable

H100_SPOT = "h100-sxm-80gb-spot"
STAYS, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT


def card(spot: str | None = "1.10") -> GpuType:
    price = Price(Decimal("3.00"), "test", None if spot is None else Price(Decimal(spot), "test"))
    return replace(gpu(H100), price=price)


def on_demand(name: str = "stays", gpus: int = 8, *, held: int = 0, price: str | None = "1.10") -> GpuNode:
    return node(name, card(price), gpus, held=held)


def spot(name: str = "spot", gpus: int = 8, *, held: int = 0, price: str | None = "1.10") -> GpuNode:
    return replace(node(name, card(price), gpus, held=held), gpu=spot_type(card(price)), capacity_type=SPOT)


BOTH = fleet(on_demand(), spot())


def only(*capacities: CapacityType) -> GpuConstraints:
    return GpuConstraints(capacities=capacities)


def decided(where: Fleet, *pools: Pool, generation: int = 1, **wishes: object) -> Decision:
    (decision,) = plan([tenant(request(**wishes), *pools, generation=generation)], where)  # type: ignore[arg-type]
    return decision


def test_the_names_of_a_card_and_of_its_type_on_spot_nodes() -> None:
    assert (on_spot(H100), on_spot(H100_SPOT), card_name(H100_SPOT), card_name(H100)) == (
        H100_SPOT,
        H100_SPOT,
        H100,
        H100,
    )
    assert (capacity_of(H100), capacity_of(H100_SPOT)) == (STAYS, SPOT)


def test_nodes_that_stay_come_first_for_all_replicas_unless_somebody_asks_for_spot() -> None:
    decision = decided(BOTH, replicas=3)
    assert [(each.gpu_type, each.replicas) for each in decision.pools] == [(H100, 3)]
    assert {each.reason for each in decision.rejections if (each.gpu_type, each.split) == (H100_SPOT, Split(1))} == {
        Reason.SPOT_NOT_ASKED
    }
    more = decided(fleet(on_demand(gpus=2), spot()), replicas=3)
    assert {(each.gpu_type, each.replicas) for each in more.pools} == {(H100, 2), (H100_SPOT, 1)}, "none stays missing"
    cheap = decided(BOTH, replicas=3, objective=Objective.BATCH)
    assert [(each.gpu_type, each.replicas) for each in cheap.pools] == [(H100_SPOT, 3)]


def test_the_cheaper_capacity_is_taken_at_its_own_price_with_a_warning_if_both_are_named() -> None:
    outcome = placed(request(constraints=only(STAYS, SPOT)), BOTH)
    assert (outcome.choice.gpu.name, outcome.choice.hourly_price) == (H100_SPOT, Decimal("1.10"))
    assert any("spot nodes" in warning for warning in outcome.warnings)
    assert refusals(outcome)[H100, 1] is Reason.COSTS_MORE


def test_spot_that_costs_more_is_not_preferred() -> None:
    outcome = placed(request(), fleet(on_demand(price="9.00"), spot(price="9.00")))
    assert outcome.choice.gpu.name == H100
    assert not any("spot nodes" in warning for warning in outcome.warnings)


@pytest.mark.parametrize(("capacity", "kind", "other"), [(STAYS, H100, H100_SPOT), (SPOT, H100_SPOT, H100)])
def test_a_deployment_that_names_one_capacity_type_gets_it_and_pods_that_cannot_leave_it(
    capacity: CapacityType, kind: str, other: str
) -> None:
    outcome = placed(request(constraints=only(capacity)), BOTH)
    assert (outcome.choice.gpu.name, outcome.choice.target.capacity) == (kind, capacity)
    assert refusals(outcome)[other, 1] is Reason.CAPACITY_TYPE_DENIED
    alone = fleet(on_demand() if capacity is STAYS else spot())
    assert placed(request(constraints=only(capacity)), alone).choice.target.capacity is capacity
    assert placed(request(constraints=only(STAYS, SPOT)), alone).choice.target.capacity is None


def test_a_capacity_type_that_no_node_has_leaves_nothing() -> None:
    outcome = unplaceable(request(constraints=only(SPOT)), fleet(on_demand()))
    assert set(refusals(outcome).values()) == {Reason.CAPACITY_TYPE_DENIED}


def test_pods_are_kept_apart_only_where_the_card_is_on_both() -> None:
    assert placed(request(), BOTH).choice.target.capacity is STAYS
    assert placed(request(constraints=only(STAYS, SPOT)), BOTH).choice.target.capacity is SPOT
    assert placed(request(), fleet(spot())).choice.target.capacity is None
    assert placed(request(), fleet(on_demand())).choice.target.capacity is None


def test_both_are_reached_by_the_labels_of_the_card() -> None:
    other = ("nvidia.com/gpu.product", "H100-SXM5")
    where = fleet(on_demand(), spot(), replace(spot("spot-2"), selector=other))
    assert where.labels_of(H100) == (on_demand().selector,)
    assert set(where.labels_of(H100_SPOT)) == {on_demand().selector, other}


def test_spot_without_a_known_price_counts_with_the_price_on_demand() -> None:
    outcome = placed(
        request(constraints=replace(only(SPOT), max_hourly_price=Decimal("3.00"))), fleet(spot(price=None))
    )
    assert outcome.choice.hourly_price == Decimal("3.00")


@pytest.mark.parametrize(
    ("wishes", "kinds"),
    [
        ({"constraints": GpuConstraints(allow=(H100,))}, {H100, H100_SPOT}),
        ({"constraints": GpuConstraints(deny=(H100,))}, {A100}),
        ({"overrides": Overrides(gpu_type=H100)}, {H100, H100_SPOT}),
    ],
)
def test_the_name_of_a_card_means_both(wishes: dict[str, object], kinds: set[str]) -> None:
    where = fleet(on_demand(), spot(), node("a100", A100))
    outcome = placed(request(**wishes), where)  # type: ignore[arg-type]
    about_names = (Reason.GPU_TYPE_DENIED, Reason.GPU_TYPE_NOT_FORCED)
    out = {kind for (kind, _), reason in refusals(outcome).items() if reason in about_names}
    assert {H100, H100_SPOT, A100} - out == kinds


def test_engines_on_spot_nodes_teach_those_on_other_nodes() -> None:
    kinds: set[EngineKind] = {request().engine_kind(kind, Split(1)) for kind in (H100, H100_SPOT)}
    assert len(kinds) == 1
    failed = request(failed_starts=((H100, Split(1)),))
    assert {refusals(placed(failed, BOTH))[kind, 1] for kind in (H100, H100_SPOT)} == {Reason.START_FAILED}


SHARED: dict[str, Any] = {"constraints": only(STAYS, SPOT), "least_on_demand": 1}


def spread(decision: Decision) -> dict[str, int]:
    return {each.gpu_type: each.replicas for each in decision.pools if each.state.value == "Active" and each.replicas}


def running(stays: int, on_spot: int) -> list[Pool]:
    """Pools that serve on both."""
    first = replace(pool(H100, replicas=stays), target=replace(pool(H100).target, capacity=STAYS))
    other = replace(
        pool(H100, replicas=on_spot),
        name=pool_name(H100_SPOT, Split(1)),
        target=replace(pool(H100).target, gpu_type=H100_SPOT, capacity=SPOT),
    )
    return [each for each in (first, other) if each.replicas]


class TestAShareOnSpotNodes:
    """Who permits both capacity types keeps some replicas on nodes that no cloud takes back."""

    @pytest.mark.parametrize(("replicas", "least"), [(1, 1), (2, 1), (5, 1), (5, 2), (2, 3)])
    def test_all_but_the_least_are_on_the_cheaper_nodes(self, replicas: int, least: int) -> None:
        wanted = request(replicas=replicas, constraints=only(STAYS, SPOT), least_on_demand=least)
        free = request(name="free", replicas=2, constraints=only(SPOT))
        other, found = plan([tenant(wanted), tenant(free)], BOTH)
        expected = {H100: min(replicas, least), H100_SPOT: max(0, replicas - least)}
        assert spread(found) == {name: number for name, number in expected.items() if number}
        assert spread(other) == {H100_SPOT: 2}, "the limit is the deployment's own"

    @pytest.mark.parametrize("order", [("one", "two"), ("two", "one")], ids=" ".join)
    def test_the_room_that_its_own_limit_leaves_one_is_not_that_of_another(self, order: tuple[str, ...]) -> None:
        """Both ask one ledger, which remembers its answers."""
        ledger = Ledger.of(BOTH, {"default": {spot_account("one"): 0, spot_account("two"): 3}})
        asked = [request(name=name, **SHARED) for name in order]
        room = {each.key.name: {at.gpu.name for at in with_room(each, BOTH, ledger)} for each in asked}
        assert room == {"one": {H100}, "two": {H100, H100_SPOT}}

    @pytest.mark.parametrize("solver", [DEFAULT_SOLVER, solve_greedily], ids=["together", "in turn"])
    @pytest.mark.parametrize("gpus", [0, 1, 2, 4, 8])
    @pytest.mark.parametrize("least", [1, 2, 4])
    def test_no_solver_puts_more_there(self, solver: Solver, gpus: int, least: int) -> None:
        wanted = [
            tenant(request(name=name, replicas=4, constraints=only(STAYS, SPOT), least_on_demand=least))
            for name in ("one", "two")
        ]
        for found in plan(wanted, fleet(on_demand(gpus=gpus), spot()), solver=solver):
            assert spread(found).get(H100_SPOT, 0) <= 4 - least

    def test_nothing_waits_for_spot_nodes_that_are_not_there(self) -> None:
        decision = decided(fleet(on_demand(gpus=8)), replicas=4, **SHARED)
        assert (spread(decision), decision.missing) == ({H100: 4}, 0)

    def test_who_finds_no_node_on_demand_waits_for_one_and_the_reason_says_so(self) -> None:
        decision = decided(fleet(on_demand(held=8), spot()), replicas=3, **SHARED)
        assert (spread(decision), decision.missing) == ({H100_SPOT: 2}, 1)
        alone = decided(fleet(on_demand(held=8), spot()), replicas=1, **SHARED)
        assert alone.missing == 1
        assert Reason.TOO_MANY_ON_SPOT in {each.reason for each in alone.rejections}

    def test_what_runs_on_spot_nodes_stays_and_the_next_replica_goes_elsewhere(self) -> None:
        there = fleet(on_demand(), spot(held=3))
        assert spread(decided(there, *running(0, 3), replicas=3, **SHARED)) == {H100_SPOT: 3}
        assert spread(decided(there, *running(0, 3), replicas=4, **SHARED)) == {H100_SPOT: 3, H100: 1}

    @pytest.mark.parametrize(
        ("before", "replicas", "after"),
        [((1, 4), 3, {H100: 1, H100_SPOT: 2}), ((3, 2), 3, {H100: 1, H100_SPOT: 2}), ((1, 4), 1, {H100: 1})],
    )
    def test_the_replica_on_demand_is_the_last_to_go(
        self, before: tuple[int, int], replicas: int, after: dict[str, int]
    ) -> None:
        where = fleet(on_demand(held=before[0]), spot(held=before[1]))
        assert spread(decided(where, *running(*before), replicas=replicas, **SHARED)) == after

    def test_more_replicas_of_the_live_loop_keep_the_share(self) -> None:
        where = fleet(on_demand(held=1), spot(held=2))
        wanted = tenant(request(replicas=3, **SHARED), *running(1, 2))
        asked = plan_of(wanted, where).what_if(wanted.request.key)
        answer = asked.ask(replace(wanted, request=wanted.request.with_replicas(5)))
        assert spread(answer.decision) == {H100: 1, H100_SPOT: 4}


@pytest.mark.parametrize(("objective", "taken"), [(Objective.BALANCED, H100), (Objective.BATCH, H100_SPOT)])
def test_a_spot_node_must_save_more_than_its_interruptions_cost(objective: Objective, taken: str) -> None:
    """Eight people who wait five minutes a day are worth 5.6 cents an hour if ``Balanced``."""
    wanted = request(constraints=only(STAYS, SPOT), objective=objective)
    near = fleet(on_demand(price="2.97"), spot(price="2.97"))
    assert placed(wanted, near).choice.gpu.name == taken
    assert placed(wanted, fleet(on_demand(price="2.50"), spot(price="2.50"))).choice.gpu.name == H100_SPOT


class TestRunningPools:
    """A pool of an earlier release has the card's name and no restriction, whatever its nodes are."""

    def test_a_pool_on_spot_nodes_stays_as_it_is_with_their_price(self) -> None:
        decision = decided(fleet(spot(held=1)), pool(H100))
        (kept,) = decision.pools
        assert isinstance(kept.choice, Option)
        assert (kept.name, kept.target, kept.choice.target) == (pool(H100).name, pool(H100).target, pool(H100).target)
        assert (kept.choice.hourly_price, kept.surge) == (Decimal("1.10"), True)

    def test_a_pool_is_not_restarted_when_spot_nodes_appear(self) -> None:
        (kept,) = decided(fleet(on_demand(held=1), spot()), pool(H100)).pools
        assert (kept.name, kept.target) == (pool(H100).name, pool(H100).target)

    def test_a_restriction_that_the_user_adds_reaches_the_pods(self) -> None:
        (kept,) = decided(BOTH, pool(H100), generation=2, constraints=only(STAYS)).pools
        assert kept.choice is not None
        assert (kept.target.capacity, kept.choice.target.capacity) == (STAYS, STAYS)

    def test_a_restriction_that_rules_the_pool_out_replaces_it(self) -> None:
        decision = decided(BOTH, pool(H100), generation=2, constraints=only(SPOT))
        assert [(each.gpu_type, each.state.value) for each in decision.pools] == [
            (H100_SPOT, "Active"),
            (H100, "Retiring"),
        ]

    def test_replicas_whose_spot_nodes_were_taken_back_go_to_nodes_on_demand(self) -> None:
        lost = replace(
            pool(H100, replicas=2, bound=0, ready=0, stranded=2),
            name=f"{H100_SPOT}-tp1",
            target=replace(pool(H100).target, gpu_type=H100_SPOT, capacity=SPOT),
        )
        decision = decided(fleet(on_demand()), lost, replicas=2)
        active = [each for each in decision.pools if each.state.value == "Active"]
        assert [(each.gpu_type, each.replicas) for each in active] == [(H100, 2)]
