"""Engine flags that follow from the request and the GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.engines.engine_choice import (
    Drafting,
    DraftMethod,
    EngineChoice,
    EngineVersion,
    LoraSlots,
    Speculation,
)
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.placement.options.feasibility import sized
from tests.support.planning import A100, H100, L4, LLAMA_8B, LLAMA_70B, MI300X, T4, gpu, model, request
from tests.support.tables import every_case

FP8 = "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"


def settings(wanted: Request, kind: str = H100, degree: int = 1) -> EngineSettings:
    return engine_settings(wanted, gpu(kind), Split(degree))


@every_case(
    ("kind", "sequences", "context", "fixed", "step"),
    [
        (H100, 64, 8192, None, 8192),
        (MI300X, 64, 8192, None, 8192),
        (A100, 64, 8192, None, 2048),
        (L4, 64, 8192, None, 2048),
        (H100, 1, 4096, None, 4096),
        (H100, 4096, 1, None, 4096),
        (L4, 64, 8192, 16_384, 16_384),
        (L4, 64, 8192, 64, 64),
        (L4, 128, 8192, 64, 128),
    ],
)
def test_tokens_of_a_step_follow_the_engines_defaults_and_never_undercut_the_sequences(
    kind: str, sequences: int, context: int, fixed: int | None, step: int
) -> None:
    engine = EngineChoice(EngineVersion(0, 32), max_batched_tokens=fixed)
    assert settings(request(concurrency=sequences, context=context, engine=engine), kind).max_num_batched_tokens == step


def test_with_adapters_a_step_has_room_for_every_drafted_token_and_only_then() -> None:
    drafting = EngineChoice(EngineVersion(0, 32), max_batched_tokens=64, speculation=Speculation(3))
    assert settings(request(concurrency=64, engine=drafting)).max_num_batched_tokens == 64
    both = replace(drafting, lora=LoraSlots(1, 16))
    assert settings(request(concurrency=64, engine=both)).max_num_batched_tokens == 64 * 4


def test_drafting_is_told_to_the_engine() -> None:
    assert settings(request()).drafting is None
    drafting = EngineChoice(EngineVersion(0, 32), speculation=Speculation(3))
    assert settings(request(engine=drafting)).drafting == Drafting(DraftMethod.NGRAM, 3)


@pytest.mark.parametrize(
    ("kind", "degree", "asked", "given"),
    [(H100, 1, 92, 92), (H100, 1, 98, 98), (H100, 2, 98, 97), (L4, 1, 98, 97), (T4, 2, 92, 91), (T4, 1, 50, 50)],
)
def test_utilization_is_lowered_where_cuda_and_nccl_need_the_rest(
    kind: str, degree: int, asked: int, given: int
) -> None:
    wanted = request(engine=EngineChoice(EngineVersion(0, 32), gpu_memory_utilization_percent=asked))
    assert settings(wanted, kind, degree).gpu_memory_utilization_percent == given


def test_before_0_21_the_graphs_must_fit_beside_the_budget_too() -> None:
    old = EngineChoice(EngineVersion(0, 20), gpu_memory_utilization_percent=98)
    assert settings(request(concurrency=256, engine=old), L4).gpu_memory_utilization_percent < 97
    assert settings(request(engine=replace(old, enforce_eager=True)), L4).gpu_memory_utilization_percent == 97


@every_case(
    ("name", "precision", "kind", "dtype", "quantization"),
    [
        (LLAMA_8B, Precision.BF16, H100, "bfloat16", None),
        (LLAMA_8B, Precision.FP16, H100, "float16", None),
        (LLAMA_8B, Precision.FP8, H100, "bfloat16", "fp8"),
        (LLAMA_8B, Precision.FP8, T4, "float16", "fp8"),
        (FP8, Precision.FP8, H100, "bfloat16", None),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", Precision.AWQ, T4, "float16", None),
        ("openai/gpt-oss-20b", Precision.MXFP4, H100, "bfloat16", None),
    ],
)
def test_only_online_quantization_is_asked_for_and_old_cards_compute_in_fp16(
    name: str, precision: Precision, kind: str, dtype: str, quantization: str | None
) -> None:
    seen = settings(request(name, precision=precision), kind)
    assert (seen.dtype, seen.quantization) == (dtype, quantization)


@every_case(
    ("precision", "kv", "kind", "flag"),
    [
        (Precision.BF16, KvPrecision.BF16, H100, "auto"),
        (Precision.BF16, KvPrecision.FP8, H100, "fp8"),
        (Precision.BF16, KvPrecision.FP16, H100, "float16"),
        (Precision.BF16, KvPrecision.INT8, H100, "int8_per_token_head"),
        (Precision.BF16, KvPrecision.INT4, H100, "int4_per_token_head"),
        (Precision.BF16, KvPrecision.FP8_SCALED, H100, "fp8_per_token_head"),
        (Precision.BF16, KvPrecision.TURBO_4BIT, H100, "turboquant_4bit_nc"),
        (Precision.FP16, KvPrecision.FP16, T4, "auto"),
        (Precision.FP8, KvPrecision.BF16, T4, "auto"),
    ],
)
def test_the_cache_is_auto_where_the_engine_would_choose_the_same(
    precision: Precision, kv: KvPrecision, kind: str, flag: str
) -> None:
    assert settings(request(precision=precision, kv_precision=kv), kind).kv_cache_dtype == flag


def test_a_checkpoint_that_fixes_its_cache_is_followed_and_can_be_overruled() -> None:
    facts = model()
    fixed = replace(facts, checkpoint=replace(facts.checkpoint, kv_precision=KvPrecision.FP8))
    assert settings(request(fixed)).kv_cache_dtype == "auto"
    assert settings(request(fixed, kv_precision=KvPrecision.BF16)).kv_cache_dtype == "bfloat16"


@pytest.mark.parametrize(("more", "step_tokens"), [(-1, 8192), (0, 2048), (1, 2048)])
def test_a_smaller_step_is_tried_unless_the_weights_alone_are_larger_than_the_budget(
    more: int, step_tokens: int
) -> None:
    """Of such a card, 92 percent are as many bytes as the weights of Llama 3.3 70B in BF16 are."""
    card = replace(gpu(H100), usable_bytes=153_414_095_027 + more)
    settings, figures = sized(request(LLAMA_70B), card, Split(1))
    assert figures.budget_bytes - figures.weights_bytes == more
    assert settings.max_num_batched_tokens == step_tokens
