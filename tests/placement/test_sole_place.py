"""The place for all replicas of a new demand is the one that its turn takes."""

from __future__ import annotations

import random

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import GpuConstraints
from plimsoll.placement.demands.demand import Demand, demand_of
from plimsoll.placement.demands.pools import Pool
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.solvers.sizes import sole_place
from plimsoll.placement.solvers.turn import Turn
from tests.support.planning import A100, H100, L4, L40S, LLAMA_70B_FP8, fleet, gpu, node, pool, request, tenant
from tests.support.tables import every_case

KINDS = (L4, L40S, A100, H100)


@every_case("seed", range(60))
def test_it_is_what_a_turn_takes(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - the same fleets in every run
    where = fleet(
        *(
            node(f"n{index}", gpu(dice.choice(KINDS), price=str(dice.randint(1, 6))), dice.choice((1, 2, 4)))
            for index in range(dice.randint(1, 4))
        )
    )
    quota = {"default": {"nvidia.com/gpu": dice.randint(1, 6)}} if dice.random() < 0.5 else {}
    ledger = Ledger.of(where, quota)
    model = dice.choice(("meta-llama/Llama-3.1-8B-Instruct", LLAMA_70B_FP8))
    wanted = request(model, context=dice.choice((4096, 16_384)), replicas=dice.randint(1, 4))
    demand = demand_of(tenant(wanted), where, Memo())
    granted = Turn(demand, where, ledger).take().granted
    is_sole = len(granted) == 1 and granted[0].replicas == wanted.replicas
    assert sole_place(demand, where, ledger) == (granted[0].choice if is_sole else None)


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
