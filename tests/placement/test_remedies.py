"""Every proposal is put into practice: the figure that is named places, one more does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType, MarketOffers
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.outcomes import Fit, Placed, Remedy
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request, ServingShape
from plimsoll.domain.units import MIB
from plimsoll.placement.advice.remedies import Adviser
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.places.place import place
from tests.support.planning import A100, H100, L4, LLAMA_70B, LLAMA_70B_FP8, T4, fleet, gpu, node, request
from tests.support.tables import every_case

TWO = fleet(node("h", H100, 2))


def proposals(wanted: Request, where: Fleet, catalog: Sequence[GpuType] = ()) -> dict[RemedyKind, Remedy]:
    assert not isinstance(place(wanted, where), Placed)
    found = Adviser(where, catalog, Memo()).remedies(wanted, Ledger.of(where))
    return {remedy.kind: remedy for remedy in found}


def number(remedy: Remedy, name: str) -> int:
    return int(dict(remedy.numbers)[name])


def places(wanted: Request, where: Fleet) -> bool:
    """Whether it fits for sure: what fits only probably is no remedy."""
    outcome = place(wanted, where)
    return isinstance(outcome, Placed) and outcome.choice.estimate.fit is Fit.SURE


def _load(wanted: Request) -> str:
    return f"{wanted.shape.context_tokens}x{wanted.shape.concurrency}"


GUARANTEED = [
    request(LLAMA_70B_FP8, context=131_072, concurrency=2),
    request(LLAMA_70B_FP8, context=8_192, concurrency=32),
    request(context=131_072, concurrency=64),
]


LONG_AND_SELDOM_USED = replace(request(LLAMA_70B_FP8), shape=ServingShape(262_144, 64, 1_500, 500))
MANY_AND_SHORT = replace(request(LLAMA_70B_FP8), shape=ServingShape(32_768, 128, 1_500, 500))


@pytest.mark.parametrize("wanted", [*GUARANTEED, LONG_AND_SELDOM_USED], ids=_load)
def test_a_shorter_context_places_and_one_token_more_does_not(wanted: Request) -> None:
    remedy = proposals(wanted, TWO)[RemedyKind.REDUCE_CONTEXT]

    def at(tokens: int) -> Request:
        return replace(wanted, shape=replace(wanted.shape, context_tokens=tokens))

    assert number(remedy, "from") == wanted.shape.context_tokens
    assert places(at(number(remedy, "to")), TWO)
    assert not places(at(number(remedy, "to") + 1), TWO)


@pytest.mark.parametrize("wanted", [*GUARANTEED[1:], MANY_AND_SHORT], ids=_load)
def test_fewer_requests_place_and_one_more_does_not(wanted: Request) -> None:
    remedy = proposals(wanted, TWO)[RemedyKind.REDUCE_CONCURRENCY]

    def at(sequences: int) -> Request:
        return replace(wanted, shape=replace(wanted.shape, concurrency=sequences))

    assert number(remedy, "from") == wanted.shape.concurrency
    assert places(at(number(remedy, "to")), TWO)
    assert not places(at(number(remedy, "to") + 1), TWO)


LOADS = (RemedyKind.REDUCE_CONTEXT, RemedyKind.REDUCE_CONCURRENCY)


@every_case("less", range(0, 2048, 64))
@pytest.mark.parametrize("kind", [H100, A100])
def test_of_several_cards_the_one_that_bears_the_most_sets_the_proposal(less: int, kind: str) -> None:
    """The second card has so many MiB less. It bears a little less, or as much, or more: an A100 needs less itself."""
    wanted, usual = request(LLAMA_70B_FP8, context=32_768, concurrency=64), gpu(H100)
    other = replace(gpu(kind), name="other", usable_bytes=usual.usable_bytes - less * MIB)
    cards = node("h", H100, 2), node("o", other, 2)
    alone = [proposals(wanted, fleet(card)) for card in cards]
    for load in LOADS:
        most = max(number(found[load], "to") for found in alone)
        assert number(proposals(wanted, fleet(*cards))[load], "to") == most


def test_a_deployment_without_replicas_gets_the_same_proposals_as_one_with_a_replica() -> None:
    wanted = request(LLAMA_70B_FP8, context=131_072, concurrency=2)
    assert proposals(replace(wanted, replicas=0), TWO) == proposals(wanted, TWO) != {}


def test_one_request_at_a_time_is_proposed_where_two_do_not_fit() -> None:
    lengths = range(32_768, 131_073, 8192)
    wanted = (request(LLAMA_70B_FP8, context=tokens, concurrency=2) for tokens in lengths)
    tight = next(each for each in wanted if not isinstance(place(each, TWO), Placed))
    assert places(replace(tight, shape=replace(tight.shape, concurrency=1)), TWO)
    assert dict(proposals(tight, TWO)[RemedyKind.REDUCE_CONCURRENCY].numbers) == {"from": 2, "to": 1}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_no_context_below_the_expected_lengths_is_proposed(share: float, beyond: int) -> None:
    """The longest context that fits is the bound, in whatever parts prompt and output make it up."""
    wanted = request(LLAMA_70B_FP8, context=32_768, concurrency=64)
    longest = number(proposals(wanted, TWO)[RemedyKind.REDUCE_CONTEXT], "to")
    prompt = int(share * longest)
    shape = ServingShape(32_768, 64, prompt, longest + beyond - prompt, guaranteed=True)
    offered = proposals(replace(wanted, shape=shape), TWO)
    assert (RemedyKind.REDUCE_CONTEXT in offered) is (beyond <= 0)
    assert RemedyKind.REDUCE_CONCURRENCY in offered


def test_what_no_load_makes_fit_gets_no_proposal_of_a_smaller_one() -> None:
    offered = proposals(request(LLAMA_70B), fleet(node("l4", L4, 1)))
    assert offered == {}


def test_fewer_bits_are_proposed_only_where_they_place() -> None:
    cache = request(LLAMA_70B, context=32_768, concurrency=2)
    offered = proposals(cache, TWO)
    assert places(replace(cache, kv_precision=KvPrecision.FP8), TWO) is (RemedyKind.KV_CACHE_FP8 in offered)
    assert places(replace(cache, precision=Precision.FP8), TWO) is (RemedyKind.WEIGHTS_FP8 in offered) is True


def test_fewer_bits_are_not_proposed_twice_nor_to_a_gpu_that_lacks_them() -> None:
    already = request(LLAMA_70B, precision=Precision.FP8, kv_precision=KvPrecision.FP8, context=65_536, concurrency=64)
    assert not {RemedyKind.KV_CACHE_FP8, RemedyKind.WEIGHTS_FP8} & proposals(already, TWO).keys()
    on_turing = request(precision=Precision.FP16, context=16_384, concurrency=4)
    assert RemedyKind.KV_CACHE_FP8 not in proposals(on_turing, fleet(node("t4", T4, 1)))


def test_cards_without_bf16_are_offered_fp16_and_others_are_not() -> None:
    turing = fleet(node("t4", T4, 4))
    wanted = request("Qwen/Qwen2.5-3B-Instruct")
    assert RemedyKind.WEIGHTS_FP16 in proposals(wanted, turing)
    assert places(replace(wanted, precision=Precision.FP16, kv_precision=KvPrecision.FP16), turing)
    assert RemedyKind.WEIGHTS_FP16 not in proposals(request(LLAMA_70B, context=32_768, concurrency=2), TWO)


def test_gpus_that_others_hold_would_do_once_they_are_free() -> None:
    taken = fleet(node("h", H100, 2, held=1))
    remedy = proposals(request(LLAMA_70B_FP8), taken)[RemedyKind.FREE_GPUS]
    assert dict(remedy.numbers) == {"gpu_type": H100, "gpus": 2}
    assert places(request(LLAMA_70B_FP8), TWO)


def test_nothing_is_to_be_freed_where_even_an_empty_fleet_is_too_small() -> None:
    assert RemedyKind.FREE_GPUS not in proposals(request(LLAMA_70B), fleet(node("h", H100, 1, held=1)))


@pytest.mark.parametrize(
    "bounds",
    [
        {"constraints": GpuConstraints(deny=(H100,))},
        {"constraints": GpuConstraints(max_hourly_price=Decimal(1))},
        {"overrides": Overrides(tensor_parallel=1)},
        {"node_selector": (("zone", "nowhere"),)},
    ],
)
def test_bounds_that_alone_stand_in_the_way_are_named(bounds: dict[str, object]) -> None:
    wanted = replace(request(LLAMA_70B_FP8), **bounds)  # type: ignore[arg-type]
    remedy = proposals(wanted, TWO)[RemedyKind.RELAX_CONSTRAINTS]
    assert dict(remedy.numbers) == {"gpu_type": H100, "gpus": 2}


class TestNewGpus:
    def bought(self, wanted: Request, where: Fleet) -> tuple[str, int]:
        remedy = proposals(wanted, where, load_gpu_types())[RemedyKind.ADD_GPUS]
        return str(dict(remedy.numbers)["gpu_type"]), number(remedy, "gpus")

    def test_the_cheapest_type_that_holds_a_replica_is_named_and_holds_it(self) -> None:
        wanted = request(LLAMA_70B, objective=Objective.BATCH)
        kind, gpus = self.bought(wanted, fleet(node("l4", L4, 1)))
        assert (kind, gpus) == ("mi300x-192gb", 1)
        assert places(wanted, fleet(node("l4", L4, 1), node("new", kind, gpus)))

    def test_a_new_node_may_have_as_many_gpus_as_one_replica_can_use(self) -> None:
        for context, gpus in ((4096, 4), (131_072, 8)):
            wanted = request(LLAMA_70B, context=context, constraints=GpuConstraints(allow=(L4, H100)))
            remedy = proposals(wanted, fleet(node("l4", L4, 1)), (gpu(H100),))[RemedyKind.ADD_GPUS]
            assert dict(remedy.numbers) == {"gpu_type": H100, "gpus": gpus}

    def test_a_type_that_the_request_rules_out_is_never_named(self) -> None:
        wanted = request(LLAMA_70B, constraints=GpuConstraints(deny=("mi300x-192gb", "mi325x-256gb")))
        kind, gpus = self.bought(wanted, fleet(node("l4", L4, 1)))
        assert gpu(kind).vendor == "nvidia"
        assert places(wanted, fleet(node("new", kind, gpus)))

    def test_a_new_node_would_carry_the_labels_that_are_asked_for(self) -> None:
        wanted = request(LLAMA_70B, node_selector=(("zone", "b"),))
        kind, gpus = self.bought(wanted, fleet(node("l4", L4, 1)))
        assert places(wanted, fleet(node("new", kind, gpus, labels={"zone": "b"})))

    def test_requests_of_several_node_selectors_share_an_adviser_and_get_nodes_with_their_own_labels(self) -> None:
        where = fleet(node("l4", L4, 1))
        adviser = Adviser(where, load_gpu_types(), Memo())
        for selector in ((), (("zone", "a"),), (("zone", "b"),), (("zone", "a"),)):
            wanted = request(LLAMA_70B, node_selector=selector)
            found = {each.kind: each for each in adviser.remedies(wanted, Ledger.of(where))}
            assert found[RemedyKind.ADD_GPUS] == proposals(wanted, where, load_gpu_types())[RemedyKind.ADD_GPUS]

    def test_nor_one_that_is_too_dear(self) -> None:
        wanted = request(LLAMA_70B, constraints=GpuConstraints(max_hourly_price=Decimal("0.10")))
        assert RemedyKind.ADD_GPUS not in proposals(wanted, fleet(node("l4", L4, 1)), load_gpu_types())

    def test_nobody_sells_a_slice(self) -> None:
        slices = [kind for kind in load_gpu_types() if kind.is_slice]
        assert RemedyKind.ADD_GPUS not in proposals(request(LLAMA_70B_FP8), fleet(node("l4", L4, 1)), slices)
        assert RemedyKind.ADD_GPUS not in proposals(request(), fleet(node("t4", "t4-16gb", 1)), slices)

    def test_a_type_without_a_price_is_nothing_to_recommend(self) -> None:
        unpriced = [gpu(H100, price=None)]
        assert RemedyKind.ADD_GPUS not in proposals(request(LLAMA_70B), fleet(node("l4", L4, 1)), unpriced)

    def test_a_price_of_one_or_two_voters_is_no_advice_and_one_s_own_price_is(self) -> None:
        wanted, where = request(LLAMA_70B_FP8), fleet(node("l4", L4, 1))
        dear, cheap = gpu(H100, price="9"), gpu("a100-sxm-80gb", price="1")
        assert cheap.price is not None
        thin = replace(cheap, price=replace(cheap.price, market=MarketOffers(voters=2)))
        solid = replace(cheap, price=replace(cheap.price, market=MarketOffers(voters=3)))
        bought = [proposals(wanted, where, (dear, each))[RemedyKind.ADD_GPUS] for each in (cheap, solid, thin)]
        assert [dict(remedy.numbers)["gpu_type"] for remedy in bought] == [cheap.name, cheap.name, H100]

    def test_cards_that_servers_rarely_have_are_advised_only_to_who_has_such_cards(self) -> None:
        card, dear = gpu("rtx-4090-24gb", price="0.1"), gpu(H100, price="9")
        wanted = request(LLAMA_70B_FP8)
        here = proposals(wanted, fleet(node("l4", L4, 1)), (card, dear))[RemedyKind.ADD_GPUS]
        there = proposals(wanted, fleet(node("own", gpu("rtx-5090-32gb"), 1)), (card, dear))[RemedyKind.ADD_GPUS]
        assert [dict(remedy.numbers)["gpu_type"] for remedy in (here, there)] == [H100, card.name]


def test_the_nearest_remedy_comes_first() -> None:
    wanted = request(LLAMA_70B, context=32_768, concurrency=2, constraints=GpuConstraints(deny=(L4,)))
    offered = list(proposals(wanted, fleet(node("h", H100, 2)), load_gpu_types()))
    assert offered == [kind for kind in _NEAREST_FIRST if kind in offered]


_NEAREST_FIRST = [
    RemedyKind.FREE_GPUS,
    RemedyKind.REDUCE_CONTEXT,
    RemedyKind.REDUCE_CONCURRENCY,
    RemedyKind.WEIGHTS_FP16,
    RemedyKind.KV_CACHE_FP8,
    RemedyKind.WEIGHTS_FP8,
    RemedyKind.RELAX_CONSTRAINTS,
    RemedyKind.ADD_GPUS,
]


@pytest.mark.parametrize(("context", "less"), [(8192, 0), (4096, 0), (2048, 128)])
def test_of_two_cards_the_second_one_may_bear_a_single_request_more(context: int, less: int) -> None:
    """An A100 as large as an H100, or a little smaller, bears one request more: its engine needs less itself."""
    wanted, usual = request(LLAMA_70B_FP8, context=context, concurrency=512), gpu(H100)
    other = replace(gpu(A100), name="other", usable_bytes=usual.usable_bytes - less * MIB)
    cards = node("h", H100, 2), node("o", other, 2)
    first, second = (number(proposals(wanted, fleet(each))[RemedyKind.REDUCE_CONCURRENCY], "to") for each in cards)
    assert second == first + 1
    assert number(proposals(wanted, fleet(*cards))[RemedyKind.REDUCE_CONCURRENCY], "to") == second
