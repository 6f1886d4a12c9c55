"""The speed of a replica: what it is made of, and the edges of its inputs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.latency import Bound, Performance
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import CpuOffload
from plimsoll.domain.models.caches import AttentionCache, CacheSpec
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.performance.decode_time import decode_floor
from plimsoll.performance.model import Load, decode_step, first_token_seconds, performance, steps_with_prompts
from plimsoll.performance.step_costs import step_costs
from tests.support.model_configs import facts_of
from tests.support.planning import H100, L4, L40S, LLAMA_8B, LLAMA_70B, gpu, model

BF16, CACHE, ONE = Precision.BF16, KvPrecision.BF16, Split(1)
ONE_USER = Load(prompt_tokens=1024, output_tokens=1024, running=1)


def of(name: str, card: GpuType, split: Split = ONE, load: Load = ONE_USER, precision: Precision = BF16) -> Performance:
    return performance(model(name), precision, CACHE, card, split, load, 8192)


def test_one_user_waits_a_little_longer_than_the_weights_take() -> None:
    found, floor = of(LLAMA_8B, gpu(H100)), decode_floor(model(LLAMA_8B), BF16, gpu(H100), Split(1))
    assert floor.seconds < found.tpot_seconds < 2 * floor.seconds
    assert found.bound is Bound.MEMORY


def test_a_prompt_on_a_fast_link_is_bound_by_products_and_on_pcie_by_messages() -> None:
    many = Load(prompt_tokens=8192, output_tokens=128, running=32)
    fast = of(LLAMA_70B, gpu(H100), Split(8), many)
    slow = of(LLAMA_70B, gpu(L40S), Split(8), many)
    assert fast.bound is Bound.COMPUTE
    assert slow.bound is Bound.COMMUNICATION
    assert slow.ttft_seconds > 20 * fast.ttft_seconds


def test_more_gpus_over_pcie_can_make_a_prompt_slower() -> None:
    long = Load(prompt_tokens=8192, output_tokens=128, running=1)
    assert of(LLAMA_70B, gpu(L40S), Split(8), long).ttft_seconds > of(LLAMA_70B, gpu(L40S), Split(4), long).ttft_seconds
    assert of(LLAMA_70B, gpu(H100), Split(8), long).ttft_seconds < of(LLAMA_70B, gpu(H100), Split(4), long).ttft_seconds


def test_throughput_is_what_the_users_get_together() -> None:
    load = Load(prompt_tokens=512, output_tokens=256, running=16)
    found = of(LLAMA_8B, gpu(H100), load=load)
    of_one = load.output_tokens / (found.typical_ttft_seconds + 255 * found.tpot_seconds)
    assert found.output_tokens_per_second == pytest.approx(16 * of_one)


def test_prompts_of_others_lengthen_the_time_between_tokens() -> None:
    alone = of(LLAMA_8B, gpu(L4), load=Load(4096, 64, 8))
    rarely = of(LLAMA_8B, gpu(L4), load=Load(4096, 4096, 8))
    assert alone.tpot_seconds > 1.5 * rarely.tpot_seconds


def test_the_first_round_of_users_waits_and_later_ones_hardly_do() -> None:
    begins, goes_on = Load(2048, 512, 64), Load(2048, 512, 64, rounds=math.inf)
    with_start, without = of(LLAMA_8B, gpu(H100), load=begins), of(LLAMA_8B, gpu(H100), load=goes_on)
    assert with_start.ttft_seconds > 1.5 * without.ttft_seconds
    assert without.ttft_seconds == without.typical_ttft_seconds == with_start.typical_ttft_seconds


def test_a_mixture_of_experts_reads_more_experts_for_more_users() -> None:
    facts = facts_of("Qwen__Qwen3-30B-A3B-FP8")

    def tpot(running: int) -> float:
        load = Load(128, 1024, running)
        return performance(facts, Precision.FP8, CACHE, gpu(H100), Split(1), load, 8192).tpot_seconds

    dense = [of(LLAMA_8B, gpu(H100), load=Load(128, 1024, running)).tpot_seconds for running in (1, 32)]
    assert tpot(32) / tpot(1) > 1.5 * dense[1] / dense[0]


def endless(cache: CacheSpec) -> CacheSpec:
    assert isinstance(cache, AttentionCache)
    return replace(cache, window_tokens=None)


def test_a_window_bounds_what_a_long_context_costs() -> None:
    facts = facts_of("google__gemma-3-27b-it")
    whole = replace(facts, kinds=tuple(replace(kind, caches=tuple(map(endless, kind.caches))) for kind in facts.kinds))
    load = Load(32_768, 1024, 8)
    windowed = performance(facts, BF16, CACHE, gpu(H100), Split(2), load, 8192)
    full = performance(whole, BF16, CACHE, gpu(H100), Split(2), load, 8192)
    assert windowed.tpot_seconds < 0.7 * full.tpot_seconds


def test_a_smaller_cache_format_is_read_faster() -> None:
    load = Load(16_384, 1024, 16)
    sixteen = performance(model(LLAMA_8B), BF16, KvPrecision.BF16, gpu(H100), Split(1), load, 8192)
    eight = performance(model(LLAMA_8B), BF16, KvPrecision.FP8, gpu(H100), Split(1), load, 8192)
    assert eight.tpot_seconds < sixteen.tpot_seconds


def test_offloaded_weights_are_read_over_the_slot() -> None:
    floor = decode_floor(model(LLAMA_8B), BF16, gpu(H100), Split(1), CpuOffload(8 * GIB))
    found = performance(model(LLAMA_8B), BF16, CACHE, gpu(H100), Split(1), ONE_USER, 8192, CpuOffload(8 * GIB))
    assert found.tpot_seconds >= floor.seconds
    assert found.tpot_seconds > 10 * of(LLAMA_8B, gpu(H100)).tpot_seconds


def test_an_engine_that_plans_after_each_step_is_slower_with_many_users() -> None:
    load = Load(256, 256, 128)
    now = performance(model(LLAMA_8B), BF16, CACHE, gpu(H100), Split(1), load, 8192)
    before = performance(model(LLAMA_8B), BF16, CACHE, gpu(H100), Split(1), load, 8192, synchronous=True)
    assert before.tpot_seconds > 1.1 * now.tpot_seconds


def test_an_engine_that_plans_ahead_hides_the_work_of_the_host_behind_a_step() -> None:
    """The host takes a millisecond for a step. A long step hides most of it, unless the host waits for its end."""
    card = gpu(H100)
    assert card.speed is not None
    host = card.speed.efficiency.early_step_seconds + card.speed.efficiency.early_sequence_seconds
    now = performance(model(LLAMA_70B), BF16, CACHE, card, Split(4), ONE_USER, 8192)
    before = performance(model(LLAMA_70B), BF16, CACHE, card, Split(4), ONE_USER, 8192, synchronous=True)
    assert before.tpot_seconds - now.tpot_seconds == pytest.approx(host, rel=0.02)


@pytest.mark.parametrize(("running", "steps"), [(1, 0), (8, 1)])
def test_behind_others_a_request_waits_for_the_step_that_is_planned_already(running: int, steps: int) -> None:
    """The host takes no time here, so steps are the same whether they are planned ahead or not."""
    costs = step_costs(model(LLAMA_8B), BF16, CACHE, gpu(H100), ONE)
    ahead = replace(costs, step_seconds=0.0, sequence_seconds=0.0)
    load = Load(64, 1024, running)
    decode = decode_step(ahead, load)
    now, before = (
        first_token_seconds(each, load, 8192, decode, decode) for each in (ahead, replace(ahead, is_synchronous=True))
    )
    assert now - before == pytest.approx(steps * decode.total)


def test_each_token_of_a_prompt_costs_the_host_time_even_if_it_is_cached() -> None:
    costs = step_costs(model(LLAMA_8B), BF16, CACHE, gpu(H100), ONE)
    assert costs.request(8000) - costs.request(0) == pytest.approx(8000 * costs.prompt_token_seconds)
    assert costs.prompt_token_seconds > 1e-6
    longer, short = (
        first_token_seconds(costs, load, 8192, decode_step(costs, load), decode_step(costs, load))
        for load in (Load(8000, 64, 1, cached_tokens=7900), Load(100, 64, 1))
    )
    assert longer - short > 7900 * costs.prompt_token_seconds


def test_without_cuda_graphs_the_host_starts_every_kernel_of_every_layer() -> None:
    """Qwen3-30B-A3B on four RTX 4090 D took 33.9 ms for a token without graphs (vllm-project/vllm#45709)."""
    given = (model("Qwen/Qwen3-30B-A3B"), BF16, CACHE, gpu("rtx-4090-d-24gb"), Split(4), Load(3500, 1500, 8), 2048)
    eager, graphs = performance(*given, eager=True), performance(*given)
    assert eager.tpot_seconds == pytest.approx(0.0339, rel=0.3)
    assert eager.tpot_seconds > 1.5 * graphs.tpot_seconds
    assert eager.bound is Bound.HOST


def test_engines_that_share_experts_wait_for_each_others_prompts() -> None:
    """Eight engines with 32 users each: one in four of the steps carries a prompt of any of them."""
    facts = model("MiniMaxAI/MiniMax-M2.7")
    spread = Split(1, data_parallel=8, expert_parallel=True)
    costs = step_costs(facts, Precision.FP8, CACHE, gpu(H100), spread)
    apart = step_costs(facts, Precision.FP8, CACHE, gpu(H100), Split(1))
    assert steps_with_prompts(costs, 0.03) == pytest.approx(0.24)
    assert steps_with_prompts(costs, 0.5) == 1
    assert steps_with_prompts(costs, 3) == 3
    assert steps_with_prompts(apart, 0.03) == 0.03


def test_a_band_is_that_of_the_weights_and_of_the_load() -> None:
    card = gpu(H100)
    assert card.speed is not None
    few, many = card.speed.trust.bands[0]
    for running, band in ((128, few), (129, many)):
        found = performance(model(LLAMA_8B), BF16, CACHE, card, Split(1), Load(256, 256, running), 8192)
        assert found.tpot_band[1] == pytest.approx(found.tpot_seconds * band.tpot[1])
        assert found.ttft_band[1] == pytest.approx(found.ttft_seconds * band.ttft[1])


def test_the_time_of_several_stages_is_never_validated() -> None:
    found = [
        performance(model(LLAMA_8B), Precision.FP8, CACHE, gpu(H100), split, Load(256, 256, 4), 8192)
        for split in (Split(2), Split(1, 2))
    ]
    assert [each.validated for each in found] == [True, False]


def test_a_card_without_known_speed_is_judged_with_caution() -> None:
    card = gpu(H100)
    unknown = of(LLAMA_8B, replace(card, speed=None))
    known = of(LLAMA_8B, card)
    assert unknown.tpot_seconds > known.tpot_seconds
    assert not unknown.validated
    assert unknown.trust == "unknown"
    assert unknown.tpot_band[1] / unknown.tpot_seconds > known.tpot_band[1] / known.tpot_seconds


def test_the_band_holds_the_figure_and_never_goes_below_the_floor() -> None:
    found, floor = of(LLAMA_70B, gpu(H100), Split(4)), decode_floor(model(LLAMA_70B), BF16, gpu(H100), Split(4))
    assert floor.seconds <= found.tpot_band[0] < found.tpot_seconds < found.tpot_band[1]
    assert found.ttft_band[0] < found.ttft_seconds < found.ttft_band[1]


@pytest.mark.parametrize(
    ("load", "batched", "named"),
    [
        (Load(0, 1, 1), 1, "prompt_tokens: 0"),
        (Load(1, 0.5, 1), 1, "output_tokens: 0.5"),
        (Load(1, 1, 0), 1, "running: 0"),
        (Load(1, 1, 1), 0, "max_num_batched_tokens: 0"),
        (Load(1, 1, 1, rounds=0), 1, "rounds: 0"),
    ],
)
def test_a_load_below_one_is_refused_by_name(load: Load, batched: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"{named} is below 1; write 1 or more"):
        performance(model(LLAMA_8B), BF16, CACHE, gpu(H100), Split(1), load, batched)
