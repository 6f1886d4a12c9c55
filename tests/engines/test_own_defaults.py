"""The settings of an engine that somebody starts without an operator: what is named, and the engine's own defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.engines.vllm.settings import engine_settings, may_fit, with_a_small_step
from tests.support.planning import H100, L4, gpu, request
from tests.support.pooling import bge_m3

NEWEST = EngineVersion(0, 32)


def started(name: str = "Qwen/Qwen3-8B", context: int = 4096, requests: int = 1, **engine: Any) -> Request:
    choice = EngineChoice(NEWEST, own_defaults=True, **engine)
    return replace(request(name, engine=choice), shape=ServingShape(context, requests))


def load(wanted: Request, kind: str = H100, split: Split | None = None) -> tuple[int, int]:
    """The requests and the tokens of a step."""
    found = engine_settings(wanted, gpu(kind), split or Split(1))
    return found.max_num_seqs, found.max_num_batched_tokens


@pytest.mark.parametrize(
    ("kind", "defaults"), [(H100, (1024, 8192)), (L4, (256, 2048)), ("b200-sxm-180gb", (1024, 16_384))]
)
def test_the_gpu_decides_the_defaults(kind: str, defaults: tuple[int, int]) -> None:
    assert load(started(), kind) == defaults


def test_the_load_changes_no_setting() -> None:
    assert load(started(requests=99)) == load(started())
    assert load(started(max_sequences=8), split=Split(1, 1, 4, expert_parallel=True)) == (8, 8192), (
        "each engine has them"
    )


def test_a_step_is_no_longer_than_all_sequences() -> None:
    assert load(started(context=512, max_sequences=4)) == (4, 2048)
    assert load(started(context=512, max_sequences=4, max_batched_tokens=4096)) == (4, 4096)


def test_there_is_a_token_for_each_sequence() -> None:
    assert load(started(max_batched_tokens=512)) == (512, 512)


def test_what_is_read_at_once_takes_a_step_of_its_own() -> None:
    encoder = replace(started(), model=bge_m3(), shape=ServingShape(8192, 1))
    assert load(encoder, L4) == (256, 8192)


def test_nothing_is_adjusted_to_what_fits() -> None:
    wanted = started(gpu_memory_utilization_percent=99)
    usual = engine_settings(wanted, gpu(L4), Split(1))
    assert usual.gpu_memory_utilization_percent == 99
    assert (
        with_a_small_step(
            wanted, gpu(H100), Split(1), engine_settings(wanted, gpu(H100), Split(1))
        ).max_num_batched_tokens
        == 8192
    )
    planned = replace(wanted, engine=replace(wanted.engine, own_defaults=False))
    assert engine_settings(planned, gpu(L4), Split(1)).gpu_memory_utilization_percent < 99
    assert (
        with_a_small_step(
            planned, gpu(H100), Split(1), engine_settings(planned, gpu(H100), Split(1))
        ).max_num_batched_tokens
        == 2048
    )


def test_a_share_that_cannot_hold_the_weights_is_known_at_once() -> None:
    assert may_fit(started(), gpu(H100), Split(1))
    assert not may_fit(started("meta-llama/Llama-3.3-70B-Instruct"), gpu(H100), Split(1))


@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        ("google/gemma-3-4b-it", H100, "bfloat16"),
        ("Qwen/Qwen3-8B", H100, "float16"),
        ("Qwen/Qwen3-8B", "t4-16gb", "float16"),
    ],
)
def test_a_quantized_checkpoint_in_float16_keeps_it_unless_the_model_overflows(
    name: str, kind: str, dtype: str
) -> None:
    """Source: ``_FLOAT16_NOT_SUPPORTED_MODELS`` of vLLM's ``config/model.py``, 0.9.2 to 0.33."""
    plain = request(name)
    stored = replace(plain.model.checkpoint, precision=Precision.AWQ, dtype=Precision.FP16)
    wanted = replace(plain, model=replace(plain.model, checkpoint=stored), precision=Precision.AWQ)
    assert engine_settings(wanted, gpu(kind), Split(1)).dtype == dtype
