"""What physics says of any load: more work is never faster, a better card never slower."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.latency import Performance
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.performance.decode_time import decode_floor
from plimsoll.performance.model import Load, performance
from tests.support.model_configs import facts_of
from tests.support.tables import examples

CARDS = st.sampled_from([card for card in load_gpu_types() if not card.is_slice])
MODELS = st.sampled_from(
    [
        "Qwen__Qwen3-8B",
        "meta-llama__Llama-3.1-70B",
        "Qwen__Qwen3-235B-A22B",
        "openai__gpt-oss-120b",
        "deepseek-ai__DeepSeek-V3",
        "Qwen__Qwen3-Next-80B-A3B-Instruct",
        "google__gemma-3-27b-it",
    ]
)
SPLITS = st.sampled_from([Split(1), Split(2), Split(8), Split(2, 2), Split(1, data_parallel=4, expert_parallel=True)])
LOADS = st.builds(
    Load, prompt_tokens=st.integers(1, 32_000), output_tokens=st.integers(2, 8_000), running=st.integers(1, 400)
)
BATCHED = st.sampled_from([2048, 8192])
A_LITTLE = 1 + 1e-9
"""Room for the last digits of sums in another order."""


def found(stem: str, card: GpuType, split: Split, load: Load, batched: int) -> Performance:
    facts = facts_of(stem)
    return performance(facts, facts.checkpoint.precision, KvPrecision.BF16, card, split, load, batched)


@settings(max_examples=examples(150), deadline=None)
@given(MODELS, CARDS, SPLITS, LOADS, BATCHED, st.integers(1, 400))
def test_more_users_never_make_a_token_faster(
    stem: str, card: GpuType, split: Split, load: Load, batched: int, more: int
) -> None:
    few = found(stem, card, split, load, batched)
    many = found(stem, card, split, replace(load, running=load.running + more), batched)
    assert few.tpot_seconds <= many.tpot_seconds * A_LITTLE


@settings(max_examples=examples(150), deadline=None)
@given(MODELS, CARDS, SPLITS, LOADS, BATCHED, st.integers(1, 30_000))
def test_a_longer_prompt_never_makes_anything_faster(
    stem: str, card: GpuType, split: Split, load: Load, batched: int, more: int
) -> None:
    short = found(stem, card, split, load, batched)
    long = found(stem, card, split, replace(load, prompt_tokens=load.prompt_tokens + more), batched)
    assert short.tpot_seconds <= long.tpot_seconds * A_LITTLE
    assert short.ttft_seconds <= long.ttft_seconds * A_LITTLE


@settings(max_examples=examples(150), deadline=None)
@given(MODELS, CARDS, SPLITS, LOADS, BATCHED, st.integers(1, 4))
def test_more_bandwidth_is_never_slower(
    stem: str, card: GpuType, split: Split, load: Load, batched: int, times: int
) -> None:
    better = replace(card, memory_bandwidth_gb_per_second=card.memory_bandwidth_gb_per_second * times)
    usual, fast = found(stem, card, split, load, batched), found(stem, better, split, load, batched)
    assert fast.tpot_seconds <= usual.tpot_seconds * A_LITTLE
    # With many users, a faster loop sends its prompts in quicker succession: they may wait longer for each other.
    alone = replace(load, running=1)
    usual, fast = found(stem, card, split, alone, batched), found(stem, better, split, alone, batched)
    assert fast.ttft_seconds <= usual.ttft_seconds * A_LITTLE


@settings(max_examples=examples(150), deadline=None)
@given(MODELS, CARDS, SPLITS, LOADS, BATCHED)
def test_no_token_is_faster_than_one_read_of_its_weights(
    stem: str, card: GpuType, split: Split, load: Load, batched: int
) -> None:
    facts = facts_of(stem)
    each = found(stem, card, split, load, batched)
    floor = decode_floor(facts, facts.checkpoint.precision, card, split)
    assert each.tpot_seconds >= floor.seconds
    assert each.tpot_band[0] >= floor.seconds
    assert 0 <= each.margin <= 1
    assert each.ttft_seconds >= each.typical_ttft_seconds > 0
