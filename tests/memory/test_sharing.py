"""Requests that share the beginning of their prompts: the expected cache is smaller, and no fit becomes sure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Fit, Option, Split
from plimsoll.domain.decisions.terms import KV_CACHE
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.model import Task
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.engines.registry import engine_of
from plimsoll.memory.sharing import shared_tokens, with_sharing
from plimsoll.performance.model import Load
from plimsoll.placement.options.candidates import candidates
from plimsoll.placement.options.engine_limits import with_more_requests
from plimsoll.placement.options.feasibility import judge, may_fit, sized
from plimsoll.placement.options.speed import load_of, speed_of
from tests.laws.strategies import any_gpu, pooling, requests
from tests.support.planning import H100, L4, fleet, gpu, model, node, request
from tests.support.tables import examples

MEAN = ServingShape(8192, 32, 2000, 500, shared_tokens=1000)
SPLIT = Split(1)


@pytest.mark.parametrize(
    ("shape", "tokens"),
    [
        pytest.param(MEAN, 31 * 992, id="P + B (c - P), in whole blocks of 16 tokens"),
        pytest.param(replace(MEAN, shared_percent=50), 15 * 992, id="half of the requests"),
        pytest.param(replace(MEAN, shared_percent=3), 0, id="not one request"),
        pytest.param(replace(MEAN, shared_tokens=15), 0, id="less than a block"),
        pytest.param(replace(MEAN, concurrency=1), 0, id="nobody to share with"),
        pytest.param(replace(MEAN, guaranteed=True), 0, id="a promise for any requests"),
        pytest.param(ServingShape(8192, 32, shared_tokens=1000), 0, id="full lengths"),
        pytest.param(
            replace(MEAN, concurrency=3, shared_tokens=1900), 3 * 3750 - 8192, id="one request of full length stays"
        ),
    ],
)
def test_what_requests_share_is_needed_once(shape: ServingShape, tokens: int) -> None:
    assert shared_tokens(shape, 16) == tokens


def shared(wanted: Request, tokens: int, percent: int) -> Request:
    shape = wanted.shape
    most = max(1, (shape.expected_prompt_tokens or shape.context_tokens) - 1)
    return replace(wanted, shape=replace(shape, shared_tokens=min(tokens, most), shared_percent=percent))


@given(requests() | pooling(), any_gpu, st.sampled_from([1, 2, 8]), st.integers(1, 100_000), st.integers(1, 100))
@settings(max_examples=examples(150), deadline=None)
def test_a_prefix_never_makes_a_fit_sure_and_never_needs_more(
    wanted: Request, kind: GpuType, degree: int, tokens: int, percent: int
) -> None:
    prefixed, split = shared(wanted, tokens, percent), Split(degree)
    plain, found = sized(wanted, kind, split)[1], sized(prefixed, kind, split)[1]
    assert (found.fit is Fit.SURE) == (plain.fit is Fit.SURE)
    assert found.computed_bytes == plain.computed_bytes
    assert found.expected_bytes <= plain.expected_bytes
    assert found.without_cache_bytes == plain.without_cache_bytes
    assert found.fit is not Fit.NO or plain.fit is Fit.NO
    assert found.fit is Fit.NO or may_fit(prefixed, kind, split)
    if wanted.shape.expected_tokens is None or wanted.model.task is Task.POOL:
        assert found == plain


def test_only_the_layers_that_grow_share() -> None:
    """Of gpt-oss-20b every second layer keeps 128 tokens alone, which no other request reads."""
    for name, bytes_of_token in (("meta-llama/Llama-3.1-8B-Instruct", 131_072), ("openai/gpt-oss-20b", 24_576)):
        wanted = request(model(name), shape=MEAN, engine=EngineChoice(EngineVersion(0, 32)))
        plain = sized(replace(wanted, shape=replace(MEAN, shared_tokens=0)), gpu(H100), SPLIT)[1]
        found = sized(wanted, gpu(H100), SPLIT)[1]
        saved = 31 * 992 * bytes_of_token
        assert plain.kv_cache_bytes - found.kv_cache_bytes == saved
        (term,) = (each for each in found.terms if each.name.key == "kv_cache")
        derived = term.derive()
        assert derived.cache is not None
        assert (derived.cache.total_bytes, derived.cache.shared_bytes) == (term.size_bytes, saved)
        assert sum(line.size_bytes or 0 for line in derived.lines) == term.size_bytes


def test_a_cache_of_a_given_size_and_a_law_without_lengths_stay_as_they_are() -> None:
    given_size = EngineChoice(EngineVersion(0, 32), cache_bytes=10 * 2**30)
    sglang = EngineChoice(EngineVersion(0, 5, 23), name="sglang")
    for engine in (given_size, sglang):
        wanted = request(model(), shape=MEAN, engine=engine)
        chosen = engine_of(engine.name)
        figures = chosen.estimate(wanted, gpu(H100), SPLIT, chosen.settings(wanted, gpu(H100), SPLIT))
        assert with_sharing(figures, wanted, SPLIT) is figures


def test_a_place_is_tried_that_only_the_prefix_makes_possible() -> None:
    """The weights and the whole cache are more than the budget of an L4: without the prefix nothing else is counted."""
    crowd = ServingShape(8192, 64, 1000, 500, shared_tokens=800)
    wanted = request(model(), precision=Precision.FP8, shape=crowd, engine=EngineChoice(EngineVersion(0, 32)))
    plain = replace(wanted, shape=replace(crowd, shared_tokens=0))
    assert sized(wanted, gpu(L4), SPLIT)[1].fit is Fit.PROBABLE
    assert may_fit(wanted, gpu(L4), SPLIT)
    assert sized(plain, gpu(L4), SPLIT)[1].fit is Fit.NO
    assert not may_fit(plain, gpu(L4), SPLIT)


def test_more_requests_at_the_same_time_are_shown_with_the_prefix() -> None:
    few = fleet(node("a", H100, 8))
    wanted = request(model(), shape=replace(MEAN, concurrency=4), engine=EngineChoice(EngineVersion(0, 32)))
    (chosen,) = (each for each in candidates(wanted, few) if each.target.split == SPLIT)
    option = judge(wanted, chosen, few)
    assert isinstance(option, Option)
    wider = with_more_requests(wanted, option)
    assert wider.settings.max_num_seqs > option.settings.max_num_seqs
    assert wider.estimate.kv_cache_bytes == option.estimate.kv_cache_bytes
    assert wider.estimate.bytes_of(KV_CACHE) < wider.estimate.kv_needed_tokens * wider.estimate.kv_bytes_per_token


def test_the_tokens_of_a_prefix_are_no_load_of_prompts() -> None:
    wanted = request(model(), shape=replace(MEAN, shared_percent=80))
    assert load_of(wanted) == Load(2000, 500, 32, cached_tokens=800)
    usual = request(model(), shape=ServingShape(8192, 32, shared_tokens=4000))
    assert load_of(usual) == Load(4001, 410, 32, cached_tokens=4000), "a prompt is longer than its prefix"
    none = replace(wanted, shape=replace(MEAN, shared_tokens=0))
    times = [speed_of(each, gpu(H100), SPLIT, sized(each, gpu(H100), SPLIT)[0]) for each in (wanted, none)]
    assert times[0] is not None
    assert times[1] is not None
    assert times[0].typical_ttft_seconds < 0.8 * times[1].typical_ttft_seconds
    assert times[0].output_tokens_per_second > times[1].output_tokens_per_second
