"""The place for all replicas of a new demand is the one that its turn takes, and that a programme gives to it alone."""

from __future__ import annotations

import random

import pytest

from plimsoll.adapters import highs
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import GpuConstraints, Request
from plimsoll.placement.demands.demand import Demand, demand_of
from plimsoll.placement.demands.pools import Pool
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.ledger import Ledger, Quotas
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import fleetwide
from plimsoll.placement.solvers.sizes import sole_place
from plimsoll.placement.solvers.turn import Turn
from tests.support.planning import A100, H100, L4, L40S, LLAMA_70B_FP8, fleet, gpu, node, pool, request, tenant
from tests.support.tables import every_case

KINDS = (L4, L40S, A100, H100)


def drawn(seed: int) -> tuple[Fleet, Quotas, Request]:
    dice = random.Random(seed)  # noqa: S311 - the same fleets in every run
    where = fleet(
        *(
            node(f"n{index}", gpu(dice.choice(KINDS), price=str(dice.randint(1, 6))), dice.choice((1, 2, 4)))
            for index in range(dice.randint(1, 4))
        )
    )
    quota = {"default": {"nvidia.com/gpu": dice.randint(1, 6)}} if dice.random() < 0.5 else {}
    model = dice.choice(("meta-llama/Llama-3.1-8B-Instruct", LLAMA_70B_FP8))
    return where, quota, request(model, context=dice.choice((4096, 16_384)), replicas=dice.randint(1, 4))


@every_case("seed", range(60))
def test_it_is_what_a_turn_takes(seed: int) -> None:
    where, quota, wanted = drawn(seed)
    ledger, demand = Ledger.of(where, quota), demand_of(tenant(wanted), where, Memo())
    granted = Turn(demand, where, ledger).take().granted
    is_sole = len(granted) == 1 and granted[0].replicas == wanted.replicas
    assert sole_place(demand, where, ledger) == (granted[0].choice if is_sole else None)


@every_case("seed", range(60))
def test_a_programme_gives_it_to_a_demand_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    where, quota, wanted = drawn(seed)
    [found] = plan([tenant(wanted)], where, quotas=quota, solver=highs.fleetwide())
    with monkeypatch.context() as patch:  # of this case alone
        patch.setattr(fleetwide, "best_alone", lambda *_: None)
        [solved] = plan([tenant(wanted)], where, quotas=quota, solver=highs.fleetwide())
    assert found == solved
    if found.appraisal is not None and solved.appraisal is not None:
        bills = solved.appraisal.bill, solved.appraisal.bound
        assert (found.appraisal.bill, found.appraisal.bound) == pytest.approx(bills, rel=0.002)


def test_a_demand_alone_needs_no_programme_if_its_best_choice_has_room() -> None:
    where = fleet(node("l", L40S, 1), node("h", H100, 4))
    asked: list[object] = []
    solver = fleetwide.Fleetwide(library=lambda: asked.append)
    [decision] = plan([tenant(request(replicas=1))], where, solver=solver)
    assert ([each.gpu_type for each in decision.pools], asked) == ([L40S], [])
    plan([tenant(request(replicas=2))], where, solver=solver)
    assert asked


def new_demand(*pools: Pool, replicas: int = 1, left: tuple[Rehoming, ...] = ()) -> Demand:
    where = fleet(node("l", L40S, 4), node("h", H100, 4))
    rules = GpuConstraints(max_per_replica=1)
    return demand_of(tenant(request(replicas=replicas, constraints=rules), *pools, left=left), where, Memo())


def type_of(demand: Demand) -> str | None:
    where = fleet(node("l", L40S, 4), node("h", H100, 4))
    option = sole_place(demand, where, Ledger.of(where))
    return None if option is None else option.gpu.name


def test_a_demand_with_pools_has_none() -> None:
    assert type_of(new_demand(replicas=2)) == L40S
    assert type_of(new_demand(pool(H100), replicas=2)) is None


def test_a_demand_that_misses_no_replica_has_none() -> None:
    assert type_of(new_demand(replicas=0)) is None


def test_a_place_that_was_left_is_not_taken() -> None:
    assert type_of(new_demand()) == L40S
    assert type_of(new_demand(left=(Rehoming(L40S, Split(1), at=0.0),))) == H100
