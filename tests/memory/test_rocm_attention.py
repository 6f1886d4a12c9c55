"""The attention kernel of an engine on AMD's graphics cards, and the memory that it spills."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.caches import AttentionCache, LatentCache
from plimsoll.domain.models.model import LayerKind, ModelFacts
from plimsoll.engines.vllm.memory.laws.rocm_attention import (
    SPILL_BYTES,
    chosen_attention,
    spilled_bytes,
    spills_attention,
)
from tests.support.planning import gpu, model
from tests.support.tables import every_case

LLAMA = model("meta-llama/Llama-3.1-8B-Instruct")
GPT_OSS = model("openai/gpt-oss-20b")


def with_cache(cache: AttentionCache | LatentCache) -> ModelFacts:
    return replace(LLAMA, kinds=(LayerKind((), (cache,)),), order=(0,) * LLAMA.layers)


@every_case(
    ("arguments", "chosen"),
    [
        (("--attention-backend=ROCM_ATTN",), "ROCM_ATTN"),
        (("--attention-backend", "triton_attn"), "TRITON_ATTN"),
        (("--attention_backend", "ROCM_ATTN"), "ROCM_ATTN"),
        (("-ac.backend=ROCM_ATTN",), "ROCM_ATTN"),
        (("--attention-config.backend", "ROCM_ATTN"), "ROCM_ATTN"),
        (("--block-size=32", "--load-format", "dummy"), None),
        ((), None),
    ],
)
def test_the_users_choice_is_read_from_the_arguments(arguments: tuple[str, ...], chosen: str | None) -> None:
    assert chosen_attention(arguments) == chosen


@pytest.mark.parametrize(
    ("release", "chosen", "spills"),
    [
        ((0, 18), None, True),
        ((0, 19), None, False),
        ((0, 18), "ROCM_ATTN", False),
        ((0, 32), "TRITON_ATTN", True),
    ],
)
def test_the_release_and_the_user_decide_on_the_kernel(
    release: tuple[int, int], chosen: str | None, *, spills: bool
) -> None:
    assert spills_attention(LLAMA, EngineVersion(*release), chosen) is spills


def test_models_that_rocms_own_kernel_does_not_serve() -> None:
    newest = EngineVersion(0, 32)
    assert spills_attention(GPT_OSS, newest, None), "it has attention sinks"
    assert spills_attention(with_cache(AttentionCache(8, 48, 48)), newest, None), "no kernel has such heads"
    assert spills_attention(with_cache(LatentCache(512, 64)), newest, None), "latent caches were not measured"
    assert not spills_attention(with_cache(AttentionCache(8, 64, 64)), newest, None)


def test_scratch_memory_is_expected_on_graphics_cards_of_amd_alone() -> None:
    old, newer = EngineVersion(0, 13), EngineVersion(0, 14)
    card, accelerator, nvidia = (gpu(name) for name in ("r9700-32gb", "mi300x-192gb", "rtx-4090-24gb"))
    assert spilled_bytes(card, LLAMA, old, None) == SPILL_BYTES
    assert spilled_bytes(card, LLAMA, old, "ROCM_ATTN") == 0
    assert spilled_bytes(card, LLAMA, newer, None) == 0
    assert spilled_bytes(accelerator, LLAMA, old, None) == 0
    assert spilled_bytes(nvidia, LLAMA, old, None) == 0
