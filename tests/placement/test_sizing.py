"""How a request would sit on a GPU type, whether or not a cluster has one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Rejection, Split
from plimsoll.domain.decisions.terms import WEIGHTS, Term
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings, with_a_small_step
from plimsoll.placement.options import sizing
from plimsoll.placement.options.candidates import splits_for
from plimsoll.placement.options.sizing import Sized, best_on, fit_of, size_on
from tests.support.model_configs import facts_of
from tests.support.planning import H100, L4, LLAMA_70B, LLAMA_70B_FP8, T4, gpu, request

ONE = Split(1)


def sized_on(kind: str, split: Split = ONE, name: str = LLAMA_70B_FP8) -> Sized:
    answer = size_on(request(name), gpu(kind), split)
    assert isinstance(answer, Sized), answer
    return answer


def test_an_answer_has_settings_and_estimate_of_its_split() -> None:
    answer = sized_on(H100, Split(2))
    assert (answer.gpu.name, answer.split, answer.figures.fit) == (H100, Split(2), Fit.SURE)
    assert answer.settings.max_model_len == 4096


def test_what_does_not_fit_is_sized_all_the_same() -> None:
    assert sized_on(L4).figures.fit is Fit.NO


@pytest.mark.parametrize(
    "stem", ["deepseek-ai__DeepSeek-V3", "deepseek-ai__DeepSeek-V4-Flash", "mistralai__Mixtral-8x7B-v0.1"]
)
def test_no_smaller_step_would_make_weights_fit_that_are_larger_than_the_budget(stem: str) -> None:
    """So none is tried: the usual settings and their figures are what is told."""
    wanted, untried = request(facts_of(stem), context=8192, concurrency=16), 0
    for kind in load_gpu_types():
        for split in splits_for(wanted):
            answer = size_on(wanted, kind, split)
            if not isinstance(answer, Sized) or answer.figures.weights_bytes <= answer.figures.budget_bytes:
                continue
            lean = with_a_small_step(wanted, kind, split, engine_settings(wanted, kind, split))
            untried += lean != answer.settings
            assert estimate(wanted, kind, split, lean).fit is Fit.NO
    assert untried


def test_what_cannot_be_computed_or_cut_is_a_rejection() -> None:
    assert isinstance(refused := size_on(request(kv_precision=KvPrecision.FP8), gpu(T4), ONE), Rejection)
    assert refused.reason is Reason.PRECISION_NOT_SUPPORTED
    assert isinstance(refused := size_on(request(), gpu(H100), Split(3)), Rejection)
    assert (refused.reason, refused.number("next_degree")) == (Reason.HEADS_NOT_DIVISIBLE, 2)
    assert fit_of(request(), gpu(H100), Split(3)) is Fit.NO


@pytest.mark.parametrize(("name", "expected"), [(LLAMA_70B_FP8, Split(2)), (LLAMA_70B, Split(4))])
def test_the_best_split_is_the_first_that_fits_for_sure(name: str, expected: Split) -> None:
    wanted = request(name)
    answer = best_on(wanted, gpu(H100), splits_for(wanted))
    assert isinstance(answer, Sized)
    assert (answer.split, answer.figures.fit) == (expected, Fit.SURE)


def test_a_slice_of_a_gpu_serves_one_rank_and_no_group_of_them() -> None:
    mig = next(each for each in load_gpu_types() if each.is_slice and each.usable_bytes > 30 * GIB)
    assert isinstance(size_on(request(), mig, ONE), Sized)
    refused = size_on(request(), mig, Split(2))
    assert isinstance(refused, Rejection)
    assert (refused.reason, refused.number("largest")) == (Reason.NODE_TOO_SMALL, 1)


def test_no_split_beyond_the_gpus_that_reach_each_other() -> None:
    wanted = request(LLAMA_70B)
    alone = replace(gpu(H100), scale_up_gpus=1)
    answer = best_on(wanted, alone, splits_for(wanted))
    assert isinstance(answer, Sized)
    assert (answer.split, answer.figures.fit) == (ONE, Fit.NO)


def test_where_nothing_fits_the_nearest_is_told() -> None:
    wanted = request(LLAMA_70B, context=32_768)
    answer = best_on(wanted, gpu(L4), splits_for(wanted))
    assert isinstance(answer, Sized)
    assert (answer.split.gpus, answer.figures.fit) == (8, Fit.NO)


@pytest.mark.parametrize(("wide", "expected"), [((90, 30), ONE), ((90, 45), Split(2)), ((110, 65), Split(2))])
def test_the_nearest_lacks_the_fewest_bytes_of_a_gpu_whatever_it_needs(
    monkeypatch: pytest.MonkeyPatch, wide: tuple[int, int], expected: Split
) -> None:
    """One GPU lacks 50 bytes. ``wide`` are the bytes that each of two GPUs needs, and those that it may use."""
    settings, bytes_of = sized_on(L4).settings, {ONE: (100, 50), Split(2): wide}

    def short(_: Request, kind: GpuType, split: Split) -> Sized:
        needed, budget = bytes_of[split]
        figures = MemoryEstimate((Term(WEIGHTS, needed),), 0, 0, 100, budget, 1, 0, 0, slack_bytes=budget - needed)
        return Sized(kind, split, settings, figures)

    monkeypatch.setattr(sizing, "size_on", short)
    nearest = best_on(request(), gpu(L4), tuple(bytes_of))
    assert isinstance(nearest, Sized)
    assert nearest.split == expected


def test_where_nothing_can_be_computed_the_reason_is_told() -> None:
    wanted = request(kv_precision=KvPrecision.FP8)
    answer = best_on(wanted, gpu(T4), splits_for(wanted))
    assert isinstance(answer, Rejection)
    assert answer.reason is Reason.PRECISION_NOT_SUPPORTED
