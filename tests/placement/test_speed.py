"""Latency in placement: a declared limit rejects, the usual limit only ranks and warns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.decisions.latency import Objective, Slo
from plimsoll.domain.decisions.outcomes import Option, Placed, Rejection
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import ServingShape
from plimsoll.performance.slo import INTERACTIVE
from plimsoll.placement.options.speed import MEASURED_VENDORS, load_of, missed, misses_usual
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.places.place import place
from plimsoll.placement.plan import plan
from tests.support.planning import (
    H100,
    L4,
    L40S,
    LLAMA_70B_FP8,
    fleet,
    node,
    placed,
    request,
    tenant,
    unplaceable,
)

CATALOG = load_gpu_types()

FLEET = fleet(node("h", H100), node("l", L40S), node("l4", L4))


def verdicts(slo: Slo | None) -> dict[tuple[str, int], Option | Rejection]:
    found = options(request(LLAMA_70B_FP8, context=8192, concurrency=16, slo=slo), FLEET).verdicts
    return {
        (each.gpu.name if isinstance(each, Option) else each.gpu_type, each.split.tensor_parallel): each
        for each in found
    }


@pytest.mark.parametrize(
    ("first_token", "token", "is_slow"),
    [(5.0, 0.1, False), (5.01, 0.05, True), (1.0, 0.11, True), (9.0, 0.9, True), (0.1, 0.01, False)],
)
def test_an_option_is_too_slow_for_a_reader_by_either_time(first_token: float, token: float, *, is_slow: bool) -> None:
    found = placed(request(), FLEET).choice.performance
    assert found is not None
    found = replace(found, typical_ttft_seconds=first_token, tpot_seconds=token)
    assert misses_usual(request(), found) is is_slow
    assert not misses_usual(request(slo=Slo(tpot_seconds=9.0)), found), "who declares a latency has one"
    assert not misses_usual(request(), None)


class TestDeclared:
    def test_a_gpu_that_misses_the_limit_is_rejected_with_the_figure_and_the_nearest_that_keeps_it(self) -> None:
        slow = verdicts(Slo(tpot_seconds=0.05))[L4, 8]
        assert isinstance(slow, Rejection)
        figures = dict(slow.numbers)
        assert (slow.reason, figures["figure"], figures["limit"]) == (Reason.TOO_SLOW, "TPOT", 50)
        assert int(figures["milliseconds"]) > 50
        assert str(figures["nearest"]).startswith("h100-sxm-80gb x ")

    def test_the_limit_decides_and_the_price_only_among_those_that_keep_it(self) -> None:
        fast = placed(request(LLAMA_70B_FP8, context=8192, concurrency=16, slo=Slo(tpot_seconds=0.02)), FLEET).choice
        assert fast.performance is not None
        assert fast.performance.tpot_seconds <= 0.02
        assert fast.gpu.name == H100

    def test_a_limit_that_nobody_keeps_leaves_the_deployment_without_a_place(self) -> None:
        outcome = unplaceable(request(slo=Slo(tpot_seconds=0.001)), FLEET)
        reasons = {(each.gpu_type, each.split.tensor_parallel): each.reason for each in outcome.rejections}
        assert {reasons[H100, 1], reasons[L40S, 1]} == {Reason.TOO_SLOW}
        assert all("nearest" not in dict(each.numbers) for each in outcome.rejections)

    def test_a_loose_limit_allows_what_the_usual_one_does_not(self) -> None:
        usual, loose = verdicts(None)[L4, 8], verdicts(Slo(ttft_seconds=600, tpot_seconds=10))[L4, 8]
        assert isinstance(usual, Option)
        assert isinstance(loose, Option)
        assert (usual.is_slow, loose.is_slow) == (True, False)

    def test_the_time_to_the_first_token_has_a_limit_of_its_own(self) -> None:
        slow = verdicts(Slo(ttft_seconds=0.2))[L4, 8]
        assert isinstance(slow, Rejection)
        assert dict(slow.numbers)["figure"] == "TTFT"


def test_the_vendors_with_measured_cards_are_those_of_the_catalogue() -> None:
    measured = {gpu.vendor for gpu in CATALOG if gpu.speed is not None and gpu.speed.trust.name == "measured"}
    assert measured == MEASURED_VENDORS


class TestRelease:
    def test_a_release_that_plans_ahead_is_faster_on_the_same_gpu(self) -> None:
        """vLLM plans a step while the step before it runs since 0.14. With many users that is worth a tenth."""
        old, first, now = (of_release(EngineVersion(0, minor)) for minor in (13, 14, 19))
        assert old > 1.05 * first
        assert first == now


def of_release(version: EngineVersion) -> float:
    wanted = request(context=4096, concurrency=64)
    wanted = replace(wanted, engine=replace(wanted.engine, version=version))
    found = placed(wanted, fleet(node("h", H100))).choice.performance
    assert found is not None
    return found.tpot_seconds


class TestUsual:
    def test_a_slow_gpu_is_taken_only_if_it_saves_more_than_the_time_of_users_is_worth(self) -> None:
        wanted = request(LLAMA_70B_FP8, context=8192, concurrency=16)
        outcome = placed(wanted, FLEET)
        assert outcome.choice.gpu.name == H100
        slow = next(each for each in outcome.rejections if (each.gpu_type, each.split.tensor_parallel) == (L4, 8))
        assert slow.reason is Reason.SLOWER_FOR_ITS_PRICE
        assert outcome.warnings == ()
        cheap = placed(replace(wanted, objective=Objective.BATCH), FLEET)
        assert cheap.choice.gpu.name == L4
        assert not any("read along" in each for each in cheap.warnings), "nobody does"

    def test_a_slow_gpu_is_taken_with_a_warning_if_no_faster_one_is_free(self) -> None:
        outcome = placed(request(LLAMA_70B_FP8, context=8192, concurrency=16), fleet(node("l4", L4)))
        assert outcome.choice.gpu.name == L4
        [warning] = [each for each in outcome.warnings if "set spec.slo" in each]
        assert "spec.slo" in warning

    def test_an_unknown_speed_is_no_reason_against_a_gpu(self) -> None:
        assert missed(INTERACTIVE, None) == ()


class TestLoad:
    def test_expected_lengths_are_the_load(self) -> None:
        shape = ServingShape(8192, 16, expected_prompt_tokens=700, expected_output_tokens=90)
        found = load_of(replace(request(), shape=shape))
        assert (found.prompt_tokens, found.output_tokens, found.running) == (700, 90, 16)

    @pytest.mark.parametrize(("context", "prompt", "output"), [(8192, 1638, 410), (4, 2, 1), (1, 2, 1)])
    def test_without_them_a_quarter_of_the_context_is_usual(self, context: int, prompt: int, output: int) -> None:
        found = load_of(request(context=context))
        assert (found.prompt_tokens, found.output_tokens) == (prompt, output)


def test_the_placement_of_a_small_model_is_not_changed_by_the_usual_limit() -> None:
    outcome = place(request(), fleet(node("l", L40S), node("h", H100)))
    assert isinstance(outcome, Placed)
    assert (outcome.choice.gpu.name, outcome.choice.is_slow) == (L40S, False)


def test_a_node_to_buy_is_one_that_is_fast_enough() -> None:
    """Eight T4 would be cheaper, and a person would wait for every word."""
    outcome = plan([tenant(request(LLAMA_70B_FP8, context=8192, concurrency=16))], fleet(node("l4", L4, 1)), CATALOG)
    [bought] = [dict(each.numbers) for each in outcome[0].remedies if each.kind is RemedyKind.ADD_GPUS]
    assert bought["gpu_type"] not in (L4, "t4-16gb")
