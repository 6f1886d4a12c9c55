"""A KV cache of a given size, in bytes (``--kv-cache-memory-bytes``) or blocks (``--num-gpu-blocks-override``): exact,
whatever the share, as long as the card holds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from tests.support.planning import H100, gpu, request
from tests.support.tables import examples

TOKEN_BYTES = 2 * 32 * 8 * 128 * 2
"""Llama 3.1 8B: keys and values of 32 layers with 8 heads of 128 values in 16 bits."""


def asked(pool: int | None, percent: int = 92, concurrency: int = 4) -> Request:
    plain = request(context=8192, concurrency=concurrency)
    engine = replace(plain.engine, cache_bytes=pool, gpu_memory_utilization_percent=percent)
    return replace(plain, engine=engine)


def figures(wanted: Request, split: Split = Split(1)) -> MemoryEstimate:  # noqa: B008 - frozen
    return estimate(wanted, gpu(H100), split, engine_settings(wanted, gpu(H100), split))


@pytest.mark.parametrize("percent", [30, 92])
def test_the_cache_is_what_was_given_and_the_share_has_no_say(percent: int) -> None:
    found = figures(asked(10 * GIB, percent))
    blocks = 10 * GIB // (16 * TOKEN_BYTES)
    assert found.kv_capacity_tokens == found.kv_capacity_low_tokens == found.kv_capacity_high_tokens
    assert 0 <= blocks * 16 - found.kv_capacity_tokens <= 2 * 16
    assert found.kv_reported_tokens == found.kv_capacity_tokens
    assert found.kv_cache_bytes == 10 * GIB
    assert found.fit is Fit.SURE
    assert sum(line.size_bytes or 0 for line in found.terms[2].derive().lines) == 10 * GIB


def test_a_pool_below_the_load_is_known_to_be_too_small() -> None:
    need = figures(asked(None)).kv_cache_bytes
    assert figures(asked(need)).fit is Fit.SURE
    small = figures(asked(need - 1))
    assert (small.fit, small.margin_bytes, small.slack_bytes) == (Fit.NO, 0, 0)
    assert small.available_kv_bytes == need - 1


def test_a_pool_that_the_card_cannot_hold_beside_the_rest_does_not_fit() -> None:
    usual = figures(asked(None))
    room = usual.usable_bytes - usual.outside_bytes - usual.without_cache_bytes
    assert figures(asked(room - usual.margin_bytes)).fit is Fit.SURE
    assert figures(asked(room)).fit is Fit.PROBABLE
    assert figures(asked(room + usual.slack_bytes + 1)).fit is Fit.NO


def test_an_engine_without_a_given_size_has_what_the_share_leaves() -> None:
    usual = figures(asked(None))
    assert usual.kv_capacity_low_tokens < usual.kv_capacity_tokens < usual.kv_capacity_high_tokens
    assert usual.budget_bytes == gpu(H100).usable_bytes * 92 // 100


def test_engines_side_by_side_have_a_pool_each() -> None:
    wanted = asked(10 * GIB)
    experts = replace(request("Qwen/Qwen3-30B-A3B", context=8192, concurrency=4), engine=wanted.engine)
    one, four = figures(experts), figures(experts, Split(1, 1, 4, expert_parallel=True))
    assert four.kv_capacity_tokens == 4 * one.kv_capacity_tokens


V = EngineVersion
STATES = "Qwen/Qwen3.5-27B"


def with_blocks(blocks: int, *, release: EngineVersion = V(0, 32), **engine: Any) -> Request:  # noqa: B008 - frozen
    wanted = asked(None)
    return replace(wanted, engine=replace(wanted.engine, version=release, cache_blocks=blocks, **engine))


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 6), st.sampled_from((16, 32, 48, 64, 256)), st.integers(-3, 3))
def test_blocks_are_whole_and_the_engine_keeps_one(requests: int, block: int, beyond: int) -> None:
    """Each request of 8,192 tokens is rounded up to whole blocks; one more is the null block."""
    plain = asked(None, concurrency=requests)
    needed = requests * -(-8192 // block) + 1
    engine = replace(plain.engine, cache_blocks=needed + beyond, block_tokens=block)
    found = figures(replace(plain, engine=engine))
    assert found.fit is (Fit.SURE if beyond >= 0 else Fit.NO)
    assert found.given_cache == (needed + beyond, needed)
    assert found.kv_block_tokens == block
    assert found.kv_capacity_tokens == int((needed + beyond) / -(-8192 // block) * 8192)
    assert found.available_kv_bytes >= (needed + beyond) * block * TOKEN_BYTES


def test_blocks_go_before_bytes() -> None:
    both = figures(with_blocks(10_000, cache_bytes=30 * GIB))
    assert both.kv_cache_bytes == 10_000 * 16 * TOKEN_BYTES
    assert figures(with_blocks(10_000)).kv_cache_bytes == both.kv_cache_bytes


def test_before_0_20_1_what_was_measured_must_be_enough_as_well() -> None:
    """``get_kv_cache_configs`` of 0.20.0 checks the measured memory, and that of 0.20.1 the given blocks."""
    need = figures(asked(None)).kv_cache_bytes // (16 * TOKEN_BYTES)

    def fit(blocks: int, release: EngineVersion, percent: int) -> Fit:
        return figures(with_blocks(blocks, release=release, gpu_memory_utilization_percent=percent)).fit

    assert [fit(need, V(0, 20, patch), 21) for patch in (0, 1)] == [Fit.NO, Fit.SURE]
    assert [fit(need, V(0, 20, patch), 92) for patch in (0, 1)] == [Fit.SURE, Fit.SURE]
    assert [fit(need - 1, V(0, 20, patch), 92) for patch in (0, 1)] == [Fit.NO, Fit.NO]
    assert [fit(40_000, V(0, 20, patch), 92) for patch in (0, 1)] == [Fit.NO, Fit.NO], "more than the card has"
    both = with_blocks(need, release=V(0, 20), gpu_memory_utilization_percent=21, cache_bytes=20 * GIB)
    assert figures(both).fit is Fit.SURE, "a size in bytes is what was measured, whatever the share"


def test_given_blocks_limit_the_sequences_with_states() -> None:
    plain = request(STATES, context=8192, concurrency=4)

    def found(sequences: int, **engine: Any) -> MemoryEstimate:
        chosen = replace(plain.engine, cache_blocks=200, max_sequences=sequences, **engine)
        return figures(replace(plain, engine=chosen))

    assert [found(count).fit_of_states for count in (200, 201)] == [Fit.SURE, Fit.NO]
    assert (found(200).max_sequences, found(200).max_sequences_high) == (200, 200)
    eager = found(201, enforce_eager=True)
    assert (eager.max_sequences, eager.max_sequences_high, eager.fit_of_states) == (None, None, Fit.SURE)
