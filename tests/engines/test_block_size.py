"""Blocks of a KV cache that a user names: which ones the engine refuses, and which ones are certain on every GPU."""

from __future__ import annotations

import pytest

from plimsoll.engines.vllm.refusals import block_refusal, follows_block
from tests.support.planning import model

DENSE, LATENT, STATES, ROWS, PURE, WIDE = (
    "Qwen/Qwen3-8B",
    "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen3.5-27B",
    "deepseek-ai/DeepSeek-V4-Flash",
    "state-spaces/mamba-2.8b-hf",
    "google/gemma-3-27b-it",
)


@pytest.mark.parametrize("tokens", [1, 8, 40, 100])
def test_kernels_read_multiples_of_16_tokens(tokens: int) -> None:
    assert "write a multiple of 16" in str(block_refusal(model(DENSE), tokens))
    assert block_refusal(model(DENSE), 16 * tokens) is None
    assert block_refusal(model(LATENT), tokens) is None, "AITER reads latent rows of any block"


@pytest.mark.parametrize(("tokens", "near"), [(1, 16), (40, 32), (41, 48), (127, 128)])
def test_the_nearest_size_is_named(tokens: int, near: int) -> None:
    assert f"e.g. {near}, or" in str(block_refusal(model(DENSE), tokens))


@pytest.mark.parametrize(
    ("name", "certain"),
    [
        (DENSE, {None: True, 16: True, 64: True}),
        (WIDE, {None: True, 64: True}),
        (STATES, {None: False, 16: True}),
        (LATENT, {None: False, 16: False, 64: True, 128: True}),
        (ROWS, {None: False, 64: False, 256: False}),
    ],
)
def test_the_tokens_of_a_block_are_certain_where_no_kernel_changes_them(
    name: str, certain: dict[int | None, bool]
) -> None:
    assert {tokens: follows_block(model(name), tokens) for tokens in certain} == certain
