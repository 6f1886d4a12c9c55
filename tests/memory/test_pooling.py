"""The estimate of models that pool: no sampler, no output projection, and for encoders no cache."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from plimsoll.cli.answers.cache_words import cache_sentence
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.decisions.terms import ACTIVATIONS, KV_CACHE
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate, least_bytes
from plimsoll.engines.vllm.memory.kv_cache import kv_layout
from plimsoll.engines.vllm.memory.step.sampler import pooler_bytes
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.facts.models.pooling import as_pooling
from plimsoll.memory.load import AtOnce, blocks_at_once, needed_blocks
from plimsoll.memory.stages import stage_caches
from plimsoll.placement.options.speed import speed_of
from plimsoll.rebalance.law.capacity import model_of
from tests.support.planning import H100, L4, gpu, model, request
from tests.support.pooling import bge_m3, qwen3_embedding

ONE = Split(1)


def asked(model: ModelFacts, *, context: int = 8192, concurrency: int = 512) -> Request:
    return replace(request(context=context, concurrency=concurrency), model=model, precision=Precision.BF16)


def figures(wanted: Request, kind: str = H100) -> MemoryEstimate:
    return estimate(wanted, gpu(kind), ONE, engine_settings(wanted, gpu(kind), ONE))


def words(found: MemoryEstimate) -> str:
    term = next(term for term in found.terms if term.name is ACTIVATIONS)
    return " ".join(line.label for line in term.derive().lines)


def test_an_encoder_keeps_no_cache_and_needs_none() -> None:
    found = figures(asked(bge_m3()))
    assert (found.kv_cache_bytes, found.kv_bytes_per_token, found.kv_needed_tokens) == (0, 0, 0)
    assert found.kv_capacity_tokens == 0
    assert found.fit_by_figures is Fit.SURE


def test_more_requests_cost_an_encoder_no_memory_for_their_tokens() -> None:
    few, many = (figures(asked(bge_m3(), concurrency=number)) for number in (8, 512))
    assert many.kv_cache_bytes == few.kv_cache_bytes == 0
    assert many.activations_bytes == few.activations_bytes


def test_an_embedding_model_keeps_a_step_and_the_request_that_is_begun_and_a_decoder_all_requests() -> None:
    generating, pooling = (
        figures(asked(each, concurrency=16)) for each in (qwen3_embedding(), as_pooling(qwen3_embedding()))
    )
    assert pooling.kv_bytes_per_token == generating.kv_bytes_per_token > 0
    assert (pooling.kv_needed_tokens, generating.kv_needed_tokens) == (8192 + 8192, 16 * 8192)
    blocks = (8192 + 8192) // 16 + 1
    assert pooling.kv_cache_bytes == blocks * 16 * pooling.kv_bytes_per_token


def test_the_step_of_a_small_card_is_smaller_and_so_is_the_need() -> None:
    assert figures(asked(as_pooling(qwen3_embedding()), concurrency=16), L4).kv_needed_tokens == 8192 + 2048


def test_a_single_request_needs_its_own_length_and_two_no_more_than_both() -> None:
    for number in (1, 2):
        wanted = asked(as_pooling(qwen3_embedding()), context=512, concurrency=number)
        assert figures(wanted).kv_needed_tokens == number * 512


def test_expected_lengths_need_less_than_a_step_where_they_are_short() -> None:
    wanted = asked(as_pooling(qwen3_embedding()), concurrency=16)
    short = replace(wanted, shape=replace(wanted.shape, expected_prompt_tokens=300, expected_output_tokens=100))
    long = replace(wanted, shape=replace(wanted.shape, expected_prompt_tokens=3000, expected_output_tokens=1000))
    assert figures(short).kv_needed_tokens == 9600
    assert figures(long).kv_needed_tokens == 8192 + 8192


def test_pipeline_stages_read_a_step_each_and_engines_side_by_side_hold_their_own() -> None:
    wanted = asked(as_pooling(qwen3_embedding()), concurrency=64)
    for split, tokens in ((Split(1, 2), 8192 + 2 * 8192), (Split(1, data_parallel=2), 2 * (8192 + 8192))):
        settings = engine_settings(wanted, gpu(H100), split)
        assert estimate(wanted, gpu(H100), split, settings).kv_needed_tokens == tokens


def test_the_quick_bound_counts_the_same_tokens() -> None:
    wanted = asked(as_pooling(qwen3_embedding()), concurrency=64)
    found = figures(wanted, L4)
    least = least_bytes(wanted, gpu(L4), ONE, batched_tokens=2048)
    assert least == found.weights_bytes + found.kv_cache_bytes


def test_a_class_that_is_never_cut_holds_its_step_alone() -> None:
    model = replace(as_pooling(qwen3_embedding()), architecture="Qwen2ForProcessRewardModel")
    wanted = asked(model, concurrency=16)
    assert figures(wanted, L4).kv_needed_tokens == engine_settings(wanted, gpu(L4), ONE).max_num_batched_tokens == 8192


def test_every_short_request_of_a_step_has_a_state_of_its_own() -> None:
    layout = kv_layout(
        stage_caches(model("Qwen/Qwen3-Next-80B-A3B-Instruct"), 0, 1), KvPrecision.BF16, ONE, batched_tokens=2048
    )
    step, shape = AtOnce(4096, 2048), ServingShape(4096, 100)
    assert layout.fixed_blocks == layout.blocks_of_request(0) > 1
    both = layout.blocks_of_request(4096) + layout.blocks_of_request(2048)
    assert needed_blocks(shape, layout, step) == both + 98 * layout.fixed_blocks
    assert needed_blocks(shape, layout, AtOnce(0, 4096)) == layout.blocks_of_request(4096) + 99 * layout.fixed_blocks
    assert needed_blocks(ServingShape(4096, 1), layout, step) == layout.blocks_of_request(4096)
    for few in (1, 2):
        assert blocks_at_once(ServingShape(4096, few), layout, step) == both


def test_windows_are_apart_from_what_grows_in_the_words_of_a_step_too() -> None:
    said = cache_sentence(figures(asked(as_pooling(model("openai/gpt-oss-20b")), concurrency=64)))
    assert re.match(
        r"KV cache: 16,384 tokens take [\d.]+ GiB of each GPU: [\d,]+ bytes a token in layers with full", said
    )
    assert " MiB in layers with a window, a state or encoder outputs, which stop growing. They are" in said


def test_the_parts_of_the_cache_add_up_to_it() -> None:
    for concurrency, of_steps in ((1, False), (2, True), (16, True)):
        found = figures(asked(as_pooling(qwen3_embedding()), context=4096, concurrency=concurrency), L4)
        load = next(term.derive().cache for term in found.terms if term.name is KV_CACHE)
        assert load is not None
        null = 16 * found.kv_bytes_per_token
        assert load.of_steps is of_steps
        assert load.requests * load.request_bytes + null == load.total_bytes == found.kv_cache_bytes
        assert load.requests * load.tokens == found.kv_needed_tokens


def test_it_is_lighter_by_its_output_projection_and_runs_no_sampler() -> None:
    generating, pooling = (figures(asked(each)) for each in (qwen3_embedding(), as_pooling(qwen3_embedding())))
    head = 151_680 * 4096 * 2
    assert generating.weights_bytes - pooling.weights_bytes == pytest.approx(head, rel=0.01)
    assert pooling.activations_bytes <= generating.activations_bytes


def test_after_the_forward_pass_comes_the_pooler_and_not_the_sampler() -> None:
    eager = EngineChoice(EngineVersion(0, 32), enforce_eager=True)
    for facts, follows, never in ((qwen3_embedding(), "sampler", "pooler"), (bge_m3(), "pooler", "sampler")):
        found = words(figures(replace(asked(facts), engine=eager)))
        assert follows in found
        assert never not in found


def test_the_pooler_takes_two_copies_in_32_bits() -> None:
    assert pooler_bytes(bge_m3(), batched_tokens=8192) == 2 * 4 * 8192 * 1024


def test_its_band_is_wider_because_no_start_was_measured() -> None:
    generating, pooling = (
        figures(asked(each, concurrency=16)) for each in (qwen3_embedding(), as_pooling(qwen3_embedding()))
    )
    assert pooling.margin_bytes == generating.margin_bytes + GIB // 2


def test_no_speed_is_stated_for_what_does_not_generate() -> None:
    wanted = asked(as_pooling(qwen3_embedding()), concurrency=16)
    settings = engine_settings(wanted, gpu(H100), ONE)
    assert speed_of(wanted, gpu(H100), ONE, settings) is None
    assert model_of(wanted, gpu(H100), ONE, 100_000) is None


def test_the_same_layers_have_a_speed_where_they_generate() -> None:
    wanted = asked(qwen3_embedding(), concurrency=16)
    settings = engine_settings(wanted, gpu(H100), ONE)
    assert speed_of(wanted, gpu(H100), ONE, settings) is not None
    assert model_of(wanted, gpu(H100), ONE, 100_000) is not None
