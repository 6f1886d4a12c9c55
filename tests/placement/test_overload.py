"""Who waits if not all replicas have a place: the younger ones, or as few as possible. What runs stays either way."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from plimsoll.adapters.highs import Highs, fleetwide
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import Overrides
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.solvers import Fleetwide, Overload
from plimsoll.placement.solvers.deciding import Decided, decide, in_levels
from plimsoll.placement.solvers.problem import Choice, Group, Kind, Posed, Problem
from plimsoll.placement.solvers.search import search
from tests.support.planning import A100, H100, LLAMA_8B, LLAMA_70B, fleet, node, pool, request, tenant
from tests.support.tables import every_case
from tests.support.world_plans import planned

Make = Callable[[Overload], Fleetwide]

FULL = fleet(node("h", H100, 4))


@pytest.fixture(params=["programme", "search"])
def make(request: pytest.FixtureRequest) -> Make:
    return fleetwide if request.param == "programme" else lambda overload: Fleetwide(None, overload)


def old() -> Tenant:
    """A deployment that needs all GPUs of the fleet for one replica, and is older than the others."""
    four = Overrides(tensor_parallel=4)
    return tenant(request(LLAMA_70B, name="old", created="0", overrides=four))


def young(count: int = 4) -> list[Tenant]:
    """Deployments that need one GPU each."""
    return [tenant(request(LLAMA_8B, name=f"y{index}", created=f"{1 + index}")) for index in range(count)]


def outcome(asking: Sequence[Tenant], solver: Fleetwide) -> tuple[dict[str, int], Appraisal | None]:
    made = planned(asking, FULL, solver=solver)
    return {key.name: decision.missing for key, decision in made.decisions.items()}, made.appraisal


def test_by_age_the_young_wait_and_the_record_says_how_many_fewer_would(make: Make) -> None:
    missing, appraisal = outcome([old(), *young()], make(Overload.SENIORITY))
    assert missing == {"old": 0, "y0": 1, "y1": 1, "y2": 1, "y3": 1}
    assert appraisal is not None
    assert appraisal.seniority_price == 3


def test_most_placed_lets_as_few_replicas_wait_as_possible(make: Make) -> None:
    missing, appraisal = outcome([old(), *young()], make(Overload.MOST_PLACED))
    assert missing == {"old": 1, "y0": 0, "y1": 0, "y2": 0, "y3": 0}
    assert appraisal is not None
    assert appraisal.seniority_price == 0


@pytest.mark.parametrize("overload", Overload)
def test_a_higher_priority_comes_first_whatever_counts_among_equals(make: Make, overload: Overload) -> None:
    missing, appraisal = outcome([replace(old(), priority=Priority(10)), *young()], make(overload))
    assert missing == {"old": 0, "y0": 1, "y1": 1, "y2": 1, "y3": 1}
    assert appraisal is not None
    assert appraisal.seniority_price == 0


@pytest.mark.parametrize("overload", Overload)
def test_a_running_replica_is_not_taken_from_its_deployment(make: Make, overload: Overload) -> None:
    runs = replace(old(), pools=(pool(H100, 4),))
    made = planned([runs, *young()], fleet(node("h", H100, 4, held=4)), solver=make(overload))
    assert [decision.missing for decision in made.decisions.values()] == [0, 1, 1, 1, 1]
    (kept,) = made.decisions[runs.request.key].pools
    assert (kept.gpu_type, kept.replicas) == (H100, 1)


@pytest.mark.parametrize("overload", Overload)
def test_who_waits_does_not_matter_while_all_have_a_place(make: Make, overload: Overload) -> None:
    where = fleet(node("h", H100, 8), node("a", A100, 8))
    made = planned([old(), *young()], where, solver=make(overload))
    assert [decision.missing for decision in made.decisions.values()] == [0] * 5
    assert made.appraisal is not None
    assert made.appraisal.seniority_price == 0


def test_the_price_of_plans_one_after_the_other_is_their_sum_if_both_are_known() -> None:
    first = Appraisal("programme", 1.0, 1.0, 2, seniority_price=3)
    assert first.with_(Appraisal("search", 1.0, None, 1, seniority_price=4)).seniority_price == 7
    assert first.with_(Appraisal("search", 1.0, None, 1, seniority_price=None)).seniority_price is None


@pytest.mark.parametrize(("bounds", "bound"), [((1.0, 2.0), 3.0), ((None, 2.0), None), ((1.0, None), None)])
def test_what_is_proven_of_two_placements_is_proven_of_both_together(
    bounds: tuple[float | None, float | None], bound: float | None
) -> None:
    first, last = Appraisal("programme", 4.0, bounds[0], 2), Appraisal("programme", 8.0, bounds[1], 3)
    assert first.with_(last) == Appraisal("programme", 12.0, bound, 5)


@pytest.mark.parametrize(
    ("bill", "bound", "gap"), [(10.0, 9.0, 0.1), (0.0, 0.0, 0.0), (1.0, 0.5, 0.5), (5.0, 5.1, 0.0), (5.0, None, None)]
)
def test_the_gap_is_what_a_better_plan_might_save(bill: float, bound: float | None, gap: float | None) -> None:
    assert Appraisal("programme", bill, bound, 1).gap == (None if gap is None else pytest.approx(gap))


@pytest.mark.parametrize(
    ("bill", "bound", "least", "proven"),
    [
        (2.0, 1.8, 1.5, 1.5),
        (2.0, 1.8, 1.9, 1.8),
        (2.0, None, 1.5, 1.5),
        (1.5 - 1e-9, 1.5, 1.5, 1.5),
        (1.4, 1.4, 1.5, None),
    ],
    ids=[
        "another size is cheaper",
        "another bound is",
        "no other bound",
        "the least but for rounding",
        "fewer replicas",
    ],
)
def test_a_size_that_was_chosen_alone_is_compared_with_the_least_bill_of_any(
    bill: float, bound: float | None, least: float, proven: float | None
) -> None:
    assert Appraisal("programme", bill, bound, 1).in_any_size(least).bound == proven


def test_the_levels_of_those_who_may_wait_count_from_one_and_without_a_gap() -> None:
    """A programme is solved for each of them."""
    kind = Kind((Choice((H100, Split(1)), 1, 2.0, 0, (0,)),), (3,), whole=False, spare=0, level=0)
    posed = Posed(Problem((kind,), (4,), ()), ((0, 1, 2, 3),), (), levels=((0, 1), (2,), (3,)))
    assert in_levels(posed, {0, 1, 3}) == {0: (3, 1), 1: (3, 1), 3: (3, 2)}


def crowded(seed: int) -> Posed:
    """Six deployments, the oldest first, with choices on three groups of nodes that are too small for them."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    groups = tuple(Group(((1, gpus), (2, gpus // 2))) for gpus in dice.choices((2, 3, 4), k=3))
    kinds = tuple(
        Kind(
            tuple(
                Choice((f"g{group}", Split(gpus)), gpus, float(gpus * dice.randrange(1, 9)), 0, (group,))
                for group in dice.sample(range(3), dice.randrange(1, 4))
                for gpus in [dice.choice((1, 1, 2))]
            ),
            (dice.randrange(1, 4),),
            whole=False,
            spare=0,
            level=0,
        )
        for _ in range(6)
    )
    each = tuple((index,) for index in range(6))
    return Posed(Problem(kinds, (1,) * 6, groups), each, (), levels=(tuple(range(6)),))


