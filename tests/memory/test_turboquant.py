"""TurboQuant's KV cache: the bytes of a token, the layers that keep 16 bits, and the scratch of its kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import MemoryEstimate, Split
from plimsoll.domain.decisions.terms import CACHE_SCRATCH
from plimsoll.domain.engines.engine_choice import Speculation
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import AttentionCache
from plimsoll.domain.models.precision import TURBOQUANT, KvPrecision
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.kv_cache.turboquant import scratch_bytes, turboquant_block, with_native_ends
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.memory.cache_bytes import RankFormat, token_bytes, turboquant_bytes
from plimsoll.memory.stages import stage_caches
from plimsoll.placement.options.speed import speed_of
from tests.support.model_configs import facts_of
from tests.support.planning import H100, gpu, request
from tests.support.tables import every_case

QWEN, STATES = "Qwen__Qwen3-8B", "Qwen__Qwen3-Next-80B-A3B-Instruct"


def figures(wanted: Request, split: Split) -> MemoryEstimate:
    kind = gpu(H100)
    return estimate(wanted, kind, split, engine_settings(wanted, kind, split))


def asked(precision: KvPrecision = KvPrecision.TURBO_4BIT, *, context: int = 8192) -> Request:
    return request(facts_of(QWEN), context=context, kv_precision=precision)


@every_case(
    ("precision", "width", "slot"),
    [
        (KvPrecision.TURBO_K8V4, 128, 196),
        (KvPrecision.TURBO_4BIT, 128, 134),
        (KvPrecision.TURBO_K3V4, 128, 118),
        (KvPrecision.TURBO_3BIT, 128, 102),
        (KvPrecision.TURBO_3BIT, 64, 54),
        (KvPrecision.TURBO_K8V4, 256, 388),
    ],
)
def test_a_key_and_its_value_are_packed_as_the_engine_says(precision: KvPrecision, width: int, slot: int) -> None:
    """``state_content_bytes`` of the specs that vLLM 0.32 plans with."""
    assert turboquant_bytes(precision, width) == slot


@pytest.mark.parametrize("precision", TURBOQUANT)
def test_two_layers_at_either_end_keep_16_bits(precision: KvPrecision) -> None:
    model = with_native_ends(facts_of(QWEN), precision)
    rank = RankFormat(precision, 2, 1, 0, "model")
    caches = [cache for kind in model.order for cache in model.kinds[kind].caches]
    sizes = [token_bytes(cache, rank) for cache in caches if isinstance(cache, AttentionCache)]
    native, packed = 8 * 2 * 128 * 2, 8 * turboquant_bytes(precision, 128)
    assert sizes == [native] * 2 + [packed] * 32 + [native] * 2
    assert stage_caches(model, 1, 2)[-1][1] == 2


@pytest.mark.parametrize("precision", [KvPrecision.BF16, KvPrecision.FP8, KvPrecision.INT4])
def test_other_formats_have_no_such_layers(precision: KvPrecision) -> None:
    assert with_native_ends(facts_of(QWEN), precision) == facts_of(QWEN)
    assert turboquant_block(facts_of(QWEN), precision) is None


def test_models_with_recurrent_states_have_none_either() -> None:
    assert with_native_ends(facts_of(STATES), KvPrecision.TURBO_3BIT) == facts_of(STATES)
    assert turboquant_block(facts_of(STATES), KvPrecision.TURBO_3BIT) is None


def test_the_kernels_scratch_is_the_larger_of_a_decoding_step_and_one_context() -> None:
    short, long = figures(asked(), Split(1)), figures(asked(context=40_960), Split(1))
    # One context: keys and values of 8 heads of 128 numbers in 16 bits, in whole blocks of 32 tokens.
    assert long.bytes_of(CACHE_SCRATCH) == 2 * 8 * 40_960 * 128 * 2
    assert short.bytes_of(CACHE_SCRATCH) == 2 * 8 * 8192 * 128 * 2
    many = replace(asked(), shape=replace(asked().shape, concurrency=512))
    sequences = engine_settings(many, gpu(H100), Split(1)).max_num_seqs
    of_head = 32 * 129 * 4 + 128 * 2 + 4
    assert figures(many, Split(1)).bytes_of(CACHE_SCRATCH) == sequences * 32 * of_head


def test_the_scratch_counts_inside_the_budget_and_outside() -> None:
    turbo, narrow = figures(asked(), Split(1)), figures(asked(KvPrecision.INT4), Split(1))
    scratch = turbo.bytes_of(CACHE_SCRATCH)
    assert turbo.outside_bytes == narrow.outside_bytes + scratch
    assert turbo.expected_bytes - turbo.kv_cache_bytes == narrow.expected_bytes - narrow.kv_cache_bytes + scratch
    assert narrow.bytes_of(CACHE_SCRATCH) == 0


def test_a_model_without_usual_attention_needs_no_scratch() -> None:
    usual, split, kind = asked(), Split(1), gpu(H100)
    latent = replace(usual, model=facts_of("deepseek-ai__DeepSeek-V2-Lite"))
    assert scratch_bytes(latent, split, engine_settings(usual, kind, split)) == 0


@pytest.mark.parametrize("precision", [KvPrecision.TURBO_4BIT, KvPrecision.TURBO_K3V4, KvPrecision.TURBO_3BIT])
def test_rotated_keys_have_a_power_of_two_of_numbers(precision: KvPrecision) -> None:
    phi = facts_of("stabilityai__stablelm-3b")
    with pytest.raises(UnsupportedModel, match="heads of 80 numbers, which is no power of two"):
        figures(request(phi, kv_precision=precision), Split(1))
    assert figures(request(phi, kv_precision=KvPrecision.TURBO_K8V4), Split(1)).kv_capacity_tokens > 0


@pytest.mark.parametrize("precision", TURBOQUANT)
def test_windows_have_no_kernels(precision: KvPrecision) -> None:
    with pytest.raises(UnsupportedModel, match="of windows: the engine has no kernels for it"):
        figures(request(facts_of("mistralai__Mistral-7B-v0.1"), kv_precision=precision), Split(1))


def test_drafts_and_context_parallelism_have_no_law() -> None:
    guessing = replace(asked(), engine=replace(asked().engine, speculation=Speculation(2)))
    for wanted, split in ((guessing, Split(1)), (asked(), Split(8, context_parallel=2))):
        with pytest.raises(UnsupportedModel, match="together with speculation or context parallelism"):
            figures(wanted, split)
    assert figures(replace(guessing, kv_precision=KvPrecision.INT4), Split(1)).kv_capacity_tokens > 0


def test_nothing_is_known_of_the_speed_of_its_kernels() -> None:
    kind, split = gpu(H100), Split(1)
    found = {
        each: speed_of(wanted, kind, split, engine_settings(wanted, kind, split))
        for each in (KvPrecision.TURBO_3BIT, KvPrecision.INT4)
        for wanted in (asked(each),)
    }
    assert found[KvPrecision.TURBO_3BIT] is None
    assert found[KvPrecision.INT4] is not None
