"""Choices that an experienced engineer signs: what is placed where, and the sentence about what was not taken.

The loads and fleets are those of a list of twenty calls; ``MIXED`` has five GPU types, all idle, at catalogue prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import Billing, Vendor
from plimsoll.domain.decisions.latency import Objective, Slo
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints, Request, TotalLoad
from plimsoll.facts.cluster.billing import with_billing
from plimsoll.placement.explain import one_node_sentence, rejection_sentence, remedy_sentence
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.plan import plan
from tests.support.planning import (
    A100,
    H100,
    L4,
    L40S,
    LLAMA_70B,
    LLAMA_70B_FP8,
    MI300X,
    T4,
    chosen,
    fleet,
    gpu,
    node,
    placed,
    refusal,
    request,
    tenant,
)

CATALOG = load_gpu_types()
RTX_4090 = "rtx-4090-24gb"


def nodes(kind: str, count: int, gpus: int = 8) -> list[GpuNode]:
    return [node(f"{kind}-{number}", kind, gpus) for number in range(count)]


MIXED = fleet(*nodes(H100, 2), *nodes(MI300X, 1), *nodes(L40S, 2), *nodes(A100, 2), *nodes(L4, 4, 4))
TWO_VENDORS = fleet(*nodes(H100, 2), *nodes(MI300X, 1))
CARDS = fleet(*nodes(RTX_4090, 2), *nodes(L40S, 2), *nodes(H100, 1))
SMALL = fleet(*nodes(T4, 1, 4), *nodes(L4, 1, 4), *nodes(H100, 1))

Signed = tuple[str, Request, Fleet, Sequence[tuple[str, int]]]

CALLS: list[Signed] = [
    ("1: small cards for a small load", request(context=8192), MIXED, [(L4, 2)]),
    ("2: the vendor with measured speeds", request(LLAMA_70B_FP8, context=16_384), TWO_VENDORS, [(H100, 2)]),
    ("3: a promise needs evidence", request(LLAMA_70B_FP8, context=8192, slo=Slo(0.5)), MIXED, [(H100, 2)]),
    ("4: a tight promise", request(LLAMA_70B_FP8, context=8192, slo=Slo(None, 0.02)), MIXED, [(H100, 4)]),
    ("6: MXFP4", request("openai/gpt-oss-120b", context=32_768, concurrency=16), TWO_VENDORS, [(H100, 1), (H100, 2)]),
    ("7: AWQ", request("Qwen/Qwen2.5-32B-Instruct-AWQ", context=16_384), TWO_VENDORS, [(H100, 1)]),
    ("8: no cliff at 100 ms", request(LLAMA_70B, context=8192), CARDS, [(L40S, 4)]),
    (
        "8: somebody waits for each token",
        request(LLAMA_70B, context=8192, objective=Objective.INTERACTIVE),
        CARDS,
        [(H100, 4)],
    ),
    ("9: no degree of 4 over PCIe", request("Qwen/Qwen3-32B", context=8192), CARDS, [(L40S, 2)]),
    ("13: long context", request(context=131_072, concurrency=4), MIXED, [(A100, 2), (H100, 1), (H100, 2)]),
    ("14: many requests", request(concurrency=256), MIXED, [(A100, 4), (H100, 4)]),
    ("17: a tiny model", request("Qwen/Qwen2.5-1.5B-Instruct"), SMALL, [(L4, 1)]),
    (
        "20: many requests and a promise",
        request(LLAMA_70B_FP8, context=8192, concurrency=64, slo=Slo(1.0)),
        fleet(*nodes(L40S, 1), *nodes(H100, 1)),
        [(H100, 4)],
    ),
]


@pytest.mark.parametrize(("wanted", "where", "signed"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_the_choice_is_one_that_is_signed(wanted: Request, where: Fleet, signed: Sequence[tuple[str, int]]) -> None:
    assert chosen(placed(wanted, where).choice) in signed


@pytest.mark.parametrize(("wanted", "where", "signed"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_it_is_signed_as_well_where_idle_nodes_are_paid_for(
    wanted: Request, where: Fleet, signed: Sequence[tuple[str, int]]
) -> None:
    assert chosen(placed(wanted, with_billing(where, (), None)).choice) in signed


def test_speed_that_is_paid_for_is_used_sooner() -> None:
    """The faster card costs one and a half times what the time is worth that its users save."""
    wanted = request(objective=Objective.INTERACTIVE, constraints=GpuConstraints(max_per_replica=1))

    def where(dear: Decimal) -> Fleet:
        return fleet(node("h", gpu(H100, price=str(dear)), 8), node("a", gpu(A100, price="1.00"), 8))

    found = {each.gpu.name: each for each in options(wanted, where(Decimal(1))).verdicts if isinstance(each, Option)}
    saved = found[A100].delay_cost - found[H100].delay_cost
    assert saved > 0
    sold = where(Decimal(1) + saved * Decimal("1.5"))
    taken = {billing: placed(wanted, with_billing(sold, (), billing)) for billing in (None, *Billing)}
    assert taken[Billing.ON_DEMAND].choice.gpu.name == A100
    assert {taken[each].choice.gpu.name for each in (None, Billing.OWNED, Billing.ASSUMED_OWNED)} == {H100}
    slow = refusal(taken[None], A100, 1)
    assert slow.reason is Reason.SLOWER_FOR_ITS_PRICE
    assert rejection_sentence(slow).endswith(", and half of these prices: idle nodes are paid for, too")
    dear = taken[None].choice
    assert dear.hourly_price == Decimal(1) + saved * Decimal("1.5"), "the bill is the whole price"
    assert dear.gpu.billing is Billing.ASSUMED_OWNED


def test_users_of_all_replicas_together_get_small_cards() -> None:
    """Call 15: 64 users of a model with 8 billion parameters, and two replicas at least."""
    wanted = replace(request(context=8192, concurrency=1), total=TotalLoad(64, min_replicas=2))
    (decision,) = plan([tenant(wanted)], MIXED)
    assert {(pool.gpu_type, pool.split.gpus) for pool in decision.pools} == {(L4, 2)}


WANTED = request(LLAMA_70B_FP8, context=16_384)


@pytest.mark.parametrize(
    "asks",
    [
        {"objective": Objective.BATCH},
        {"constraints": GpuConstraints(allow=(MI300X, H100))},
        {"constraints": GpuConstraints(vendors=(Vendor.NVIDIA, Vendor.AMD))},
    ],
    ids=["the cheapest", "the type", "the vendor"],
)
def test_who_asks_for_it_gets_the_cheap_gpu_that_nobody_has_measured(asks: dict[str, object]) -> None:
    outcome = placed(replace(WANTED, **asks), TWO_VENDORS)  # type: ignore[arg-type] # fields of a request
    assert chosen(outcome.choice) == (MI300X, 1)
    assert any("is not validated" in warning for warning in outcome.warnings)


def test_a_gpu_that_nobody_has_measured_is_taken_if_no_other_is_free() -> None:
    taken = fleet(node("h", H100, 8, held=8), *nodes(MI300X, 1))
    assert chosen(placed(WANTED, taken).choice) == (MI300X, 1)
    only = replace(WANTED, constraints=GpuConstraints(vendors=(Vendor.NVIDIA,)))
    assert refusal(placed(only, TWO_VENDORS), MI300X, 1).number("field") == "spec.gpu.vendors"


def test_a_model_without_an_estimate_of_its_speed_crosses_no_vendor_either() -> None:
    embeds = request("BAAI/bge-m3", context=512)
    assert placed(embeds, TWO_VENDORS).choice.gpu.name == H100
    only = placed(embeds, fleet(*nodes(MI300X, 1)))
    assert any("is not validated" in warning for warning in only.warnings)


def test_a_total_load_gets_replicas_that_are_fast_enough_if_some_number_is() -> None:
    wanted = replace(request("Qwen/Qwen3-32B", context=8192, concurrency=1), total=TotalLoad(64))
    (found,) = plan([tenant(wanted)], fleet(*nodes(L40S, 30)))
    times = [pool.choice.performance for pool in found.pools if pool.choice is not None]
    assert times
    assert all(each is not None and each.tpot_seconds <= 0.1 for each in times)
    (fewest,) = plan([tenant(replace(wanted, objective=Objective.BATCH))], fleet(*nodes(L40S, 30)))
    assert sum(pool.replicas for pool in fewest.pools) < sum(pool.replicas for pool in found.pools)


def test_an_old_card_of_a_vendor_with_measured_cards_is_a_place_like_others() -> None:
    small = request("Qwen/Qwen2.5-1.5B-Instruct", precision=Precision.FP16)
    assert chosen(placed(small, fleet(*nodes(T4, 1, 4), *nodes(H100, 1))).choice) == (T4, 1)


def test_what_decides_is_said() -> None:
    unmeasured = refusal(placed(WANTED, TWO_VENDORS), MI300X, 1)
    assert unmeasured.reason is Reason.SPEED_NOT_MEASURED
    assert "30 ms a token instead of 23" in rejection_sentence(unmeasured)
    dear = refusal(placed(request(LLAMA_70B, context=8192), CARDS), H100, 4)
    assert dear.reason is Reason.COSTS_MORE
    assert "19 ms a token instead of 115" in rejection_sentence(dear)
    slow = refusal(placed(request(LLAMA_70B, context=8192, objective=Objective.INTERACTIVE), CARDS), L40S, 4)
    assert slow.reason is Reason.SLOWER_FOR_ITS_PRICE
    assert "spec.objective counts the time of users as $" in rejection_sentence(slow)
    unsure = refusal(placed(request(LLAMA_70B_FP8, context=8192, slo=Slo(0.55)), MIXED), A100, 4)
    assert unsure.reason is Reason.PROMISE_NOT_SURE


def test_a_promise_that_may_be_missed_is_given_with_a_warning_if_no_surer_place_is_free() -> None:
    outcome = placed(request(LLAMA_70B_FP8, context=8192, slo=Slo(0.55)), fleet(*nodes(A100, 1)))
    assert chosen(outcome.choice) == (A100, 8), "the smaller degree may miss it"
    only = placed(request(LLAMA_70B_FP8, context=8192, slo=Slo(0.55)), fleet(*nodes(A100, 1, 4)))
    assert chosen(only.choice) == (A100, 4)
    assert any("spec.slo is kept by the estimate" in warning for warning in only.warnings)


def test_a_model_that_no_node_holds_is_said_to_need_one_node_and_one_that_does_is_named() -> None:
    """Calls 11 and 12: DeepSeek-V3 and a large load of Qwen3-235B on two nodes of eight H100."""
    for wanted in (
        request("deepseek-ai/DeepSeek-V3", context=16_384),
        request("Qwen/Qwen3-235B-A22B-FP8", context=32_768, concurrency=64),
    ):
        (decision,) = plan([tenant(wanted)], fleet(*nodes(H100, 2)), CATALOG)
        assert decision.missing == 1
        assert "one node only" in one_node_sentence(decision.rejections)
    bought = {str(dict(each.numbers).get("gpu_type")) for each in decision.remedies}
    assert not any(name.startswith("mi3") for name in bought), "no vendor that nobody has measured"
    (fits,) = plan([tenant(request(LLAMA_70B, context=131_072, concurrency=1))], fleet(*nodes(L4, 1, 4)), CATALOG)
    assert one_node_sentence(fits.rejections) == "", "a node with more GPUs would do"


def test_a_tiny_model_on_a_whole_card_is_placed_and_what_it_wastes_is_said() -> None:
    """Call 16."""
    tiny = placed(request("Qwen/Qwen2.5-1.5B-Instruct"), fleet(*nodes(H100, 1)))
    assert any("nothing else shares the card" in warning for warning in tiny.warnings)
    fitting = placed(request("Qwen/Qwen2.5-1.5B-Instruct"), fleet(*nodes(L4, 1, 1)))
    assert not any("nothing else shares the card" in warning for warning in fitting.warnings)


@pytest.mark.parametrize("objective", Objective)
def test_with_batch_the_price_alone_decides_whatever_the_number_of_engines(objective: Objective) -> None:
    """DeepSeek-V3 needs eight engines side by side on H200, and two stages on B200 for 3 % more."""
    wanted = request("deepseek-ai/DeepSeek-V3", context=32_768, concurrency=64, objective=objective)
    where = fleet(node("h", gpu("h200-sxm-141gb", price="3.00"), 8), node("b", gpu("b200-sxm-180gb", price="3.10"), 8))
    choice = placed(wanted, where).choice
    prices = [
        each.hourly_price for each in options(wanted, where).verdicts if isinstance(each, Option) and not each.doubts
    ]
    assert choice.hourly_price is not None
    cheapest = min(price for price in prices if price is not None)
    assert (choice.hourly_price == cheapest) is (objective is Objective.BATCH)


def test_the_calls_that_were_signed_before_stay_signed() -> None:
    """Calls 5, 10 and 19: a promise that nobody keeps, eight H200, and a slice where whole cards are, too."""
    tight = request(LLAMA_70B_FP8, context=8192, slo=Slo(None, 0.0088))
    (refused,) = plan([tenant(tight)], MIXED, CATALOG)
    assert refused.missing == 1
    assert "add a node with 8 b200-sxm-180gb" in [remedy_sentence(each) for each in refused.remedies]
    large = request("Qwen/Qwen3-235B-A22B-FP8", context=32_768, concurrency=16)
    assert chosen(placed(large, fleet(*nodes("h200-sxm-141gb", 1))).choice) == ("h200-sxm-141gb", 4)
    sliced = fleet(*nodes("h100-sxm-80gb-mig-3g.40gb", 1, 2), *nodes(H100, 1))
    assert chosen(placed(request(context=8192), sliced).choice) == ("h100-sxm-80gb-mig-3g.40gb", 1)
