"""The questions asked backwards: the answer fits, one more does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Overrides, Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.memory.inverse import (
    MOST_SEQUENCES,
    Largest,
    largest,
    longest_context,
    most_sequences,
    widest_kv_precision,
)
from plimsoll.placement.options.sizing import fit_of
from tests.support.model_configs import facts_of
from tests.support.planning import A100, H100, L4, L40S, LLAMA_8B, LLAMA_70B_FP8, T4, gpu, model, request

ONE = Split(1)
DENSE = "meta-llama__Llama-3.1-8B-Instruct"
MODELS = [DENSE, "google__gemma-3-4b-it", "Qwen__Qwen3-30B-A3B-FP8", "deepseek-ai__DeepSeek-V2-Lite"]


def fits(wanted: Request, kind: str, split: Split = ONE) -> bool:
    return fit_of(wanted, gpu(kind), split) is Fit.SURE


def with_context(wanted: Request, tokens: int) -> Request:
    return replace(wanted, shape=replace(wanted.shape, context_tokens=tokens))


def with_sequences(wanted: Request, sequences: int) -> Request:
    return replace(wanted, shape=replace(wanted.shape, concurrency=sequences))


@settings(max_examples=20, deadline=None)
@given(
    stem=st.sampled_from(MODELS),
    kind=st.sampled_from([L4, L40S, A100, H100]),
    sequences=st.integers(1, 300),
    degree=st.sampled_from([1, 2, 4]),
)
def test_the_longest_context_fits_and_one_token_more_does_not(
    stem: str, kind: str, sequences: int, degree: int
) -> None:
    wanted, split = request(facts_of(stem), concurrency=sequences), Split(degree)
    found = longest_context(wanted, gpu(kind), split, fit_of)
    if found is None:
        assert not fits(with_context(wanted, 1), kind, split)
        return
    assert fits(with_context(wanted, found.value), kind, split)
    assert found.is_bound is (found.value == wanted.model.max_context_tokens)
    assert found.is_bound or not fits(with_context(wanted, found.value + 1), kind, split)


@settings(max_examples=20, deadline=None)
@given(
    stem=st.sampled_from(MODELS),
    kind=st.sampled_from([L4, L40S, A100, H100]),
    context=st.integers(64, 30_000),
)
def test_the_most_sequences_fit_and_one_more_does_not(stem: str, kind: str, context: int) -> None:
    wanted = request(facts_of(stem), context=context)
    found = most_sequences(wanted, gpu(kind), ONE, fit_of)
    if found is None:
        assert not fits(with_sequences(wanted, 1), kind)
        return
    assert fits(with_sequences(wanted, found.value), kind)
    assert found.is_bound is (found.value == MOST_SEQUENCES)
    assert found.is_bound or not fits(with_sequences(wanted, found.value + 1), kind)


def test_a_search_that_ends_at_its_bound_says_so() -> None:
    wanted = request(facts_of("Qwen__Qwen2.5-0.5B"), context=16, concurrency=1)
    assert longest_context(wanted, gpu(H100), ONE, fit_of) == Largest(wanted.model.max_context_tokens, is_bound=True)
    assert most_sequences(wanted, gpu(H100), ONE, fit_of, most=40) == Largest(40, is_bound=True)
    beyond = with_context(wanted, 2 * wanted.model.max_context_tokens)
    assert longest_context(beyond, gpu(H100), ONE, fit_of) == Largest(beyond.shape.context_tokens, is_bound=True)


def test_a_context_is_not_shorter_than_the_mean_request() -> None:
    wanted = replace(request(), shape=ServingShape(100_000, 400, 40_000, 40_000))
    assert longest_context(wanted, gpu(L4), ONE, fit_of) is None


@pytest.mark.parametrize("figure", [GIB, 500 * GIB])
def test_an_admin_s_figure_answers_none_of_these_questions(figure: int) -> None:
    plain = request(context=8192, concurrency=60)
    forced = replace(plain, overrides=Overrides(memory_per_gpu_bytes=figure))
    for ask in (longest_context, most_sequences, widest_kv_precision):
        assert ask(forced, gpu(H100), ONE, fit_of) == ask(plain, gpu(H100), ONE, fit_of)


def test_a_model_that_does_not_fit_has_no_answer() -> None:
    wanted = request(LLAMA_70B_FP8)
    assert longest_context(wanted, gpu(L4), ONE, fit_of) is None
    assert most_sequences(wanted, gpu(L4), ONE, fit_of) is None
    assert widest_kv_precision(wanted, gpu(L4), ONE, fit_of) is None


def test_a_model_that_fits_without_a_single_request_has_no_answer() -> None:
    wanted = request(context=131_072)
    short = most_sequences(with_context(wanted, 4096), gpu(L4), ONE, fit_of)
    assert short is not None, "the weights fit"
    assert most_sequences(wanted, gpu(L4), ONE, fit_of) is None


@pytest.mark.parametrize(
    ("context", "sequences", "expected"),
    [(4096, 8, KvPrecision.BF16), (8192, 80, KvPrecision.FP8), (8192, 1000, None)],
)
def test_the_cache_gets_as_many_bits_as_fit(context: int, sequences: int, expected: KvPrecision | None) -> None:
    assert widest_kv_precision(request(context=context, concurrency=sequences), gpu(H100), ONE, fit_of) is expected


def test_bits_that_the_gpu_cannot_compute_are_no_answer() -> None:
    # A T4 has no FP8: what fits in 16 bits fits, and nothing narrower is offered.
    small = request(facts_of("Qwen__Qwen2.5-0.5B"), precision=Precision.FP16, kv_precision=KvPrecision.FP16)
    assert widest_kv_precision(small, gpu(T4), ONE, fit_of) is KvPrecision.FP16
    large = replace(small, shape=replace(small.shape, context_tokens=32_768, concurrency=60))
    assert widest_kv_precision(large, gpu(T4), ONE, fit_of) is None


def test_a_format_without_a_memory_law_is_no_answer() -> None:
    wanted = request(model("deepseek-ai/DeepSeek-V3"), concurrency=1000)
    with pytest.raises(UnsupportedModel):
        fit_of(replace(wanted, kv_precision=KvPrecision.NVFP4), gpu("b200-sxm-180gb"), Split(8))
    assert widest_kv_precision(wanted, gpu("b200-sxm-180gb"), Split(8), fit_of) is None
    few = replace(wanted, shape=replace(wanted.shape, concurrency=1))
    assert widest_kv_precision(few, gpu("b200-sxm-180gb"), Split(8), fit_of) is KvPrecision.BF16


def test_a_split_that_cannot_be_made_fits_nothing() -> None:
    assert fit_of(request(model(LLAMA_8B)), gpu(H100), Split(3)) is Fit.NO


@given(greatest=st.integers(1, 10_000), edge=st.integers(0, 11_000))
def test_bisection_finds_the_edge(greatest: int, edge: int) -> None:
    expected = None if edge < 1 else min(edge, greatest)
    assert largest(lambda value: value <= edge, 1, greatest) == expected
