"""Settings and placement of models that pool."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.engines.vllm.settings import engine_settings, with_a_small_step
from plimsoll.facts.models.pooling import as_pooling
from tests.support.planning import L4, gpu, request
from tests.support.pooling import bge_m3, qwen3_embedding


def settings(model: ModelFacts, context: int = 8192) -> EngineSettings:
    wanted = replace(request(context=context, concurrency=16), model=model, precision=Precision.BF16)
    return with_a_small_step(wanted, gpu(L4), Split(1), engine_settings(wanted, gpu(L4), Split(1)))


@pytest.mark.parametrize(("context", "step"), [(8192, 8192), (512, 2048)])
def test_an_encoder_gets_a_step_for_its_longest_input(context: int, step: int) -> None:
    assert settings(bge_m3(), context).max_num_batched_tokens == step


def test_a_decoder_reads_its_input_in_chunks_where_it_pools_too() -> None:
    assert settings(as_pooling(qwen3_embedding())).max_num_batched_tokens == 2048


def test_the_runner_is_named_only_where_the_model_pools() -> None:
    assert settings(bge_m3()).runner == "pooling"
    assert settings(as_pooling(qwen3_embedding())).runner == "pooling"
    assert settings(qwen3_embedding()).runner is None