def missing(posed: Posed, decided: Decided | None) -> list[int]:
    """The replicas without a place of each deployment, the oldest first."""
    assert decided is not None
    found = dict.fromkeys(range(6), 0)
    for those, share in zip(decided.posed.members, decided.shares, strict=True):
        for index in those:
            found[index] += sum(count for _, count in share.parts)
    return [kind.replicas - found[index] for index, kind in enumerate(posed.problem.kinds)]


@every_case("seed", range(24))
def test_where_age_does_not_count_the_search_places_as_many_as_the_programme(seed: int) -> None:
    """In small worlds. In larger ones it may place fewer: the benchmark says how many."""
    posed = crowded(seed)
    by_search, by_programme = search(posed, Overload.MOST_PLACED), decide(posed, Highs(), Overload.MOST_PLACED)
    assert sum(missing(posed, by_search)) == sum(missing(posed, by_programme))


@every_case("seed", range(24))
def test_where_age_counts_no_other_plan_gives_an_older_deployment_more(seed: int) -> None:
    posed = crowded(seed)
    by_programme = missing(posed, decide(posed, Highs(), Overload.SENIORITY))
    for other in (search(posed), search(posed, Overload.MOST_PLACED), decide(posed, Highs(), Overload.MOST_PLACED)):
        assert by_programme <= missing(posed, other)
