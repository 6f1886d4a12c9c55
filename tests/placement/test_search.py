"""The solver without a library on problems that are small enough to try every plan, and its parts by value."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from plimsoll.adapters.highs import Highs
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.solvers import search as module
from plimsoll.placement.solvers.deciding import Decided, Overload, decide
from plimsoll.placement.solvers.formulation import Share
from plimsoll.placement.solvers.problem import Choice, Group, Kind, Posed, Problem
from plimsoll.placement.solvers.search import in_turn, of_round, search, windows


def choice(
    group: int, price: float = 1.0, *, gpus: int = 1, doubts: int = 0, size: int = 0, other: int | None = None
) -> Choice:
    groups = (group,) if other is None else (group, other)
    return Choice((f"g{group}", Split(gpus)), gpus, price, doubts, groups, size=size)


def kind(*choices: Choice, replicas: int = 1, sizes: tuple[int, ...] = (), whole: bool = False) -> Kind:
    return Kind(choices, sizes or (replicas,), whole=whole, spare=0, level=0)


def posed(kinds: Sequence[Kind], gpus: Sequence[int], *levels: tuple[int, ...]) -> Posed:
    """One deployment of each kind, the oldest first, and groups of one node each."""
    groups = tuple(Group(((1, free), (2, free // 2), (4, free // 4))) for free in gpus)
    each = tuple((index,) for index in range(len(kinds)))
    levels = levels or (tuple(range(len(kinds))),)
    return Posed(Problem(tuple(kinds), (1,) * len(kinds), groups), each, (), levels=levels)


def placed(decided: Decided | None) -> list[dict[int, int]]:
    """The replicas of each deployment by choice."""
    assert decided is not None
    found = []
    for share in decided.shares:
        counted: Counter[int] = Counter()
        for (index, _), replicas in share.parts:
            counted[index] += replicas
        found.append(dict(counted))
    return found


def missing(problem: Posed, decided: Decided) -> list[int]:
    """The replicas without a place of each deployment, counted in replicas of its first size."""
    kinds = problem.problem.kinds
    return [each.replicas - sum(share.values()) for each, share in zip(kinds, placed(decided), strict=True)]


Way = dict[tuple[int, int], int]
"""The replicas of a deployment by choice and group."""


class TestEveryPlan:
    """The best of all plans, which are tried one by one here."""

    @staticmethod
    def ways(kind: Kind) -> Iterator[Way]:
        most = kind.replicas
        places = [(index, group) for index, each in enumerate(kind.choices) for group in each.groups]
        for counts in itertools.product(range(most + 1), repeat=len(places)):
            way = {place: count for place, count in zip(places, counts, strict=True) if count}
            total, used = sum(counts), {index for index, _ in way}
            if total <= most and not (kind.whole and total and (len(used) > 1 or total < most)):
                yield way

    @staticmethod
    def has_room(problem: Posed, plan: Sequence[Way]) -> bool:
        used: Counter[tuple[int, int]] = Counter()
        for kind, way in zip(problem.problem.kinds, plan, strict=True):
            for (index, group), count in way.items():
                for size in (1, 2, 4):
                    used[group, size] += count * (kind.choices[index].gpus // size)
        room = {(at, size): free for at, group in enumerate(problem.problem.groups) for size, free in group.slots}
        return all(count <= room[where] for where, count in used.items())

    @staticmethod
    def score(problem: Posed, plan: Sequence[Way]) -> tuple[list[int], int, float]:
        """Missing replicas, the oldest first; doubts; the bill, with a tenth of the cheapest bill for a mix."""
        lacking, doubts, bill = [], 0, 0.0
        for kind, way in zip(problem.problem.kinds, plan, strict=True):
            lacking.append(kind.replicas - sum(way.values()))
            doubts += sum(kind.choices[index].doubts * count for (index, _), count in way.items())
            bill += sum(kind.choices[index].price * count for (index, _), count in way.items())
            if len({kind.choices[index].place for index, _ in way}) > 1:
                bill += 0.1 * kind.replicas * min(each.price for each in kind.choices)
        return lacking, doubts, round(bill, 5)

    @staticmethod
    def drawn(seed: int) -> Posed:
        """Three deployments on four groups of nodes. A choice may be on two of them."""
        dice = random.Random(seed)  # noqa: S311 - no secret

        def choices() -> tuple[Choice, ...]:
            found = [
                choice(
                    group,
                    gpus * dice.randrange(10, 90) / 10,
                    gpus=gpus,
                    doubts=dice.choice((0, 0, 1)),
                    other=3 if group == 0 else None,
                )
                for group in dice.sample(range(3), dice.randrange(1, 4))
                for gpus in [dice.choice((1, 1, 2))]
            ]
            return tuple(sorted(found, key=lambda each: (each.doubts, each.price)))

        kinds = [kind(*choices(), replicas=dice.randrange(1, 4), whole=dice.random() < 0.2) for _ in range(3)]
        return posed(kinds, [dice.randrange(1, 5) for _ in range(4)])

    @pytest.mark.parametrize("seed", range(5))
    def test_the_search_and_the_programme_find_the_best_of_all_plans_of_a_small_problem(self, seed: int) -> None:
        problem = self.drawn(seed)
        plans = itertools.product(*(list(self.ways(kind)) for kind in problem.problem.kinds))
        best = min(self.score(problem, plan) for plan in plans if self.has_room(problem, plan))
        programme = decide(problem, Highs())
        assert programme is not None
        for found in (search(problem), replace(programme, posed=problem, shares=by_deployment(problem, programme))):
            plan = [dict(share.parts) for share in found.shares]
            assert self.has_room(problem, plan)
            assert self.score(problem, plan) == best
            if not any(best[0]):  # of a part of its replicas at one place, the programme charges a mix
                assert found.appraisal.bill == pytest.approx(best[2], abs=1e-4)
            assert found.appraisal.bound is not None
            assert found.appraisal.bound <= found.appraisal.bill + 1e-4
        turns = in_turn(problem)
        if turns is not None:
            assert self.score(problem, [dict(share.parts) for share in turns.shares]) == best


def by_deployment(problem: Posed, decided: Decided) -> tuple[Share, ...]:
    """The shares in the order of deployments. The programme divides kinds by who may miss replicas."""
    found = {index: share for (index,), share in zip(decided.posed.members, decided.shares, strict=True)}
    return tuple(found[index] for index in range(len(problem.members)))


class TestInTurn:
    """One after the other takes its best choice, if no plan can be better."""

    def test_everybody_has_the_cheapest_choice(self) -> None:
        problem = posed([kind(choice(0, 2.0), choice(1, 3.0), replicas=2), kind(choice(1, 3.0))], [2, 1])
        decided = in_turn(problem)
        assert placed(decided) == [{0: 2}, {0: 1}]
        assert decided is not None
        assert decided.shares[0] == Share(whole=((0, 1),), mixed=(), loose=(), parts=(((0, 0), 2),))
        appraisal = decided.appraisal
        assert (appraisal.solver, appraisal.bill, appraisal.bound, appraisal.deployments) == ("in turn", 7.0, 7.0, 2)

    @pytest.mark.parametrize(
        "problem",
        [
            posed([kind(choice(0), replicas=2)], [1]),
            posed([kind(choice(0, 1.0)), kind(choice(0, 1.0), choice(1, 2.0))], [1, 1]),
            posed([kind(choice(0, 1.0)), kind(choice(0, 1.0), choice(1, 1.0, doubts=1))], [1, 1]),
            posed([kind(choice(0, 1.0), choice(1, 1.0), replicas=2)], [1, 1]),
        ],
        ids=["a replica is missing", "one pays more", "one is in doubt", "one pays for a mix"],
    )
    def test_nothing_if_another_plan_may_be_better(self, problem: Posed) -> None:
        assert in_turn(problem) is None

    def test_doubts_that_nobody_can_avoid_are_no_reason_to_search(self) -> None:
        assert placed(in_turn(posed([kind(choice(0, doubts=2), replicas=3)], [3]))) == [{0: 3}]


class TestTheBill:
    """A mix of places pays a tenth of the cheapest bill for all replicas."""

    @pytest.mark.parametrize(("other", "expected"), [(1.1, {1: 2}), (1.3, {0: 1, 1: 1})])
    def test_a_mix_must_save_a_tenth(self, other: float, expected: dict[int, int]) -> None:
        """One of two replicas has room for 1.0. The mix costs 1.0 + other + 0.2, both of the other 2 x other."""
        assert placed(search(posed([kind(choice(0, 1.0), choice(1, other), replicas=2)], [1, 2]))) == [expected]

    def test_a_mix_of_groups_of_one_place_pays_nothing(self) -> None:
        found = search(posed([kind(choice(0, 2.0, other=1), choice(2, 2.1), replicas=2)], [1, 1, 2]))
        assert placed(found) == [{0: 2}]
        assert (found.appraisal.bill, found.appraisal.bound) == (4.0, 4.0)
        assert found.shares[0] == Share(whole=((0, 1),), mixed=(), loose=(), parts=(((0, 0), 1), ((0, 1), 1)))

    def test_a_divided_deployment_counts_its_replicas_by_choice_and_by_group(self) -> None:
        found = search(posed([kind(choice(0, 1.0), choice(1, 5.0), replicas=5)], [2, 3]))
        assert found.shares == (
            Share(whole=(), mixed=((0, 1),), loose=((0, 2), (1, 3)), parts=(((0, 0), 2), ((1, 1), 3))),
        )
        assert found.appraisal.bill == pytest.approx(2 * 1.0 + 3 * 5.0 + 0.1 * 5 * 1.0)
        assert found.appraisal.bound == 5.0

    def test_who_has_no_replica_has_no_share_and_no_bill(self) -> None:
        found = search(posed([kind(choice(0), replicas=2), kind(choice(1, 3.0))], [0, 1]))
        assert found.shares[0] == Share(whole=(), mixed=(), loose=(), parts=())
        assert (found.appraisal.bill, found.appraisal.bound) == (3.0, 3.0)

    def test_of_a_part_the_bound_is_that_of_as_many_of_the_cheapest(self) -> None:
        found = search(posed([kind(choice(0, 2.0), choice(1, 1.0), replicas=5)], [2, 1]))
        assert found.appraisal.bill == pytest.approx(2 * 2.0 + 1 * 1.0 + 0.1 * 5 * 1.0)
        assert found.appraisal.bound == 3.0

    def test_a_replacement_is_not_divided(self) -> None:
        found = search(posed([kind(choice(0, 1.0), choice(1, 2.0), replicas=2, whole=True)], [1, 1]))
        assert placed(found) == [{}]
        found = search(posed([kind(choice(0, 1.0), choice(1, 2.0), replicas=2, whole=True)], [1, 2]))
        assert placed(found) == [{1: 2}]


class TestSizes:
    """One large replica or three small ones, for the same load."""

    LARGE, SMALL = choice(0, 4.0, gpus=2), choice(1, 1.0, size=1)

    def test_the_cheaper_size_is_taken_for_all_replicas_of_it(self) -> None:
        found = search(posed([kind(self.LARGE, self.SMALL, sizes=(1, 3))], [2, 3]))
        assert placed(found) == [{1: 3}]
        assert (found.appraisal.bill, found.appraisal.bound) == (3.0, 3.0)

    def test_a_part_of_one_size_is_worse_than_all_of_the_other(self) -> None:
        found = search(posed([kind(self.LARGE, self.SMALL, sizes=(1, 3))], [2, 2]))
        assert placed(found) == [{0: 1}]
        assert (found.appraisal.bill, found.appraisal.bound) == (4.0, 3.0)

    def test_two_thirds_are_better_than_nothing(self) -> None:
        found = search(posed([kind(self.LARGE, self.SMALL, sizes=(1, 3))], [1, 2]))
        assert placed(found) == [{1: 2}]
        assert found.shares[0].mixed == ((1, 1),)
        assert (found.appraisal.bill, found.appraisal.bound) == (2.0, 2.0)

    def test_doubts_count_by_the_load_and_not_by_the_replicas(self) -> None:
        """Three small replicas of one doubt are as doubtful as one large one: then the cheaper ones."""
        doubtful = [replace(each, doubts=1) for each in (self.LARGE, self.SMALL)]
        assert placed(search(posed([kind(*doubtful, sizes=(1, 3))], [2, 3]))) == [{1: 3}]
        doubtful[1] = replace(doubtful[1], doubts=2)
        assert placed(search(posed([kind(*doubtful, sizes=(1, 3))], [2, 3]))) == [{0: 1}]


class TestWhoWaits:
    """The order of goals if not all replicas have a place."""

    @staticmethod
    def behind(hopeless: int) -> Posed:
        """One of two GPUs that is older than two of one GPU, behind others that have room nowhere."""
        never = [kind(choice(1)) for _ in range(hopeless)]
        return posed([*never, kind(choice(0, gpus=2)), kind(choice(0)), kind(choice(0))], [2, 0])

    @pytest.mark.parametrize(("hopeless", "last"), [(0, [0, 1, 1]), (5, [0, 1, 1]), (6, [1, 0, 0]), (7, [1, 0, 0])])
    def test_behind_six_that_miss_replicas_the_most_get_a_place_whatever_their_age(
        self, hopeless: int, last: list[int]
    ) -> None:
        problem = self.behind(hopeless)
        assert missing(problem, search(problem)) == [1] * hopeless + last

    def test_without_regard_to_age_the_most_get_a_place(self) -> None:
        problem = self.behind(0)
        found = search(problem, Overload.MOST_PLACED)
        assert missing(problem, found) == [1, 0, 0]
        assert found.appraisal.seniority_price == 0

    @pytest.mark.parametrize("overload", Overload)
    def test_a_higher_priority_comes_first_even_so(self, overload: Overload) -> None:
        problem = replace(self.behind(0), levels=((0,), (1, 2)))
        assert missing(problem, search(problem, overload)) == [0, 1, 1]

    def test_the_price_of_age_is_counted_in_replicas(self) -> None:
        assert search(self.behind(0)).appraisal.seniority_price == 1
        older = kind(choice(0, gpus=4))
        four = posed([older, *(kind(choice(0)) for _ in range(4))], [4])
        assert search(four).appraisal.seniority_price == 3

    def test_the_price_of_age_is_nothing_where_all_have_a_place(self) -> None:
        assert search(posed([kind(choice(0)), kind(choice(0))], [2])).appraisal.seniority_price == 0

    def test_an_older_one_makes_room_for_a_younger_one_at_its_own_expense(self) -> None:
        problem = posed([kind(choice(0, 1.0), choice(1, 9.0)), kind(choice(0, 1.0))], [1, 1])
        assert placed(search(problem)) == [{1: 1}, {0: 1}]


class TestTheStarts:
    """Plans that one of the orders finds without any further round."""

    @pytest.fixture(autouse=True)
    def _no_rounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "ROUNDS", 0)

    def test_by_what_the_second_choice_costs_more(self) -> None:
        """By age, by GPUs and by the number of choices the first one takes the cheap place."""
        problem = posed([kind(choice(0, 1.0), choice(1, 2.0)), kind(choice(0, 1.0), choice(2, 6.0))], [1, 1, 1])
        assert placed(search(problem)) == [{1: 1}, {0: 1}]

    def test_what_it_costs_more_is_that_of_all_replicas(self) -> None:
        """Three that would pay 1 more each, and an older one that would pay 2 more, where three have room."""
        one = kind(choice(0, 1.0), choice(1, 3.0))
        three = kind(choice(0, 1.0), choice(2, 2.0), replicas=3, whole=True)
        assert placed(search(posed([one, three], [3, 1, 3]))) == [{1: 1}, {0: 3}]

    def test_who_has_no_second_choice_regrets_the_most(self) -> None:
        problem = posed([kind(choice(0, 1.0), choice(1, 9.0)), kind(choice(0, 1.0))], [1, 1])
        assert placed(search(problem)) == [{1: 1}, {0: 1}]


def test_the_rounds_choose_evenly_spread_deployments_in_changing_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUNDS", 4)
    monkeypatch.setattr(module, "RUINED", 3)
    # the steps are 1 + (0, 7919, 15838, 23757) % 4
    assert list(windows(5)) == [[0, 1, 2], [1, 0, 4], [2, 0, 3], [3, 0, 2]]
    assert list(windows(2)) == [[0, 1], [1, 0], [0, 1], [1, 0]]
    assert list(windows(1)) == []
    assert list(windows(0)) == []


def test_who_misses_replicas_chooses_first_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUINED", 2)
    assert [of_round(number, [3, 5, 8]) for number in range(4)] == [[3, 5], [8, 3], [5, 8], [3, 5]]
    assert of_round(1, [7]) == [7]
    assert of_round(1, []) == []


@pytest.mark.parametrize(
    ("free", "dear", "parts"),
    [((1, 2), 5.0, {0: 1, 1: 1}), ((2, 2), 5.0, {0: 2}), ((1, 2), 1.1, {1: 2}), ((0, 2), 5.0, {1: 2})],
    ids=["a part is cheap", "all are", "less than a mix costs", "one place"],
)
def test_the_programme_divides_replicas_between_places_if_that_is_cheaper(
    free: tuple[int, int], dear: float, parts: dict[int, int]
) -> None:
    """A mix costs a tenth of the cheapest bill. Replicas that must not be apart are all at the dear place."""
    cheap = choice(0, 1.0), choice(1, dear)
    assert placed(decide(posed([kind(*cheap, replicas=2)], free), Highs())) == [parts]
    whole = {0: 2} if free[0] > 1 else {1: 2}
    assert placed(decide(posed([kind(*cheap, replicas=2, whole=True)], free), Highs())) == [whole]


@pytest.mark.parametrize(("left", "replicas"), [(-1.0, 0), (0.0, 0), (1.0, 1), (2.0, 2)])
def test_beyond_a_quota_that_is_used_up_or_was_lowered_below_its_use_nobody_is_placed(
    left: float, replicas: int
) -> None:
    limited = replace(choice(0), quotas=((0, 1.0),))
    problem = posed([kind(limited, replicas=2), kind(choice(0))], [4])
    problem = replace(problem, problem=replace(problem.problem, quotas=(left,)))
    assert placed(search(problem)) == [{0: replicas} if replicas else {}, {0: 1}]
