"""Choosing among the feasible: the ledger, the ranking, and what is said of the candidates not taken."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import Taint, Toleration
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.outcomes import Option, Placed, Rejection, Split, Unplaceable
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request
from plimsoll.domain.units import GIB
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.candidates import Candidate, candidate_on
from plimsoll.placement.options.feasibility import judge
from plimsoll.placement.options.nodes import unhealthy_here
from plimsoll.placement.options.sizing import size_on
from plimsoll.placement.options.verdicts import options, price_of
from plimsoll.placement.places import place as place_module
from plimsoll.placement.places.place import alternatives_to, first_that_fits, fits_for_sure, less_preferred, pick
from tests.support.planning import (
    A100,
    H100,
    L4,
    L40S,
    LLAMA_70B,
    LLAMA_70B_FP8,
    MI300X,
    chosen,
    fleet,
    gpu,
    node,
    placed,
    refusal,
    refusals,
    request,
    unplaceable,
)

HALF = "h100-sxm-80gb-mig-3g.40gb"
ONE_GPU = GpuConstraints(max_per_replica=1)


class TestLedger:
    nodes = (node("a", H100, 8, held=5), node("b", H100, 8, held=6), node("c", H100, 4, held=9))

    def test_free_is_what_is_allocatable_and_not_held_and_never_negative(self) -> None:
        assert dict(Ledger.of(fleet(*self.nodes)).free) == {"a": 3, "b": 2, "c": 0}

    def test_a_replica_stays_on_one_node(self) -> None:
        ledger = Ledger.of(fleet(*self.nodes))
        assert [ledger.room_for(self.nodes, Split(gpus).shape) for gpus in (1, 2, 3, 4)] == [5, 2, 1, 0]
        assert ledger.largest(self.nodes) == 3
        assert ledger.largest(()) == 0

    def test_taking_gives_a_new_ledger_and_fills_the_tightest_node_first(self) -> None:
        ledger = Ledger.of(fleet(*self.nodes))
        after = ledger.take(self.nodes, Split(2).shape, 1)
        assert dict(after.free) == {"a": 3, "b": 0, "c": 0}
        assert ledger.free["b"] == 2

    def test_slices_are_booked_beside_the_whole_gpus_of_their_node(self) -> None:
        whole, halves = node("a", H100, 2), replace(node("a", HALF, 4), resource="nvidia.com/mig-3g.40gb")
        after = Ledger.of(fleet(whole, halves)).take((halves,), Split(1).shape, 3)
        assert after.largest((whole,)) == 2
        assert after.largest((halves,)) == 1

    def test_taking_more_than_there_is_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="over-committed: 3 replicas of 2 GPUs"):
            Ledger.of(fleet(*self.nodes)).take(self.nodes, Split(2).shape, 3)


def test_slices_never_work_together() -> None:
    where, split = fleet(node("a", HALF, 4)), Split(2)
    assert placed(request(), where).choice.split.gpus == 1
    told = {each.split: each for each in unplaceable(request(LLAMA_70B_FP8), where).rejections}
    assert (told[split].reason, dict(told[split].numbers)) == (Reason.NODE_TOO_SMALL, {"gpus": 2, "largest": 1})
    answer = size_on(request(), gpu(HALF), split)
    assert isinstance(answer, Rejection)
    assert answer.reason is Reason.NODE_TOO_SMALL


def test_the_cheapest_replica_wins() -> None:
    where = fleet(node("h", gpu(H100, price="2")), node("a", gpu(A100, price="1.99")))
    assert chosen(placed(request(objective=Objective.BATCH), where).choice) == (A100, 1)


def test_at_one_price_fewer_gpus_win_and_then_the_name() -> None:
    equal = fleet(node("l4", gpu(L4, price="1"), 2), node("h", gpu(H100, price="2")))
    wanted = request(context=8192, concurrency=8)  # too much for one L4
    assert chosen(placed(wanted, equal).choice) == (H100, 1)
    twins = fleet(node("h", gpu(H100, price="1")), node("a", gpu(A100, price="1")))
    assert chosen(placed(request(objective=Objective.BATCH), twins).choice) == (A100, 1)


def test_a_type_without_a_price_is_the_last_resort() -> None:
    where = fleet(node("free", gpu(L40S, price=None)), node("dear", gpu(H100, price="99")))
    assert chosen(placed(request(), where).choice) == (H100, 1)
    assert chosen(placed(request(), fleet(node("free", gpu(L40S, price=None)))).choice) == (L40S, 1)


def test_the_price_is_that_of_the_replica() -> None:
    where = fleet(node("h", H100), node("m", gpu(MI300X, price="6.15")))
    both = placed(request(LLAMA_70B_FP8, objective=Objective.BATCH), where)
    assert chosen(both.choice) == (MI300X, 1)  # 2 x 3.078 is half a cent more than one at 6.15
    assert refusal(both, H100, 2).number("price") == "6.156"


def test_every_other_candidate_is_told_with_its_reason() -> None:
    where = fleet(node("h", H100, 8, held=7), node("l", L40S, 4, held=4), node("l4", L4, 1))
    seen = refusals(placed(request(context=8192, concurrency=16), where))
    assert seen == {
        (H100, 2): Reason.GPUS_TAKEN,
        (H100, 4): Reason.GPUS_TAKEN,
        (H100, 8): Reason.GPUS_TAKEN,
        (L40S, 1): Reason.GPUS_TAKEN,
        (L40S, 2): Reason.GPUS_TAKEN,
        (L40S, 4): Reason.GPUS_TAKEN,
        (L40S, 8): Reason.NODE_TOO_SMALL,
        (L4, 1): Reason.KV_CACHE_TOO_SMALL,
        (L4, 2): Reason.NODE_TOO_SMALL,
        (L4, 4): Reason.NODE_TOO_SMALL,
        (L4, 8): Reason.NODE_TOO_SMALL,
    }


def test_taken_gpus_are_told_with_how_many_are_left_on_the_freest_node() -> None:
    where = fleet(node("h", H100, 8, held=7), node("i", H100, 8, held=8))
    said = refusal(unplaceable(request(LLAMA_70B_FP8), where), H100, 2)
    assert (said.number("gpus"), said.number("free")) == (2, 1)


def test_a_node_that_would_do_with_its_unhealthy_gpus_is_told() -> None:
    less = replace(node("h", H100, 7, held=6), unhealthy=1)
    said = refusal(unplaceable(request(LLAMA_70B_FP8), fleet(less, node("i", H100, 8, held=8))), H100, 2)
    assert dict(said.numbers) == {"gpus": 2, "free": 1, "unhealthy": 1, "node": "h"}
    taken = refusal(unplaceable(request(LLAMA_70B_FP8), fleet(replace(less, held=7))), H100, 2)
    assert dict(taken.numbers) == {"gpus": 2, "free": 0}
    small = fleet(replace(node("h", H100, 1), unhealthy=1), replace(node("i", H100, 1), unhealthy=7))
    refused = {each.split: dict(each.numbers) for each in unplaceable(request(LLAMA_70B_FP8), small).rejections}
    assert refused[Split(2)] == {"gpus": 2, "largest": 1, "unhealthy": 1, "node": "h"}
    assert refused[Split(8)] == {"gpus": 8, "largest": 1, "unhealthy": 7, "node": "i"}


def test_a_type_that_takes_more_of_the_replicas_goes_before_a_cheaper_one_and_that_is_said() -> None:
    where = fleet(node("l", gpu(L40S, price="1"), 1), node("h", gpu(H100, price="5")))
    outcome = placed(request(replicas=3), where)
    assert (chosen(outcome.choice), outcome.replicas) == ((H100, 1), 3)
    said = refusal(outcome, L40S, 1)
    assert (said.reason, said.number("room"), said.number("best_room")) == (Reason.ROOM_FOR_FEWER, 1, 3)


def test_all_replicas_on_slow_gpus_go_before_one_on_fast_ones() -> None:
    wanted = request(LLAMA_70B_FP8, context=8192, concurrency=16, replicas=3)
    outcome = placed(wanted, fleet(node("h", H100, 2), *(node(f"l{number}", L4) for number in range(3))))
    assert (chosen(outcome.choice), outcome.replicas) == ((L4, 8), 3)
    assert refusal(outcome, H100, 2).reason is Reason.ROOM_FOR_FEWER


def test_one_replica_that_fits_for_sure_goes_before_all_that_fit_probably() -> None:
    """28,000 tokens fit on an L4 only probably."""
    wanted = request(context=28_000, concurrency=2, may_narrow_cache=True, replicas=3, constraints=ONE_GPU)
    probable = node("l4", gpu(L4, price="0.40"), 3)
    outcome = placed(wanted, fleet(node("h", H100, 1), probable))
    assert (chosen(outcome.choice), outcome.replicas) == ((H100, 1), 1)
    assert refusal(outcome, L4, 1).reason is Reason.FITS_ONLY_PROBABLY
    assert placed(wanted, fleet(probable)).replicas == 3, "all of them have room there"


def test_zero_replicas_are_placed_even_where_everything_is_taken() -> None:
    assert placed(request(replicas=0), fleet(node("h", H100, 8, held=8))).replicas == 0


@pytest.mark.parametrize("replicas", [0, 1])
def test_that_nothing_has_room_for_a_replica_is_no_answer_for_none(replicas: int) -> None:
    """What a ledger has no room for is remembered, for any number of replicas but zero."""
    where = fleet(node("h", H100, 8, held=8))
    ledger, judged = Ledger.of(where), options(request(), where)
    assert isinstance(pick(request(), judged, where, ledger), Unplaceable)
    assert isinstance(pick(request(replicas=replicas), judged, where, ledger), Unplaceable) is (replicas == 1)


def test_where_nodes_of_a_type_differ_the_smallest_memory_speaks_for_it() -> None:
    small = replace(gpu(H100), usable_bytes=60 * GIB)
    where = fleet(node("a", H100), node("b", small))
    assert placed(request(), where).choice.gpu.usable_bytes == 60 * GIB


def test_an_unusual_degree_is_tried_when_an_admin_forces_it() -> None:
    forced = request("Qwen/Qwen2.5-7B-Instruct", overrides=Overrides(tensor_parallel=7))
    said = refusal(unplaceable(forced, fleet(node("h", H100))), H100, 7)
    assert said.reason is Reason.KV_HEADS_NOT_DIVISIBLE
    assert refusals(unplaceable(request(overrides=Overrides(tensor_parallel=3)), fleet(node("h", H100))))[H100, 3] is (
        Reason.HEADS_NOT_DIVISIBLE
    )


class TestOverrides:
    where = fleet(node("h", H100), node("l", L40S))

    def test_a_forced_type_is_taken_though_another_is_cheaper_and_the_consequence_is_told(self) -> None:
        outcome = placed(request(overrides=Overrides(gpu_type=H100, tensor_parallel=2)), self.where)
        assert chosen(outcome.choice) == (H100, 2)
        assert outcome.warnings == (
            "GPU type and split were forced to h100-sxm-80gb x 2: cheaper candidates were not considered.",
        )

    def test_a_smaller_figure_than_the_computed_one_is_obeyed_with_both_figures_told(self) -> None:
        wanted = request(
            LLAMA_70B, overrides=Overrides(gpu_type=H100, tensor_parallel=1, memory_per_gpu_bytes=70 * GIB)
        )
        (_, warning) = placed(wanted, self.where).warnings
        assert warning.startswith("memoryPerGpu 70.00 GiB replaces the computed ")
        assert "the GPU is short of" in warning
        assert "expect the engine to fail at start" in warning

    def test_a_larger_figure_is_obeyed_and_harmless(self) -> None:
        (warning,) = placed(request(overrides=Overrides(memory_per_gpu_bytes=40 * GIB)), self.where).warnings
        assert "(+" in warning
        assert warning.endswith("the computed need fits too.")

    def test_a_context_beyond_the_models_is_warned_of(self) -> None:
        (warning,) = placed(request("Qwen/Qwen3-8B", context=65_536, concurrency=1), self.where).warnings
        assert "contextLength 65536 exceeds the 40960 tokens" in warning

    def test_without_overrides_there_is_nothing_to_warn_of(self) -> None:
        assert placed(request(), self.where).warnings == ()


def test_what_runs_is_kept_though_something_cheaper_is_there_now() -> None:
    where = fleet(node("h", H100), node("l", L40S, 1), node("l4", gpu(L4, price=None), 2))
    kept = placed(request(constraints=GpuConstraints(allow=(H100,))), where).choice
    seen = {
        (each.gpu_type, each.split.tensor_parallel): each.reason for each in alternatives_to(kept, request(), where)
    }
    assert seen[L40S, 1] is Reason.PLACEMENT_KEPT
    assert seen[H100, 2] is Reason.COSTS_MORE
    assert seen[L4, 2] is Reason.COSTS_MORE
    assert seen[L40S, 2] is Reason.NODE_TOO_SMALL
    assert (H100, 1) not in seen


@pytest.mark.parametrize(
    ("replicas", "figures"), [(1, {"saved": "4", "charge": "0.3"}), (2, {"saved": "8", "charge": "0.6"})]
)
def test_a_cheaper_place_that_has_room_now_is_named_with_the_saving_and_the_cost_of_the_move(
    replicas: int, figures: dict[str, str]
) -> None:
    where = fleet(node("h", gpu(H100, price="6")), node("l", gpu(L40S, price="2"), replicas))
    wanted = request(replicas=replicas)
    kept = placed(request(constraints=GpuConstraints(allow=(H100,))), where).choice

    def told(ledger: Ledger) -> Rejection:
        others = alternatives_to(kept, wanted, where, ledger=ledger)
        return next(each for each in others if (each.gpu_type, each.split.tensor_parallel) == (L40S, 1))

    cheaper = told(Ledger.of(where))
    assert cheaper.reason is Reason.KEPT_TO_AVOID_MOVE
    assert dict(cheaper.numbers) == {"price": "2", **figures}
    full = fleet(*(replace(each, held=1) if each.gpu.name == L40S else each for each in where.nodes))
    assert told(Ledger.of(full)).reason is Reason.PLACEMENT_KEPT, "one of the replicas has no room"


def test_where_the_price_of_what_runs_is_unknown_nothing_is_said_to_be_saved() -> None:
    where = fleet(node("h", gpu(H100, price=None)), node("l", gpu(L40S, price="2"), 2))
    kept = placed(request(constraints=GpuConstraints(allow=(H100,))), where).choice
    others = alternatives_to(kept, request(), where, ledger=Ledger.of(where))
    [found] = [each for each in others if (each.gpu_type, each.split.tensor_parallel) == (L40S, 1)]
    assert found.reason is Reason.PLACEMENT_KEPT


def test_a_place_at_the_same_price_saves_nothing_and_is_no_reason_to_count() -> None:
    where = fleet(node("h", gpu(H100, price="2")), node("l", gpu(A100, price="2"), 2))
    kept = placed(request(constraints=GpuConstraints(allow=(H100,))), where).choice
    others = alternatives_to(kept, request(), where, ledger=Ledger.of(where))
    assert Reason.KEPT_TO_AVOID_MOVE not in {each.reason for each in others}


def test_tolerations_of_the_request_open_tainted_nodes() -> None:
    where = fleet(node("h", H100, taints=(Taint("team", "a", "NoSchedule"),)))
    assert set(refusals(unplaceable(request(), where)).values()) == {Reason.NODES_NOT_SELECTED}
    assert placed(request(tolerations=(Toleration("team", "Exists"),)), where).choice.hourly_price == Decimal("3.078")


def test_no_candidate_is_judged_that_is_dearer_than_one_that_fits_for_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = list[str]()

    def noted(request: Request, candidate: Candidate, *rest: Any) -> Option | Rejection:
        judged.append(candidate.gpu.name)
        return judge(request, candidate, *rest)

    monkeypatch.setattr(place_module, "judge", noted)
    where = fleet(node("h", H100, 8), node("l", L40S, 1))
    found = first_that_fits(request(), where, Ledger.of(where))
    assert found is not None
    assert (found.gpu.name, set(judged)) == (L40S, {L40S})


@pytest.mark.parametrize("error", [UnsupportedModel("m", "a law"), ValueError("no law for that release")], ids=repr)
def test_what_the_quick_look_cannot_tell_is_left_to_the_judgement(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> bool:
        raise error

    where, wanted = fleet(node("a", L4), node("h", H100)), request()
    usual = first_that_fits(wanted, where, Ledger.of(where))
    monkeypatch.setattr(place_module, "may_fit", fails)
    assert usual is not None
    assert first_that_fits(wanted, where, Ledger.of(where)) == usual
    assert fits_for_sure(wanted, candidate_on(usual.gpu, usual.split, where, restricted=False), where)


def test_that_the_places_are_closed_for_one_is_no_answer_for_whoever_may_go_there() -> None:
    where = fleet(node("h", H100, 1))
    ledger, asked = Ledger.of(where), request(constraints=ONE_GPU)
    judged = options(asked, where)
    assert isinstance(pick(asked, judged, where, ledger, closed=((H100, Split(1)),)), Unplaceable)
    assert isinstance(pick(asked, judged, where, ledger), Placed)


@pytest.mark.parametrize(
    ("measured", "numbers"),
    [
        ((True, False), {"measured": "this"}),
        ((False, True), {"measured": "best"}),
        ((True, True), {}),
        ((False,) * 2, {}),
    ],
)
def test_a_speed_that_alone_is_measured_is_said(measured: tuple[bool, bool], numbers: dict[str, str]) -> None:
    best = placed(request(), fleet(node("h", H100, 1))).choice
    assert best.performance is not None
    pair = [replace(best, performance=replace(best.performance, validated=each)) for each in measured]
    said = dict(less_preferred(*pair).numbers)
    assert {name: said[name] for name in said if name == "measured"} == numbers
    for unknown in (replace(best, performance=None), best), (best, replace(best, performance=None)):
        assert not {"tpot", "best_tpot", "measured"} & {name for name, _ in less_preferred(*unknown).numbers}


@pytest.mark.parametrize(("gpus", "named"), [(1, {"unhealthy": 1, "node": "h"}), (2, {})])
def test_a_pod_takes_one_slice_of_a_card_so_more_that_work_would_not_help(gpus: int, named: dict[str, object]) -> None:
    half = "h100-sxm-80gb-mig-3g.40gb"
    where = fleet(replace(node("h", half, 2, held=2), unhealthy=1), node("n", H100, 8))
    assert dict(unhealthy_here(request(), where, half, gpus, lambda _: gpus - 1)) == named


def test_of_options_without_a_price_the_one_that_lets_users_wait_longer_costs_more() -> None:
    """Options with a price are compared by what they cost, and all of them come before."""
    options_of = options(request(), fleet(node("h", H100, 8))).verdicts
    option = next(each for each in options_of if isinstance(each, Option))
    quick, slow = (replace(option, hourly_price=None, delay_cost=Decimal(cost)) for cost in ("0.5", "2"))
    assert (quick.cost, slow.cost) == (None, None)
    assert price_of(slow) - price_of(quick) == pytest.approx(1.5)
    assert price_of(option) == pytest.approx(float(option.cost or 0))
    assert price_of(quick) > 100 * price_of(option)
