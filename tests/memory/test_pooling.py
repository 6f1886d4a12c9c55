"""The estimate of models that pool: no sampler, no output projection, and for encoders no cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.engine_choice import EngineChoice
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.serving import Request
from plimsoll.domain.terms import ACTIVATIONS
from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.pooler import pooler_bytes
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.facts.models.pooling import as_pooling
from plimsoll.placement.speed import speed_of
from plimsoll.rebalance.modelling import model_of
from tests.support.planning import H100, gpu, request
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


def test_an_embedding_model_keeps_the_cache_of_its_decoder() -> None:
    generating, pooling = (
        figures(asked(each, concurrency=16)) for each in (qwen3_embedding(), as_pooling(qwen3_embedding()))
    )
    assert pooling.kv_cache_bytes == generating.kv_cache_bytes > 0


def test_it_is_lighter_by_its_output_projection_and_runs_no_sampler() -> None:
    generating, pooling = (figures(asked(each)) for each in (qwen3_embedding(), as_pooling(qwen3_embedding())))
    head = 151_680 * 4096 * 2
    assert generating.weights_bytes - pooling.weights_bytes == pytest.approx(head, rel=0.01)
    assert pooling.activations_bytes <= generating.activations_bytes


def test_after_the_forward_pass_comes_the_pooler_and_not_the_sampler() -> None:
    eager = EngineChoice(EngineVersion(0, 32), enforce_eager=True)
    for model, follows, never in ((qwen3_embedding(), "sampler", "pooler"), (bge_m3(), "pooler", "sampler")):
        found = words(figures(replace(asked(model), engine=eager)))
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
