"""SGLang's memory law: the share of what is free, the pools, what is outside, and the settings that follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion, MediaUse, Speculation, StaticShare
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.sglang.memory.estimate import cache_bytes, estimate
from plimsoll.engines.sglang.memory.free import effective_share, free_bytes, media_bytes, taken_bytes
from plimsoll.engines.sglang.memory.outside import outside, request_table_bytes
from plimsoll.engines.sglang.memory.pool import Cells, Pools, cells_of
from plimsoll.engines.sglang.settings import engine_settings, may_fit, with_a_small_step
from plimsoll.memory.weights import weights_bytes
from tests.support.model_configs import facts_of
from tests.support.planning import H100, gpu, request

RELEASE = EngineVersion(0, 5, 23)
GEMMA_12B = Cells(full=16_384, window=163_840, slot=0, window_tokens=1024, page=1)
"""Bytes of one of two ranks, by the lines of its log."""


def asked(name: str = "meta-llama/Llama-3.1-8B-Instruct", **changes: Any) -> Request:
    model = facts_of(name.replace("/", "__"))
    engine = EngineChoice(RELEASE, name="sglang")
    made = request(model=model, engine=engine)
    wanted = {"precision": model.checkpoint.precision, "kv_precision": KvPrecision.BF16, **changes}
    return replace(made, **wanted)


def figures(wanted: Request, card: str = H100, split: Split | None = None) -> MemoryEstimate:
    on, divided = gpu(card), split or Split(1)
    return estimate(wanted, on, divided, engine_settings(wanted, on, divided))


@pytest.mark.parametrize(
    ("ratio", "tokens"),
    [(800, 102_094), (500, 153_141), (250, 262_528), (100, 459_425), (62, 565_446), (30, 706_807)],
)
def test_the_ratio_and_not_the_window_divides_the_pools(ratio: int, tokens: int) -> None:
    """Gemma 4 12B on two RTX 3090 (0.5.12): the tokens of six logged starts with 14.02 GiB for both pools."""
    found = Pools(GEMMA_12B, StaticShare(850, window_thousandths=ratio)).tokens(int(14.02 * GIB))
    assert found == pytest.approx(tokens, rel=0.006)


def test_states_take_nine_parts_of_nineteen_unless_their_number_is_named() -> None:
    """Qwen3.8-27B-FP8 on H100 (0.5.20): 38.24 GiB for the pools, 330,323 tokens and 124 states."""
    cells = cells_of(asked("Qwen/Qwen3.5-27B"), Split(1))
    usual, named = Pools(cells, StaticShare(850)), Pools(cells, StaticShare(850, state_slots=20))
    pool = int(38.24 * GIB)
    assert usual.tokens(pool) == pytest.approx(330_323, rel=0.003)
    assert usual.slots(pool) == pytest.approx(124, abs=2)
    assert named.slots(pool) == 20
    assert named.tokens(pool) > 1.5 * usual.tokens(pool)


@pytest.mark.parametrize(
    ("model", "precision", "size"),
    [
        ("moonshotai/Kimi-K2.5", KvPrecision.BF16, 70_272),
        ("zai-org/GLM-5", KvPrecision.BF16, 100_152),
        ("zai-org/GLM-5", KvPrecision.FP8, 61_464),
        ("meta-llama/Llama-3.1-8B-Instruct", KvPrecision.BF16, 16_384),
        ("meta-llama/Llama-3.1-8B-Instruct", KvPrecision.FP8, 8_192),
    ],
)
def test_latent_caches_are_on_every_rank_and_heads_are_divided(model: str, precision: KvPrecision, size: int) -> None:
    """The bytes a token of Kimi K2.5 and GLM-5 are those that their logs of eight ranks come to."""
    assert cells_of(asked(model, kv_precision=precision), Split(8)).full == size


def test_a_window_counts_in_full_in_classes_that_the_engine_does_not_list() -> None:
    listed, other = (cells_of(asked(name), Split(1)) for name in ("openai/gpt-oss-20b", "google/gemma-3-27b-it"))
    assert listed.window_tokens == 128
    assert listed.window == listed.full
    assert other.window == 0


def guessing(wanted: Request, speculation: Speculation) -> Request:
    return replace(wanted, engine=replace(wanted.engine, speculation=speculation))


@pytest.mark.parametrize(
    ("name", "draft", "plain", "cell"),
    [
        # 61 layers of 576 numbers of 2 bytes, and one more.
        ("deepseek-ai/DeepSeek-V3", None, 61 * 1_152, 62 * 1_152),
        # 32 layers of 8 heads of 128. The draft has 16 of 8 heads of 64, which count as much as 16 of the model.
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama__Llama-3.2-1B-Instruct", 32 * 4_096, 48 * 4_096),
    ],
)
def test_a_layer_of_a_draft_counts_as_one_of_the_model(name: str, draft: str | None, plain: int, cell: int) -> None:
    wanted = asked(name)
    own = Speculation(3, uses_predictor=True) if draft is None else Speculation(3, facts_of(draft))
    found = cells_of(guessing(wanted, own), Split(1))
    assert (cells_of(wanted, Split(1)).full, found.full) == (plain, cell)


@pytest.mark.parametrize(
    ("name", "layers", "recurrence", "window"),
    [
        # Its configuration names no type, and its numbers have 16 bits: 32 heads of 128 x 128; 8,192 channels.
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 36, 32 * 128 * 128, 8_192 * 3),
        # Names 32 bits. 125 of these states are the 17.92 GiB that an engine logged (0.5.20, Qwen3.8-27B: same shape).
        ("Qwen/Qwen3.5-27B", 48, 48 * 128 * 128, 10_240 * 3),
    ],
)
def test_a_recurrence_has_32_bits_unless_a_type_is_named(name: str, layers: int, recurrence: int, window: int) -> None:
    assert cells_of(asked(name), Split(1)).slot == layers * (4 * recurrence + 2 * window)


@pytest.mark.parametrize(
    ("name", "card", "release", "sequences", "mib"),
    [
        ("Qwen/Qwen3-8B", H100, 23, 64, 0),
        ("Qwen/Qwen3-VL-8B-Instruct", "l40s-48gb", 23, 64, 100),
        ("Qwen/Qwen3-VL-8B-Instruct", "l40s-48gb", 17, 64, 0),
        ("Qwen/Qwen3-VL-8B-Instruct", H100, 18, 64, 100),
        ("Qwen/Qwen3-VL-8B-Instruct", H100, 23, 64, 1024),
        ("Qwen/Qwen3-VL-8B-Instruct", H100, 23, 400, 3072),
        ("Qwen/Qwen2.5-VL-7B-Instruct", H100, 23, 400, 100),
    ],
)
def test_a_part_of_the_share_is_kept_for_media(name: str, card: str, release: int, sequences: int, mib: int) -> None:
    wanted = asked(name)
    wanted = replace(wanted, engine=replace(wanted.engine, version=EngineVersion(0, 5, release)))
    assert media_bytes(wanted, gpu(card), sequences) == mib << 20
    blind = replace(wanted, engine=replace(wanted.engine, media=MediaUse(text_only=True)))
    assert media_bytes(blind, gpu(card), sequences) == 0


def test_a_draft_is_weights_a_reserve_outside_and_never_sure() -> None:
    wanted, small = asked(), facts_of("meta-llama__Llama-3.2-1B-Instruct")
    plain, found = figures(wanted), figures(guessing(wanted, Speculation(3, small)))
    assert found.weights_bytes - plain.weights_bytes == weights_bytes(small, small.checkpoint.precision, Split(1))
    assert plain.budget_bytes - found.budget_bytes == pytest.approx(6 * GIB, abs=0.1 * GIB)
    assert (plain.fit, found.fit) == (Fit.SURE, Fit.PROBABLE)
    (doubt,) = found.doubts
    assert dict(doubt.numbers)["pairs"] == "speculative decoding under SGLang"


def test_a_draft_next_to_states_or_windows_has_no_law_and_is_refused() -> None:
    states = asked("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert cells_of(states, Split(4)).slot
    with pytest.raises(UnsupportedModel, match="a draft next to windows or recurrent states"):
        cells_of(guessing(states, Speculation(2, uses_predictor=True)), Split(4))


def test_caches_and_formats_without_a_law_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="compressed tokens"):
        cells_of(asked("deepseek-ai/DeepSeek-V4-Flash"), Split(4))
    with pytest.raises(UnsupportedModel, match="int8 KV cache in SGLang"):
        cells_of(asked(kv_precision=KvPrecision.INT8), Split(1))


@pytest.mark.parametrize(
    ("card", "gpus", "free"),  # as logged
    [
        (H100, 1, 78.47),
        ("rtx-3090-24gb", 2, 22.91),
        ("h200-sxm-141gb", 1, 139.13),
        ("h200-sxm-141gb", 8, 137.29),
        ("mi355x-288gb", 8, 283.53),
        ("mi355x-288gb", 1, 287.26),
    ],
)
def test_the_share_is_of_what_is_free_before_the_weights(card: str, gpus: int, free: float) -> None:
    expected, taken = free_bytes(gpu(card), Split(gpus)), taken_bytes(gpu(card), Split(gpus))
    assert expected - taken.more <= free * GIB <= expected + taken.less
    assert expected / GIB == pytest.approx(free, rel=0.01)


@pytest.mark.parametrize(
    ("attention", "context", "card", "expected", "most"),
    [
        ("aiter", 32_768, "mi355x-288gb", 51_000, 51_000),
        ("triton", 32_768, "mi355x-288gb", 60_000, 60_000),
        (None, 32_768, "mi355x-288gb", 51_000, 60_000),
        ("aiter", 8192, "mi355x-288gb", 60_000, 60_000),
        (None, 32_768, H100, 60_000, 60_000),
    ],
)
def test_aiter_lowers_a_share_that_was_given(
    attention: str | None, context: int, card: str, expected: int, most: int
) -> None:
    assert effective_share(gpu(card), 600, context, attention) == (expected, most)


def test_the_table_of_requests_is_on_the_gpu() -> None:
    assert request_table_bytes(4095, 40_956) / GIB == pytest.approx(0.625, abs=0.001)


@pytest.mark.parametrize("card", [H100, "rtx-4090-24gb", "l4-24gb", "mi300x-192gb", "b200-sxm-180gb"])
def test_the_share_leaves_room_for_all_that_comes_after_the_pools(card: str) -> None:
    wanted = asked()
    on = gpu(card)
    chosen = engine_settings(wanted, on, Split(1))
    assert chosen.static is not None
    free, later = free_bytes(on, Split(1)), outside(wanted, on, Split(1), chosen).total_bytes
    assert free * chosen.static.thousandths // 1000 + later <= free
    assert figures(wanted, card).has_room_outside
    lower = replace(wanted, engine=replace(wanted.engine, gpu_memory_utilization_percent=50))
    limited = engine_settings(lower, on, Split(1)).static
    assert limited is not None
    assert free * limited.thousandths <= 1000 * on.usable_bytes // 2


def test_a_small_step_raises_the_share_and_a_step_of_the_users_stays() -> None:
    wanted, on = asked(), gpu(H100)
    usual = engine_settings(wanted, on, Split(1))
    lean = with_a_small_step(wanted, on, Split(1), usual)
    assert usual.static is not None
    assert lean.static is not None
    assert (usual.max_num_batched_tokens, lean.max_num_batched_tokens) == (8192, 2048)
    assert lean.static.thousandths > usual.static.thousandths
    fixed = asked(engine=EngineChoice(RELEASE, name="sglang", max_batched_tokens=4096))
    own = engine_settings(fixed, on, Split(1))
    assert own.max_num_batched_tokens == 4096
    assert with_a_small_step(fixed, on, Split(1), own) == own


def test_the_pool_for_windows_is_as_large_as_the_running_requests_need() -> None:
    wanted = asked("openai/gpt-oss-20b")
    wanted = replace(wanted, shape=replace(wanted.shape, context_tokens=65_536, concurrency=16))
    chosen = engine_settings(wanted, gpu(H100), Split(1)).static
    assert chosen is not None
    assert chosen.window_thousandths is not None
    held = chosen.window_thousandths * 16 * 65_536 // 1000
    assert 16 * 129 + 8192 <= held < 0.1 * 16 * 65_536


def test_what_was_never_measured_together_is_never_sure() -> None:
    assert figures(asked()).fit is Fit.SURE
    other = figures(asked(), "b200-sxm-180gb")
    assert other.fit_by_figures is Fit.SURE
    assert other.fit is Fit.PROBABLE


@given(
    thousandths=st.integers(100, 990),
    window=st.one_of(st.none(), st.integers(1, 1000)),
    slots=st.one_of(st.none(), st.integers(1, 64)),
    slot=st.sampled_from([0, 2**27]),
    wanted=st.integers(1, 2_000_000),
    page=st.sampled_from([1, 64]),
)
def test_the_least_pool_for_some_tokens_holds_them_and_not_many_more(
    thousandths: int, window: int | None, slots: int | None, slot: int, wanted: int, page: int
) -> None:
    cells = Cells(full=16_384, window=163_840, slot=slot, window_tokens=1024, page=page)
    pools = Pools(cells, StaticShare(thousandths, window, slots))
    size = pools.bytes_for(wanted)
    assert wanted <= pools.tokens(size) <= wanted + page + 1
    assert pools.tokens(size - 2 * page * pools.bytes_per_token) < wanted
    assert pools.tokens(-GIB) == 0
    reported = pools.tokens(size)
    capped = replace(pools.static, most_tokens=wanted // 2)
    assert Pools(cells, capped).tokens(size) <= max(wanted // 2, 0)
    assert pools.bytes_for(reported) >= size - 2 * page * pools.bytes_per_token


@pytest.mark.parametrize("card", [H100, "rtx-4090-24gb"])
def test_what_the_quick_look_rules_out_does_not_fit(card: str) -> None:
    on: GpuType = gpu(card)
    for concurrency in (1, 8, 64, 512, 4096):
        wanted = asked()
        wanted = replace(wanted, shape=replace(wanted.shape, concurrency=concurrency, context_tokens=16_384))
        lean = with_a_small_step(wanted, on, Split(1), engine_settings(wanted, on, Split(1)))
        if not may_fit(wanted, on, Split(1)):
            assert estimate(wanted, on, Split(1), lean).fit is Fit.NO


def test_reported_tokens_become_the_bytes_that_they_take() -> None:
    wanted, on = asked(), gpu(H100)
    chosen = engine_settings(wanted, on, Split(1))
    found = estimate(wanted, on, Split(1), chosen)
    predicted, real = cache_bytes(wanted, on, Split(1), chosen, found, found.kv_reported_tokens)
    assert 0 <= predicted - real < found.kv_bytes_per_token
