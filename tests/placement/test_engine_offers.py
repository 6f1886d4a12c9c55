"""The engines that were compared: by which point of the scores one comes first, and with what figures."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.domain.decisions.outcomes import Fit, Option, Placed, Rejection, Split
from plimsoll.domain.decisions.terms import Doubt, DoubtKind
from plimsoll.domain.engines.engine_choice import EngineRefusal
from plimsoll.domain.public_words import EngineReason, Reason
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.options.verdicts import UNPRICED
from plimsoll.placement.places.place import place
from plimsoll.placement.solvers import sizes
from plimsoll.placement.solvers.engine_offers import RankedAward, offers_of, only_offer
from plimsoll.placement.solvers.protocol import Award, Stock
from plimsoll.placement.solvers.sizes import ranked as ranked_of
from plimsoll.placement.solvers.sizes import score_of
from tests.support.planning import L4, L40S, fleet, gpu, node, request

Score = tuple[float, float, float, int]


def option(kind: str = L40S) -> Option:
    found = place(request(), fleet(node("n", gpu(kind, price="1.00"), 8)))
    assert isinstance(found, Placed)
    return found.choice


def award(engine: str, *granted: tuple[Option, int], missing: int | None = None, **changes: Any) -> Award:
    """An award of so many replicas at each place, to a demand that misses as many, or more."""
    verdicts = changes.pop("verdicts", tuple(each for each, _ in granted))
    demand = SimpleNamespace(
        request=replace(
            request(),
            engine=replace(request().engine, name=engine),
            engine_rank=changes.pop("rank", 0),
            refused_engines=changes.pop("refused", ()),
        ),
        kept=changes.pop("kept", ()),
        missing=sum(number for _, number in granted) if missing is None else missing,
        options=SimpleNamespace(verdicts=verdicts),
    )
    places = tuple(cast("Placed", SimpleNamespace(choice=each, replicas=number)) for each, number in granted)
    return Award(cast("Demand", demand), cast("Any", None), granted=places, **changes)


def ranked(engine: str, score: Score, *granted: tuple[Option, int], **changes: Any) -> RankedAward:
    return RankedAward(award(engine, *granted, **changes), score)


HERE = option()
DOUBTED = replace(HERE, estimate=replace(HERE.estimate, doubts=(Doubt(DoubtKind.NEWER_RELEASE, ()),)))


@pytest.mark.parametrize(
    ("granted", "doubts"),
    [
        (((HERE, 2),), 0.5),
        (((DOUBTED, 2),), 1.5),
        (((DOUBTED, 1), (HERE, 3)), 0.75),
        ((), 0.5),
    ],
)
def test_the_part_of_the_replicas_whose_estimate_is_in_doubt_counts_as_doubt(
    granted: tuple[tuple[Option, int], ...], doubts: float
) -> None:
    assert ranked("vllm", (0.25, 0.5, 3.0, 4), *granted, rank=2).score == (0.25, 2, doubts, 3.0, 4)


@pytest.mark.parametrize(
    ("taken", "lost", "wins", "loses"),
    [
        ((0.0, 0.0, 2.0, 1), (0.5, 0.0, 1.0, 1), EngineReason.MORE_ROOM, EngineReason.LESS_ROOM),
        ((0.0, 0.0, 2.0, 1), (0.0, 1.0, 1.0, 1), EngineReason.SURER_FIT, EngineReason.LESS_SURE),
        ((0.0, 0.0, 1.0, 1), (0.0, 0.0, 2.0, 1), EngineReason.LOWER_COST, EngineReason.HIGHER_COST),
        ((0.0, 0.0, 1.0, 1), (0.0, 0.0, 1.0, 1), EngineReason.FIRST_IN_ORDER, EngineReason.LATER_IN_ORDER),
    ],
)
def test_the_first_point_that_is_worse_is_the_reason(
    taken: Score, lost: Score, wins: EngineReason, loses: EngineReason
) -> None:
    first, second = offers_of([ranked("vllm", taken, (HERE, 1)), ranked("sglang", lost, (HERE, 1))], ())
    assert (first.engine, first.reason, first.numbers[0]) == ("vllm", wins, ("other", "sglang"))
    assert (second.engine, second.reason, second.numbers[0]) == ("sglang", loses, ("other", "vllm"))
    names = {EngineReason.LOWER_COST: ["other", "cost", "other_cost", "million", "other_million"]}
    names |= {EngineReason.SURER_FIT: ["other", "fit", "other_fit"]}
    assert [name for name, _ in first.numbers] == names.get(wins, ["other"])


def test_costs_are_those_of_both_with_the_price_of_a_million_tokens_if_both_have_one() -> None:
    taken, lost = (0.0, 0.0, 1.25, 1), (0.0, 0.0, 2.5, 1)
    first, second = offers_of([ranked("vllm", taken, (HERE, 1)), ranked("sglang", lost, (HERE, 1))], ())
    assert (dict(first.numbers)["cost"], dict(first.numbers)["other_cost"]) == ("1.2500", "2.5000")
    assert (dict(second.numbers)["cost"], dict(second.numbers)["other_cost"]) == ("2.5000", "1.2500")
    unknown = replace(HERE, performance=None)
    first, _ = offers_of([ranked("vllm", taken, (HERE, 1)), ranked("sglang", lost, (unknown, 1))], ())
    assert [name for name, _ in first.numbers] == ["other", "cost", "other_cost"]


@pytest.mark.parametrize(("ranks", "numbers"), [((0, 1), ()), ((0, 1000), (("unlisted", 1),))])
def test_the_users_order_is_the_reason_and_an_engine_that_it_omits_is_called_so(
    ranks: tuple[int, int], numbers: tuple[tuple[str, int], ...]
) -> None:
    taken = ranked("vllm", (0.0, 0.0, 2.0, 1), (HERE, 1), rank=ranks[0])
    lost = ranked("sglang", (0.0, 0.0, 1.0, 1), (HERE, 1), rank=ranks[1])
    first, second = offers_of([taken, lost], ())
    assert (first.reason, first.numbers) == (EngineReason.PREFERRED, (("other", "sglang"), *numbers))
    assert (second.reason, second.numbers) == (EngineReason.LESS_PREFERRED, (("other", "vllm"), *numbers))


def test_fits_are_those_of_both() -> None:
    taken, lost = ranked("vllm", (0.0, 0.0, 2.0, 1), (HERE, 1)), ranked("sglang", (0.0, 0.0, 1.0, 1), (DOUBTED, 1))
    first, second = offers_of([taken, lost], ())
    assert first.numbers == (("other", "sglang"), ("fit", HERE.estimate.fit.value), ("other_fit", Fit.PROBABLE.value))
    assert second.numbers == (("other", "vllm"), ("fit", Fit.PROBABLE.value), ("other_fit", HERE.estimate.fit.value))


def test_of_several_others_the_next_best_one_comes_second_and_is_compared_with() -> None:
    awards = [ranked(name, (0.0, 0.0, bill, 1), (HERE, 1)) for name, bill in (("a", 1.0), ("b", 3.0), ("c", 2.0))]
    first, second, third = offers_of(awards, ())
    assert (first.engine, second.engine, third.engine) == ("a", "c", "b")
    assert dict(first.numbers)["other"] == "c"
    assert dict(first.numbers)["other_cost"] == "2.0000"


def test_without_a_place_nothing_is_compared() -> None:
    nowhere = ranked("vllm", (1.0, 0.0, 0.0, 1), missing=2)
    rejection = Rejection(L4, Split(1), Reason.TOO_LITTLE_VRAM)
    other = ranked("sglang", (1.0, 0.0, 0.0, 1), missing=2, verdicts=(rejection,), rejections=(rejection,))
    first, second = offers_of([nowhere, other], ())
    assert (first.reason, first.numbers, first.missing, first.places) == (EngineReason.NO_PLACE, (), 2, ())
    assert (second.reason, second.nearest) == (EngineReason.NOTHING_FITS, (rejection,))
    full = ranked("sglang", (1.0, 0.0, 0.0, 1), missing=2, verdicts=(HERE,), rejections=(rejection,))
    _, second = offers_of([ranked("vllm", (0.0, 0.0, 1.0, 2), (HERE, 2)), full], ())
    assert (second.reason, second.nearest, second.numbers) == (EngineReason.LESS_ROOM, (), (("other", "vllm"),))


def test_the_replicas_that_are_kept_count_as_a_place() -> None:
    """One pool is kept, one is emptied, and one of two missing replicas has room elsewhere."""
    elsewhere = option(L4)
    kept = tuple(
        SimpleNamespace(choice=HERE, replicas=replicas, place=(kind, Split(1)))
        for kind, replicas in ((L40S, 1), ("x", 0))
    )
    taken = ranked("vllm", (0.5, 0.0, 1.0, 2), (elsewhere, 1), missing=2, kept=kept)
    assert taken.option is elsewhere
    (only,) = offers_of([taken], ())
    assert (only.reason, only.missing) == (EngineReason.ONLY_ENGINE, 1)
    assert only.places == ("l40s-48gb x 1", "l4-24gb x 2")
    whole = ranked("vllm", (0.0, 0.0, 1.0, 2), missing=-1, kept=kept)
    assert whole.option is HERE
    assert offers_of([whole], ())[0].missing == 0


@pytest.mark.parametrize(
    ("reason", "where", "wins"),
    [
        (Reason.KV_CACHE_TOO_SMALL, L40S, EngineReason.MORE_CACHE),
        (Reason.TOO_LITTLE_VRAM, L40S, EngineReason.MORE_CACHE),
        (Reason.KV_CACHE_TOO_SMALL, L4, EngineReason.MORE_ROOM),
        (Reason.TOO_SLOW, L40S, EngineReason.MORE_ROOM),
    ],
)
def test_a_cache_that_rules_the_other_out_at_the_place_that_is_taken_is_named(
    reason: Reason, where: str, wins: EngineReason
) -> None:
    figures = SimpleNamespace(estimate=SimpleNamespace(kv_capacity_tokens=100, kv_needed_tokens=900))
    rejection = Rejection(where, Split(1), reason, figures=cast("Any", figures))
    lost = ranked("sglang", (1.0, 0.0, 0.0, 1), missing=1, verdicts=(rejection,))
    first, _ = offers_of([ranked("vllm", (0.0, 0.0, 1.0, 1), (HERE, 1)), lost], ())
    assert first.reason is wins
    cache = (
        ("place", "l40s-48gb x 1"),
        ("tokens", HERE.estimate.kv_capacity_tokens),
        ("other_tokens", 100),
        ("need_tokens", 900),
    )
    assert first.numbers == (("other", "sglang"), *(cache if wins is EngineReason.MORE_CACHE else ()))
    unknown = replace(rejection, figures=None)
    lost = ranked("sglang", (1.0, 0.0, 0.0, 1), missing=1, verdicts=(unknown,))
    assert offers_of([ranked("vllm", (0.0, 0.0, 1.0, 1), (HERE, 1)), lost], ())[0].reason is EngineReason.MORE_ROOM


def test_engines_that_refuse_a_field_come_last_and_alone_say_nothing_of_the_only_one() -> None:
    refusal = EngineRefusal("sglang", "spec.engine.cpuOffload", "'4Gi'", "Remove it.")
    assert only_offer(award("vllm", (HERE, 1))) == ()
    first, second = only_offer(award("vllm", (HERE, 1), refused=(refusal,)))
    assert (first.engine, first.reason) == ("vllm", EngineReason.ONLY_ENGINE)
    assert (second.engine, second.release, second.reason) == ("sglang", "", EngineReason.FIELD_REFUSED)
    assert second.numbers == (("field", "spec.engine.cpuOffload"), ("value", "'4Gi'"), ("fix", "Remove it."))


# -- the scores of the awards of one engine ----------------------------------------------------------------------------


def sized(replicas: int, *granted: tuple[Option, int], missing: int, kept: tuple[Any, ...] = ()) -> Award:
    found = award("vllm", *granted, missing=missing, kept=kept)
    cast("Any", found.demand).request = found.demand.request.with_replicas(replicas)
    return found


def priced(price: str, doubts: int = 0) -> Option:
    """A choice of this price, each price at a place of its own."""
    target = SimpleNamespace(place=(f"card-{price}", Split(1)))
    return cast("Option", SimpleNamespace(cost=Decimal(price), doubts=doubts, target=target, is_in_doubt=False))


@pytest.mark.parametrize(
    ("found", "score"),
    [
        (sized(4, (priced("1.00"), 4), missing=4), (0.0, 0.0, 4.0, 4)),
        (sized(4, (priced("1.00", 1), 2), missing=4), (0.5, 0.5, 2.0, 4)),
        (sized(2, (priced("1.50", 2), 1), missing=1, kept=(SimpleNamespace(choice=None, replicas=1),)), None),
        (sized(0, missing=0), (0.0, 0.0, 0.0, 0)),
        (sized(2, missing=-1), (0.0, 0.0, 0.0, 2)),
        (sized(2, (priced("1.00"), 3), missing=2), (0.0, 0.0, 3.0, 2)),
    ],
    ids=["all placed", "half placed in doubt", "one kept without a price", "none wanted", "one too many", "surge"],
)
def test_a_score_is_of_the_load_and_a_bill_of_all_that_runs(found: Award, score: Score | None) -> None:
    """Missing and doubtful replicas count by their part, and costs by the number of replicas."""
    stock = cast("Stock", None)
    assert score_of(found, stock) == (score or (0.0, 1.0, 1.5 + UNPRICED, 2))


def test_a_mix_is_charged_a_tenth_of_what_all_new_replicas_cost_at_the_cheapest_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizes, "open_options", lambda *_: [priced("3.00"), priced("2.00")])
    stock = cast("Stock", SimpleNamespace(fleet=None, ledger=None))
    mixed = sized(4, (priced("2.00"), 2), (priced("1.00"), 1), missing=4)
    assert score_of(mixed, stock)[2] == pytest.approx(2 * 2.0 + 1.0 + 0.1 * 4 * 2.0)
    monkeypatch.setattr(sizes, "open_options", lambda *_: [])
    assert score_of(mixed, stock)[2] == pytest.approx(2 * 2.0 + 1.0)


def test_of_equal_awards_the_first_one_is_the_best_and_engines_keep_the_order_of_the_ways() -> None:
    awards = [sized(1, (priced("1.00"), 1), missing=1) for _ in range(3)]
    cast("Any", awards[2].demand).request = replace(
        awards[2].demand.request, engine=replace(request().engine, name="sglang")
    )
    ways = tuple(each.demand for each in (awards[2], awards[0]))
    demand, stock = cast("Demand", SimpleNamespace(ways=ways)), cast("Stock", None)
    assert [each.award for each in ranked_of(demand, awards, stock)] == [awards[2], awards[0]]
    assert ranked_of(demand, awards, stock)[1].award is awards[0]
    cheaper = sized(1, (priced("0.50"), 1), missing=1)
    assert [each.award for each in ranked_of(demand, [*awards, cheaper], stock)] == [cheaper, awards[2]]
