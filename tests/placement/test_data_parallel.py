"""Data-parallel attention: engines side by side that share the experts, each with a KV cache for its own requests."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from plimsoll.adapters.cluster.client import DEPLOYMENTS
from plimsoll.adapters.highs import fleetwide
from plimsoll.app.exports.reduction import reduced
from plimsoll.cli.plans.tables import print_details
from plimsoll.decision.observing import failed_starts
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.observations import Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import Fit, Option, Placed, Rejection, Split
from plimsoll.domain.engines.engine_choice import (
    CpuOffload,
    EngineChoice,
    EngineVersion,
    LoraSlots,
    Speculation,
    StepLimits,
)
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import ObservedCapacity, Overrides, Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.registry import engine_of
from plimsoll.memory.load import needed_tokens, replica_tokens
from plimsoll.memory.weights import weights_bytes
from plimsoll.placement.advice.remedies import room_seen
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant, pool_name
from plimsoll.placement.explain import place_words, rejection_sentence
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.candidates import candidate_on, splits_for
from plimsoll.placement.options.engine_limits import STEPS, with_more_requests
from plimsoll.placement.options.feasibility import judge, may_fit, sized, too_small
from plimsoll.placement.options.verdicts import rank
from plimsoll.placement.places.place import place
from plimsoll.placement.plan import plan
from plimsoll.render.inputs import inputs_digest
from plimsoll.render.names import POOL_ANNOTATION
from plimsoll.status.record.places import split_of
from plimsoll.status.record.reading import read
from plimsoll.status.record.report import Report
from plimsoll.status.record.workload_trust import record_doubt, target_of
from plimsoll.status.writing import document_of, new_status
from tests.render.workloads import chosen_pool, container, options, rendered
from tests.support.planning import H100, LLAMA_8B, fleet, gpu, model, node, placed, pool, request
from tests.support.tables import every_case, examples

LATENT = "deepseek-ai/DeepSeek-V3"
SMALL_LATENT = "deepseek-ai/DeepSeek-V2-Lite"
FEW_HEADS = "Qwen/Qwen3-235B-A22B-FP8"
"""Four KV heads: two and four ranks divide them, eight ranks hold two copies of each."""

CARD = "h200-sxm-141gb"
WHERE = fleet(node("a", CARD, 8))
LONG = 131_072
MANY = request(LATENT, context=LONG, concurrency=16)
FEW = request(LATENT, context=LONG, concurrency=4)
SIDE_BY_SIDE = Split(1, data_parallel=8, expert_parallel=True)


def engines(count: int) -> Split:
    return Split(1, data_parallel=count, expert_parallel=True)


def side_by_side(wanted: Request) -> set[int]:
    return {split.data_parallel for split in splits_for(wanted)} - {1}


def on(wanted: Request, split: Split = SIDE_BY_SIDE, card: str = CARD) -> Option | Rejection:
    where = fleet(node("a", card, 8))
    return judge(wanted, candidate_on(gpu(card), split, where, restricted=False), where)


def option_on(wanted: Request, split: Split = SIDE_BY_SIDE, card: str = CARD) -> Option:
    found = on(wanted, split, card)
    assert isinstance(found, Option), rejection_sentence(found)
    return found


def refused(wanted: Request, split: Split = SIDE_BY_SIDE) -> Rejection:
    found = on(wanted, split)
    assert isinstance(found, Rejection)
    return found


def decided(wanted: Request, *pools: Pool, generation: int = 1) -> Decision:
    (decision,) = plan([Tenant(wanted, generation, pools)], WHERE, solver=fleetwide())
    return decision


def running(split: Split = SIDE_BY_SIDE, **changes: Any) -> Pool:
    target = replace(pool(CARD, 8).target, split=split)
    return pool(CARD, 8, name=pool_name(CARD, split), target=target, **changes)


# Which splits are judged


def test_engines_side_by_side_are_a_candidate_where_ranks_would_copy_the_cache() -> None:
    assert side_by_side(MANY) == {2, 4, 8}
    assert side_by_side(request(FEW_HEADS)) == {8}
    assert side_by_side(request("openai/gpt-oss-120b")) == set(), "8 KV heads divide by every degree"


def test_no_engines_side_by_side_without_experts_to_share() -> None:
    assert side_by_side(request("Qwen/Qwen2.5-7B-Instruct")) == set(), "4 KV heads, no experts"
    assert side_by_side(request(LLAMA_8B)) == set()


def test_a_forced_degree_excludes_them() -> None:
    assert side_by_side(replace(MANY, overrides=Overrides(tensor_parallel=8))) == set()
    assert side_by_side(replace(MANY, overrides=Overrides(gpu_type=CARD))) == {2, 4, 8}


@pytest.mark.parametrize(
    "changes",
    [{"lora": LoraSlots(1, 16)}, {"speculation": Speculation(4)}, {"residency": CpuOffload(GIB)}],
    ids=["adapters", "drafts", "weights in host memory"],
)
def test_what_no_law_covers_on_several_engines_is_left_to_one(changes: dict[str, Any]) -> None:
    wanted = replace(MANY, engine=EngineChoice(EngineVersion(0, 32), **changes))
    assert side_by_side(wanted) == set()
    # A pool of such engines may run when its spec gets the option.
    assert refused(wanted).reason is Reason.DATA_PARALLEL_NOT_SUPPORTED
    assert "8 engines behind one server, whose memory is not known with " in rejection_sentence(refused(wanted))


def test_an_old_release_is_refused_with_the_one_that_it_takes() -> None:
    old = replace(MANY, engine=EngineChoice(EngineVersion(0, 13)))
    assert SIDE_BY_SIDE in splits_for(old), "so that the reason is shown"
    assert refused(old).reason is Reason.DATA_PARALLEL_NOT_SUPPORTED
    assert "needs vLLM 0.14.0, and the release is 0.13.0" in rejection_sentence(refused(old))
    assert isinstance(on(replace(MANY, engine=EngineChoice(EngineVersion(0, 14)))), Option)


def test_a_model_without_experts_is_refused_and_replicas_are_named() -> None:
    # A pool of such engines may run when its spec gets a dense model.
    found = refused(request(LLAMA_8B))
    assert (found.reason, found.numbers) == (Reason.DATA_PARALLEL_NEEDS_EXPERTS, (("engines", 8),))
    assert "replicas divide its requests as well" in rejection_sentence(found)


def test_fewer_experts_than_engines_cannot_be_shared() -> None:
    facts = model(LATENT)
    assert facts.experts is not None
    few = request(replace(facts, experts=replace(facts.experts, experts=4)))
    assert side_by_side(few) == {2, 4}


# What they hold


def test_the_load_that_tensor_parallelism_copies_to_every_rank_gets_engines_side_by_side() -> None:
    """DeepSeek-V3 by hand, for 16 requests of 131,072 tokens.

    A token has 61 layers x (512 + 64) values x 2 B = 70,272 B, a request 8,192 blocks of 16 tokens: 9,210,691,584 B.
    Sixteen on one rank are 147.4 GB, which is more than the card. Two on each of eight engines are 18.4 GB.
    """
    found = placed(MANY, WHERE)
    a_request = 61 * (512 + 64) * 2 * LONG
    a_block = 61 * (512 + 64) * 2 * 16
    assert found.choice.split == SIDE_BY_SIDE
    assert found.choice.estimate.fit_by_figures is Fit.SURE
    assert found.choice.estimate.kv_cache_bytes == 2 * a_request + a_block, (
        "two requests and the block that stays unused"
    )
    assert found.choice.estimate.kv_needed_tokens == 16 * LONG
    whole = next(each for each in found.rejections if each.split == Split(8))
    assert whole.reason is Reason.KV_CACHE_TOO_SMALL
    assert int(whole.number("need_bytes")) > 16 * a_request > gpu(CARD).usable_bytes * 0.92


def test_a_rank_holds_all_weights_but_the_routed_experts_of_the_others() -> None:
    """DeepSeek-V3 by hand, on each of eight engines. Weights of 8 bits have a scale of 4 B for each 128 x 128.

    Attention, 61 layers: 1,536 x 7,168 + 24,576 x 1,536 + 576 x 7,168 + 32,768 x 512 + 7,168 x 16,384 = 187,105,280.
    Three dense layers of 3 x 18,432 x 7,168, and 58 with a shared expert of 3 x 2,048 x 7,168 and 32 of 256 experts of
    the same size. 16 bits: routers of 256 x 7,168, embeddings and head of 129,280 x 7,168, and 33,554,432 B a layer
    that the kernel keeps of the latent projections.
    """
    expert = 3 * 2048 * 7168
    narrow = 61 * 187_105_280 + 3 * 3 * 18_432 * 7168 + 58 * (1 + 32) * expert
    wide = 2 * (58 * 256 * 7168 + 2 * 129_280 * 7168) + 61 * 33_554_432
    by_hand = narrow + narrow * 4 // 128**2 + wide
    assert option_on(MANY).estimate.weights_bytes == pytest.approx(by_hand, rel=0.0005)
    assert (
        weights_bytes(model(LATENT), MANY.precision, Split(8))
        < by_hand
        < weights_bytes(model(LATENT), MANY.precision, Split(1))
    )


def test_a_load_that_fits_with_tensor_parallelism_stays_there() -> None:
    assert placed(FEW, WHERE).choice.split == Split(8)
    assert isinstance(on(FEW), Option), "engines side by side fit as well"


def test_at_the_same_price_one_engine_comes_before_stages_and_these_before_engines_side_by_side() -> None:
    wanted = request(SMALL_LATENT, context=32_768, concurrency=2)
    same = [option_on(wanted, split) for split in (Split(4), Split(2, 2), engines(4))]
    assert len({each.hourly_price for each in same}) == 1
    assert sorted(same, key=rank) == same


def test_they_are_taken_where_one_engine_holds_the_load_only_on_more_gpus() -> None:
    wanted = request(SMALL_LATENT, context=16_384, concurrency=256)
    found = place(wanted, fleet(node("a", H100, 8)))
    assert isinstance(found, Placed)
    assert found.choice.split == engines(4)
    dearer = next(each for each in found.rejections if each.split == Split(4, 2))
    assert dearer.reason is Reason.COSTS_MORE


def test_shares_are_rounded_up_and_the_engines_lend_nothing_to_each_other() -> None:
    shape = ServingShape(LONG, 17)
    assert SIDE_BY_SIDE.share(17) == 3
    assert replica_tokens(shape, SIDE_BY_SIDE) == 8 * 3 * LONG
    assert replica_tokens(shape, Split(8)) == needed_tokens(shape) == 17 * LONG
    fits = {each: option_on(request(LATENT, context=LONG, concurrency=each)) for each in (9, 16, 17)}
    verdicts = {each: option.estimate.fit_by_figures for each, option in fits.items()}
    assert verdicts == {9: Fit.SURE, 16: Fit.SURE, 17: Fit.PROBABLE}
    assert refused(request(LATENT, context=LONG, concurrency=25)).reason is Reason.KV_CACHE_TOO_SMALL


def test_the_figures_are_those_of_all_engines_together() -> None:
    figures, split = option_on(MANY).estimate, SIDE_BY_SIDE
    one = engine_of("vllm").estimate(
        replace(MANY, shape=replace(MANY.shape, concurrency=2)), gpu(CARD), split, option_on(MANY).settings
    )
    assert figures.kv_bytes_per_token == 61 * 576 * 2, "of one GPU"
    assert figures.kv_capacity_tokens % 8 == 0
    assert figures.kv_capacity_tokens // 8 * figures.kv_bytes_per_token <= figures.available_kv_bytes
    assert figures.kv_capacity_tokens == one.kv_capacity_tokens, "the cache does not depend on the load"
    assert figures.kv_needed_tokens == 2 * one.kv_needed_tokens


@pytest.mark.parametrize(("percent", "logged_gib"), [(90, 48.66), (95, 55.65)])
def test_an_engine_logged_the_room_that_the_law_leaves(percent: int, logged_gib: float) -> None:
    """vllm-project/recipes#12: Qwen3-Coder-480B in FP8 on eight H20 of 141 GB, vLLM 0.10.1, usual flags.

    The H20 has the memory of the H200: 139.8 GiB as the engine sees it.
    """
    engine = EngineChoice(EngineVersion(0, 10, 1), gpu_memory_utilization_percent=percent)
    wanted = request("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", context=262_144, concurrency=8, engine=engine)
    law = engine_of("vllm")
    usual = replace(law.settings(wanted, gpu(CARD), SIDE_BY_SIDE), max_num_seqs=1024, max_num_batched_tokens=8192)
    figures = law.estimate(wanted, gpu(CARD), SIDE_BY_SIDE, usual)
    logged = logged_gib * GIB
    assert figures.available_kv_bytes - figures.margin_bytes < logged < figures.available_kv_bytes + figures.slack_bytes
    assert abs(figures.available_kv_bytes - logged) < GIB


@every_case("name", [LATENT, SMALL_LATENT, "moonshotai/Kimi-K2-Instruct"])
@every_case("card", [CARD, H100, "b200-sxm-180gb", "b300-sxm-288gb", "mi300x-192gb"])
@every_case("count", [2, 4, 8])
@every_case(("context", "concurrency"), [(8192, 8), (32_768, 8), (LONG, 4)])
def test_where_both_fit_for_sure_engines_side_by_side_hold_more_latents(
    name: str, card: str, count: int, context: int, concurrency: int
) -> None:
    wanted = request(name, context=context, concurrency=concurrency)
    shared = sized(wanted, gpu(card), engines(count))[1]
    copied = sized(wanted, gpu(card), Split(count))[1]
    if shared.fit_by_figures is copied.fit_by_figures is Fit.SURE:
        assert shared.kv_capacity_tokens >= copied.kv_capacity_tokens


def test_the_comparison_above_has_cases_for_every_model() -> None:
    cards = (CARD, H100, "b200-sxm-180gb", "b300-sxm-288gb", "mi300x-192gb")
    for name in (LATENT, SMALL_LATENT, "moonshotai/Kimi-K2-Instruct"):
        wanted = request(name, context=8192, concurrency=8)
        fits = [
            [sized(wanted, gpu(card), split)[1].fit_by_figures for split in (engines(8), Split(8))] for card in cards
        ]
        assert [Fit.SURE, Fit.SURE] in fits, name


@given(
    st.sampled_from([LATENT, SMALL_LATENT, FEW_HEADS]),
    st.sampled_from([CARD, H100, "b200-sxm-180gb"]),
    st.sampled_from([2, 4, 8]),
    st.integers(1, 200_000),
    st.integers(1, 512),
    st.integers(0, 64),
)
@settings(max_examples=examples(100), deadline=None)
def test_more_requests_never_need_less_and_never_fit_better(
    name: str, card: str, count: int, context: int, concurrency: int, more: int
) -> None:
    law, split, kind = engine_of("vllm"), engines(count), gpu(card)
    less, greater = (
        law.estimate(wanted, kind, split, law.settings(wanted, kind, split))
        for wanted in (request(name, context=context, concurrency=each) for each in (concurrency, concurrency + more))
    )
    assert greater.needed_bytes >= less.needed_bytes
    assert greater.kv_needed_tokens >= less.kv_needed_tokens >= context * concurrency
    assert greater.fit is Fit.NO or less.fit is not Fit.NO
    assert less.fit is Fit.SURE or greater.fit is not Fit.SURE


# The requests at the same time


def test_an_engine_has_a_seat_more_than_its_share() -> None:
    assert option_on(MANY).settings.max_num_seqs == 16 // 8 + 1
    assert option_on(FEW, Split(8)).settings.max_num_seqs == 4, "one engine needs none"
    fixed = replace(MANY, engine=replace(MANY.engine, max_sequences=32))
    assert option_on(fixed).settings.max_num_seqs == 32 // 8


def test_more_requests_are_numbers_of_each_engine() -> None:
    plain = option_on(request(LATENT, context=16384, concurrency=16))
    wanted = request(LATENT, context=16384, concurrency=16)
    more = with_more_requests(wanted, plain)
    each = more.settings.max_num_seqs
    assert each in STEPS
    assert each > plain.settings.max_num_seqs
    held = more.estimate.kv_capacity_low_tokens // 8 // 16384
    assert each <= held < 2 * each


# What is started, and known again


def test_the_engine_gets_the_flags_and_the_pool_a_name_of_its_own() -> None:
    workload = rendered(options(), MANY, WHERE)
    given_ = container(workload)["args"]
    wanted = {"--tensor-parallel-size": "1", "--data-parallel-size": "8", "--max-num-seqs": "3"}
    assert {flag: given_[given_.index(flag) + 1] for flag in wanted} == wanted
    assert "--enable-expert-parallel" in given_
    assert workload["metadata"]["name"].endswith("-h200-sxm-141gb-tp1-dp8")
    assert "--data-parallel-size" not in container(rendered(options(), FEW, WHERE))["args"]


def test_names_of_pools_without_engines_side_by_side_are_as_before() -> None:
    names = [pool_name(CARD, split) for split in (Split(1), Split(8, expert_parallel=True), Split(4, 2), SIDE_BY_SIDE)]
    assert names == [f"{CARD}-tp1", f"{CARD}-tp8", f"{CARD}-tp4-pp2", f"{CARD}-tp1-dp8"]


def test_the_pod_asks_for_the_host_of_eight_engines() -> None:
    requests = container(rendered(options(), MANY, WHERE))["resources"]["requests"]
    # 8 engines and 8 ranks of a core each; 8 x 3 + 8 x (2 + 1) + 8 x 1 = 56 GiB.
    assert (requests["cpu"], requests["memory"], requests["nvidia.com/gpu"]) == ("16", "56Gi", "8")


def test_the_rendered_inputs_differ_from_those_of_one_engine() -> None:
    many = chosen_pool(MANY, WHERE)[1]
    assert inputs_digest(options(), many) != inputs_digest(
        options(), replace(many, target=replace(many.target, split=Split(1, expert_parallel=True)))
    )


def written(decision: Decision) -> dict[str, Any]:
    report = Report("a", 1, 1, decision, model=model(LATENT), engine_version="0.32.0", namespace="ml")
    return document_of(new_status(report, read(None), "2026-01-01T00:00:00Z"))


def test_status_and_workload_give_the_split_again() -> None:
    decision = decided(MANY)
    status = written(decision)
    assert read(status).pools[0].target == decision.pools[0].target
    assert split_of(next(iter(read(status).status.pools or ()))) == SIDE_BY_SIDE
    assert [status[part]["dataParallel"] for part in ("placement", "estimate")] == [8, 8]
    assert "dataParallel" not in written(decided(FEW))["placement"]
    workload = rendered(options(), MANY, WHERE)
    assert record_doubt(workload, options().key.name) == ""
    assert target_of(workload) == decision.pools[0].target
    assert target_of(reduced(DEPLOYMENTS, workload)) == decision.pools[0].target, "also of an exported cluster"


def test_an_earlier_release_leaves_a_pool_alone_that_it_does_not_understand() -> None:
    status = written(decided(MANY))
    del status["pools"][0]["dataParallel"]  # an earlier release does not read it
    assert (read(status).pools, read(status).lost_pools) == ((), True)
    workload = rendered(options(), MANY, WHERE)
    annotations = workload["metadata"]["annotations"]
    annotations[POOL_ANNOTATION] = annotations[POOL_ANNOTATION].replace('"dataParallel": 8, ', "")
    assert "dataParallel" not in annotations[POOL_ANNOTATION]
    assert "do not name the pool" in record_doubt(workload, options().key.name), "such workloads are named, not deleted"


def test_a_record_of_engines_that_no_node_holds_is_not_believed() -> None:
    status = written(decided(MANY))
    assert read(status).complaints == ()
    for wrong in (0, -8, 65):
        status["pools"][0]["dataParallel"] = wrong
        assert read(status).pools == ()
        assert read(status).complaints != ()


def test_the_status_says_the_requests_of_a_replica_and_those_of_an_engine() -> None:
    placement = written(decided(MANY))["placement"]
    assert (placement["maxNumSeqs"], placement["engine"]["maxNumSeqs"]) == (24, 3)
    console = Console(file=io.StringIO(), width=160)
    report = Report("a", 1, 1, decided(MANY), model=model(LATENT), engine_version="0.32.0", namespace="ml")
    print_details(console, new_status(report, read(None), "2026-01-01T00:00:00Z"))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "up to 24 requests at the same time, 3 on each of 8 engines." in " ".join(shown.split())


def test_what_runs_keeps_its_split_and_its_flags() -> None:
    status = written(decided(MANY))
    kept = replace(read(status).pools[0], bound=1, ready=1, exists=True)
    again = decided(MANY, kept)
    assert [each.name for each in again.pools] == [f"{CARD}-tp1-dp8"]
    assert again.choice is not None
    assert again.choice.settings == chosen_pool(MANY, WHERE)[1].settings
    changed = decided(replace(FEW, shape=replace(FEW.shape, context_tokens=65_536)), kept, generation=2)
    assert [each.split for each in changed.pools] == [SIDE_BY_SIDE]
    one = running(Split(8), limits=StepLimits(sequences=4))
    assert [each.split for each in decided(FEW, one, generation=2).pools] == [Split(8)]


def test_the_seats_of_a_running_engine_are_its_own_also_after_a_change_of_the_plan() -> None:
    wanted = replace(MANY, shape=replace(MANY.shape, concurrency=8))
    kept = running(limits=StepLimits(sequences=24), spec="s")
    (decision,) = plan([Tenant(wanted, 2, (kept,), spec="s")], WHERE, solver=fleetwide())
    choice = decision.pools[0].choice
    assert choice is not None
    assert (choice.split, choice.settings.max_num_seqs) == (SIDE_BY_SIDE, 24)


def test_a_pool_that_gets_a_dense_model_is_replaced() -> None:
    both = fleet(node("a", CARD, 8), node("b", CARD, 8))
    (decision,) = plan([Tenant(request(LLAMA_8B), 2, (running(),))], both, solver=fleetwide())
    assert {each.split for each in decision.pools if each.state is PoolState.ACTIVE} == {Split(1)}


def test_words_of_the_place() -> None:
    assert place_words(CARD, SIDE_BY_SIDE) == f"{CARD} x 8 with data-parallel attention"
    assert place_words(CARD, Split(8, expert_parallel=True)) == f"{CARD} x 8 with whole experts"


# What engines report


def test_the_tokens_of_all_engines_are_the_bytes_of_each() -> None:
    option, engine = option_on(MANY), engine_of("vllm")
    figures = option.estimate
    predicted, real = engine.cache_bytes(
        MANY, gpu(CARD), SIDE_BY_SIDE, option.settings, figures, figures.kv_capacity_tokens
    )
    assert predicted == figures.available_kv_bytes
    assert abs(predicted - real) < 2 * 61 * 576 * 2 * 16, "a block or two"
    full = engine.full_length_tokens(
        MANY, gpu(CARD), SIDE_BY_SIDE, option.settings, figures, figures.kv_capacity_tokens
    )
    assert full == figures.kv_capacity_tokens


def test_an_engine_that_failed_with_its_seats_rules_the_place_out_and_one_with_more_does_not() -> None:
    kind = MANY.engine_kind(CARD, SIDE_BY_SIDE)
    for sequences, places in ((3, ((CARD, SIDE_BY_SIDE),)), (4, ())):
        failure = Observation(kind, Witness.OUT_OF_MEMORY, 0, None, StepLimits(2048, sequences))
        assert failed_starts(MANY, [Seen(failure, "s")]) == places


def test_an_engine_with_less_room_than_the_shares_need_is_shown_as_too_small() -> None:
    wanted = replace(MANY, shape=replace(MANY.shape, concurrency=17))
    for tokens, shown in ((8 * 3 * LONG, []), (8 * 3 * LONG - 1, [8 * 3 * LONG - 1])):
        seen = replace(wanted, observed=(ObservedCapacity(CARD, SIDE_BY_SIDE, tokens),))
        assert [each.kv_tokens for each in too_small(seen, WHERE)] == shown


# Around the choice


def test_whether_it_may_fit_is_asked_of_one_engine_and_its_share() -> None:
    assert may_fit(MANY, gpu(CARD), SIDE_BY_SIDE)
    assert not may_fit(MANY, gpu(CARD), Split(8))


def test_the_small_step_has_a_token_for_each_sequence_of_an_engine() -> None:
    for requests, tokens in ((8, 2048), (8 * 3000, 3001)):
        wanted, law = request(SMALL_LATENT, context=8192, concurrency=requests), engine_of("vllm")
        usual = law.settings(wanted, gpu(CARD), SIDE_BY_SIDE)
        assert law.lean_settings(wanted, gpu(CARD), SIDE_BY_SIDE, usual).max_num_batched_tokens == tokens


def test_the_plan_takes_stages_before_engines_side_by_side_at_the_same_price() -> None:
    wanted = request(SMALL_LATENT, context=LONG, concurrency=24, objective=Objective.BATCH)
    (decision,) = plan([Tenant(wanted, 1)], fleet(node("a", H100, 8)), solver=fleetwide())
    assert [each.split for each in decision.pools] == [Split(1, 2)]
    other = next(each for each in decision.rejections if each.split == engines(2))
    assert other.reason is Reason.COSTS_MORE


@pytest.mark.parametrize(("cores", "placed_there"), [(15, False), (16, True)])
def test_engines_side_by_side_need_more_of_a_host_and_a_search_for_remedies_sees_it(
    cores: int,
    placed_there: bool,  # noqa: FBT001 - a parameter of the cases
) -> None:
    def where(free: int) -> Fleet:
        room = HostRoom(1000 * free, 2048 * GIB, 110)
        return fleet(replace(node("a", CARD, 8), host=room, host_free=room))

    (decision,) = plan([Tenant(MANY, 1)], where(cores), solver=fleetwide())
    assert bool(decision.pools) == placed_there
    if not placed_there:
        lacking = next(each for each in decision.rejections if each.split == SIDE_BY_SIDE)
        assert lacking.reason is Reason.NODE_LACKS_CPU
    least, enough = (room_seen(MANY, where(free), Ledger.of(where(free))) for free in (9, 16))
    assert least != enough
    dense = request(LLAMA_8B)
    assert room_seen(dense, where(9), Ledger.of(where(9))) == room_seen(dense, where(16), Ledger.of(where(16)))
