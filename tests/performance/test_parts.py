"""The parts of a step: work counted from the model, messages from the table, kernels from the formats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.cluster.gpus import Links, WeightKind
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.performance.hardware_speed import (
    all_reduce,
    all_to_all,
    interpolated,
    product_rate,
    quantizes_activations,
    read_share,
    speed_of,
    weights_to_expand,
)
from plimsoll.performance.step_costs import idle_rows, rounded_inputs, step_costs
from plimsoll.performance.step_work import CacheWork, cache_work, step_work
from tests.support.model_configs import facts_of
from tests.support.planning import A100, H100, LLAMA_8B, LLAMA_70B, MI300X, gpu, model

CURVE = ((1024, 1e-5), (1_048_576, 1e-4))
LINKS = Links(100.0, 50.0, 200.0, all_reduce=((2, CURVE), (8, ((1024, 2e-5), (4096, 4e-5)))), all_to_all=((2, CURVE),))


def test_a_dense_model_computes_two_operations_a_parameter() -> None:
    work = step_work(model(LLAMA_8B), Precision.BF16, KvPrecision.BF16, Split(1))
    parameters = 8.03e9 - 128_256 * 4096  # the table of embeddings is not multiplied
    assert sum(each.flops for each in (*work.dense, *work.head)) == pytest.approx(2 * parameters, rel=0.001)
    assert sum(each.bytes for each in (*work.dense, *work.head)) == pytest.approx(2 * parameters, rel=0.001)


def test_a_token_of_experts_computes_its_active_parameters() -> None:
    work = step_work(facts_of("Qwen__Qwen3-235B-A22B"), Precision.BF16, KvPrecision.BF16, Split(1))
    flops = sum(each.flops for each in (*work.dense, *work.head, *work.experts))
    assert flops == pytest.approx(2 * (22e9 - 151_936 * 4096), rel=0.02)  # published as A22B, table included
    assert (work.expert_count, work.experts_per_token) == (128, 8)


@pytest.mark.parametrize("split", [Split(4), Split(1, 4), Split(2, 2)])
def test_ranks_share_the_work_and_stages_take_turns(split: Split) -> None:
    whole = step_work(model(LLAMA_70B), Precision.BF16, KvPrecision.BF16, Split(1))
    part = step_work(model(LLAMA_70B), Precision.BF16, KvPrecision.BF16, split)
    assert part.dense[0].flops * split.tensor_parallel == pytest.approx(whole.dense[0].flops, rel=1e-3)
    assert part.all_reduces == (161 if split.tensor_parallel > 1 else 0)


def test_experts_of_all_engines_compute_what_all_tokens_need() -> None:
    facts = facts_of("Qwen__Qwen3-235B-A22B")
    one = step_work(facts, Precision.BF16, KvPrecision.BF16, Split(1)).experts[0]
    spread = step_work(facts, Precision.BF16, KvPrecision.BF16, Split(1, data_parallel=8, expert_parallel=True))
    assert spread.experts[0].bytes == pytest.approx(one.bytes / 8)
    assert spread.experts[0].flops == pytest.approx(one.flops)
    assert spread.exchanges == 2 * 94


def test_latent_attention_is_read_whole_by_every_rank() -> None:
    facts = facts_of("deepseek-ai__DeepSeek-V3")
    (one,) = cache_work(facts, KvPrecision.BF16, Split(1))
    (eight,) = cache_work(facts, KvPrecision.BF16, Split(8))
    assert one.token_bytes == eight.token_bytes == 61 * (512 + 64) * 2
    assert one.token_flops == pytest.approx(8 * eight.token_flops)


def test_a_recurrent_state_is_read_and_written_whatever_the_context() -> None:
    parts = cache_work(facts_of("Qwen__Qwen3-Next-80B-A3B-Instruct"), KvPrecision.BF16, Split(1))
    assert sum(part.fixed_bytes for part in parts) > 10_000_000
    assert sum(part.token_bytes for part in parts) == 12 * 2 * 2 * 256 * 2  # 12 layers of 2 heads, keys and values


def test_a_window_cuts_both_reads_and_pairs() -> None:
    work = CacheWork(token_bytes=1, token_flops=1, prompt_flops=1, most_tokens=100, fixed_bytes=0)
    assert work.attended(40) == 40
    assert work.attended(4000) == 100
    assert work.pairs(40) == 800
    assert work.pairs(1000) == 100 * 1000 - 5000


def test_messages_are_interpolated_between_logarithms() -> None:
    assert interpolated(CURVE, 10) == 1e-5
    assert interpolated(CURVE, 32_768) == pytest.approx((1e-5 * 1e-4) ** 0.5)
    assert interpolated(CURVE, 2 * 1_048_576) == pytest.approx(2e-4)


def test_a_slower_link_takes_longer_above_the_least_time() -> None:
    assert all_reduce(LINKS, 2).seconds(1_048_576) == pytest.approx(1e-5 + 9e-5 * 4)  # two GPUs: a quarter of the rate
    assert all_reduce(LINKS, 8).seconds(4096) == pytest.approx(2e-5 + 2e-5 * 2)
    assert all_reduce(LINKS, 4).seconds(4096) == all_reduce(LINKS, 8).seconds(4096)
    assert all_reduce(LINKS, 2).seconds(512) == 1e-5


def test_one_gpu_and_cards_without_links_exchange_nothing() -> None:
    assert all_reduce(LINKS, 1).seconds(1e6) == 0
    assert all_to_all(None, 8).seconds(1e6) == 0
    assert all_to_all(LINKS, 2).seconds(0) == 0


def test_formats_that_a_card_does_not_multiply_run_in_sixteen_bits() -> None:
    old, new, amd = (speed_of(gpu(name)) for name in (A100, H100, MI300X))
    assert product_rate(old, Precision.FP8) == product_rate(old, Precision.BF16)
    assert product_rate(new, Precision.FP8) > product_rate(new, Precision.BF16)
    assert product_rate(new, Precision.AWQ) == product_rate(new, Precision.BF16)
    assert product_rate(old, Precision.INT8) > product_rate(old, Precision.BF16)
    assert product_rate(new, Precision.FP32) == pytest.approx(product_rate(new, Precision.BF16) / 2)
    assert product_rate(amd, Precision.NVFP4) == product_rate(amd, Precision.BF16)
    assert [quantizes_activations(each, Precision.FP8) for each in (old, new, amd)] == [False, True, True]
    assert not quantizes_activations(new, Precision.GPTQ)


def test_a_card_with_a_given_share_multiplies_at_that_share() -> None:
    speed = replace(speed_of(gpu(H100)), family="any")
    assert product_rate(speed, Precision.BF16, 0.5) == pytest.approx(989e12 / 2)


def test_four_bits_that_the_card_multiplies_are_read_slower_than_four_bits_that_it_expands() -> None:
    efficiency = speed_of(gpu(H100)).efficiency
    expanded = {read_share(efficiency, each) for each in (Precision.AWQ, Precision.GPTQ, Precision.MXFP4)}
    assert expanded == {efficiency.read_4bit}
    assert read_share(efficiency, Precision.NVFP4) == efficiency.read_nvfp4 < efficiency.read_4bit


def test_experts_are_read_by_kernels_of_their_own_whatever_their_format() -> None:
    card, facts = gpu(H100), facts_of("Qwen__Qwen3-235B-A22B")
    small = step_costs(facts, Precision.FP8, KvPrecision.BF16, card, Split(8))
    large = step_costs(facts, Precision.BF16, KvPrecision.BF16, card, Split(8))
    share = speed_of(card).efficiency.expert_read
    for costs in (small, large):
        seconds = sum(each.read_seconds for each in costs.experts)
        read = sum(each.bytes for each in costs.work.experts)
        assert read / seconds / (card.memory_bandwidth_gb_per_second * 1e9) == pytest.approx(share)


def test_integers_are_expanded_at_a_rate_that_no_bandwidth_lifts() -> None:
    """Experts of four bits: half the bytes of eight bits, and on a B200 not half of their time."""
    card, split = gpu("b200-sxm-180gb"), Split(8)
    integers = step_costs(model("moonshotai/Kimi-K2.5"), Precision.GPTQ, KvPrecision.BF16, card, split).experts[0]
    floats = step_costs(model("nvidia/Kimi-K2.5-NVFP4"), Precision.NVFP4, KvPrecision.BF16, card, split).experts[0]
    assert integers.read_seconds > 1.5 * floats.read_seconds


@pytest.mark.parametrize(
    ("card", "precision", "weights"),
    [
        (H100, Precision.AWQ, 2),
        (H100, Precision.NVFP4, 2),
        ("b200-sxm-180gb", Precision.NVFP4, 0),
        ("b200-sxm-180gb", Precision.GPTQ, 2),
        (A100, Precision.FP8, 1),
        (A100, Precision.INT8, 0),
        (H100, Precision.FP8, 0),
        (H100, Precision.MXFP4, 0),
        ("b200-sxm-180gb", Precision.MXFP4, 0),
        (A100, Precision.MXFP4, 2),
        ("rtx-pro-6000-bse-96gb", Precision.MXFP4, 2),
        (MI300X, Precision.BF16, 0),
    ],
)
def test_a_card_expands_what_it_does_not_multiply(card: str, precision: Precision, weights: int) -> None:
    assert weights_to_expand(speed_of(gpu(card)), precision) == weights


def test_experts_that_are_expanded_multiply_at_the_rate_of_a_warp_wherever_more_is_there() -> None:
    """int4 experts reach 225 teraflops on H100 and 241 on B200, of peaks of 989 and 2,250 (aiconfigurator-core)."""
    for card, teraflops in ((H100, 225), ("b200-sxm-180gb", 241)):
        costs = step_costs(model("moonshotai/Kimi-K2.5"), Precision.GPTQ, KvPrecision.BF16, gpu(card), Split(8))
        rate = costs.work.experts[0].flops / costs.experts[0].token_seconds
        assert rate / 1e12 == pytest.approx(teraflops, rel=0.1)


@pytest.mark.parametrize(("rows", "idle"), [(0.5, 4), (7.2, 4), (36, 20), (57.6, 32), (5000, 32)])
def test_half_of_the_smallest_tile_that_holds_the_rows_of_an_expert_is_idle(rows: float, idle: float) -> None:
    assert idle_rows(rows) == pytest.approx(idle)


def test_idle_rows_count_for_the_experts_that_are_visited_and_only_if_weights_are_expanded() -> None:
    """Kimi-K2.5: 384 experts, 8 for a token, so 48 tokens bring a row to each."""
    found = [
        step_costs(model("moonshotai/Kimi-K2.5"), precision, KvPrecision.BF16, gpu(H100), split).experts[0]
        for precision, split in (
            (Precision.GPTQ, Split(8)),
            (Precision.GPTQ, Split(1, data_parallel=8, expert_parallel=True)),
        )
    ]
    assert [each.row_tokens for each in found] == [48, 6]
    [one, *_] = found
    product = one.token_seconds * (96 + 0.5 * 48 * 4)  # two rows for each expert, in tiles of 8
    read = 0.5 * one.read_seconds
    assert sum(one.parts(96, 0.5)) == pytest.approx((read**3 + product**3) ** (1 / 3))
    whole = step_costs(
        model("nvidia/Kimi-K2.5-NVFP4"), Precision.NVFP4, KvPrecision.BF16, gpu("b200-sxm-180gb"), Split(8)
    )
    assert whole.experts[0].row_tokens == 0


def test_layers_that_choose_their_tokens_take_longer() -> None:
    """GLM-5 has an indexer in all of its 78 layers, and DeepSeek V4 compresses tokens in all but two of 43."""
    chosen = step_work(model("zai-org/GLM-5"), Precision.BF16, KvPrecision.BF16, Split(8))
    compressed = step_work(model("deepseek-ai/DeepSeek-V4-Flash"), Precision.MXFP4, KvPrecision.FP8, Split(4))
    blocks = step_work(model("MiniMaxAI/MiniMax-M3"), Precision.BF16, KvPrecision.BF16, Split(8))
    assert (chosen.selecting_layers, compressed.selecting_layers, blocks.selecting_layers) == (78, 41, 0)
    speed = gpu(H100).speed
    assert speed is not None
    costs = step_costs(model("zai-org/GLM-5"), Precision.BF16, KvPrecision.BF16, gpu(H100), Split(8))
    assert costs.layer_seconds > 78 * speed.efficiency.selecting_layer_seconds


def test_inputs_are_rounded_where_the_card_multiplies_the_format() -> None:
    """gpt-oss keeps its inputs at 16 bits, whatever the card multiplies."""
    blackwell, ampere = speed_of(gpu("b200-sxm-180gb")), speed_of(gpu(A100))
    eight = step_work(model(LLAMA_70B), Precision.FP8, KvPrecision.BF16, Split(8))
    four = step_work(model("nvidia/Kimi-K2.5-NVFP4"), Precision.NVFP4, KvPrecision.BF16, Split(8))
    open_weights = step_work(model("openai/gpt-oss-120b"), Precision.MXFP4, KvPrecision.BF16, Split(8))
    assert rounded_inputs(eight, blackwell) is Precision.FP8
    assert rounded_inputs(eight, ampere) is None
    assert rounded_inputs(four, blackwell) is Precision.NVFP4
    assert rounded_inputs(open_weights, blackwell) is None


@pytest.mark.parametrize(
    ("name", "precision", "kind"),
    [
        (LLAMA_8B, Precision.BF16, WeightKind.DENSE_16BIT),
        (LLAMA_70B, Precision.FP8, WeightKind.DENSE_8BIT),
        (LLAMA_70B, Precision.AWQ, WeightKind.DENSE_4BIT_INTEGER),
        (LLAMA_70B, Precision.NVFP4, WeightKind.DENSE_4BIT_FLOAT),
        ("Qwen/Qwen3-30B-A3B", Precision.BF16, WeightKind.EXPERTS_16BIT),
        ("MiniMaxAI/MiniMax-M2.7", Precision.FP8, WeightKind.EXPERTS_8BIT),
        ("moonshotai/Kimi-K2.5", Precision.GPTQ, WeightKind.EXPERTS_4BIT_INTEGER),
        ("openai/gpt-oss-120b", Precision.MXFP4, WeightKind.EXPERTS_4BIT_FLOAT),
    ],
)
def test_the_kind_of_a_model_is_that_of_most_of_its_weights(name: str, precision: Precision, kind: WeightKind) -> None:
    assert step_work(model(name), precision, KvPrecision.BF16, Split(1)).kind is kind
