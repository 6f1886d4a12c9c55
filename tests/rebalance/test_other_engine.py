"""A move to another engine: what is diagnosed of the best place there, when it is offered, and when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.failed_moves import Delay, FailedMove
from plimsoll.placement.demands.pools import Place, Tenant
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import Market, WhatIf
from plimsoll.rebalance.decide import decide
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind
from plimsoll.rebalance.places.elsewhere import on_other_engine
from plimsoll.rebalance.state.decisions import DecisionReason, Move
from plimsoll.rebalance.state.situation import Situation
from tests.rebalance.test_place_and_load import CALM, outgrown
from tests.support import live_situations as live
from tests.support.hypotheses import no_room, room_for_all
from tests.support.planning import H100, L4, L40S, fleet, gpu, node, placed, pool, request, tenant

SGLANG = EngineChoice(EngineVersion(0, 5, 23), name="sglang")
STRANDED = Rejection(L40S, Split(1), Reason.GPUS_TAKEN, (("gpus", 1), ("free", 0)))


class Offers:
    """A market with these places on SGLang, and with room at some of them."""

    def __init__(self, *options: Option, full: tuple[str, ...] = (), unknown: bool = False) -> None:
        self.found, self.full, self.unknown = options, full, unknown
        self.closed: list[Place] = []

    def options(self, asked: Request, closed: tuple[Place, ...] = ()) -> Iterator[Option]:
        assert asked.engine is SGLANG
        self.closed = list(closed)
        if self.unknown:
            raise UnsupportedModel("a/b", "this engine")
        return (each for each in self.found if each.target.place not in closed)

    def has_room(self, _: Request, option: Option) -> bool:
        return option.target.gpu_type not in self.full

    @property
    def market(self) -> Market:
        return cast("Market", self)


def offer(kind: str, **priced: Any) -> Option:
    return placed(request(), fleet(node("any", gpu(kind, **priced)))).choice


def runs(replicas: int = 1, **changed: Any) -> Tenant:
    """vLLM on L40S, which SGLang may replace."""
    asked = request(replicas=replicas, alternatives=(request(engine=SGLANG),), **changed)
    return tenant(asked, pool(L40S, replicas=replicas))


@pytest.mark.parametrize(
    ("price", "bill"), [("2.50", (("only_bill", "7.50"),)), (None, ())], ids=["priced", "without a price"]
)
def test_the_only_place_is_named_with_both_engines_and_the_bill_of_all_replicas(
    price: str | None, bill: tuple[tuple[str, str], ...]
) -> None:
    found = on_other_engine(runs(3), Offers(offer(H100, price=price)).market)
    assert found is not None
    assert (found.kind, found.reason) == (DiagnosisKind.OUTGROWN, DecisionReason.OTHER_ENGINE_FITS)
    assert (found.replicas, found.place, found.engine) == (3, (H100, Split(1)), "sglang")
    engines = ("from_engine", "vLLM"), ("to_engine", "SGLang"), ("to_place", "h100-sxm-80gb x 1")
    assert found.numbers == (*engines, *bill, ("to_replicas", 3))


@pytest.mark.parametrize(
    ("who", "offers"),
    [
        (runs(), Offers()),
        (runs(), Offers(offer(H100), full=(H100,))),
        (runs(), Offers(unknown=True)),
        (runs(total=2), Offers(offer(H100))),
        (runs(mounts_alone=True), Offers(offer(H100))),
        (tenant(request(), pool(L40S)), Offers(offer(H100))),
        (replace(runs(), pools=(pool(L40S), pool(H100, engine="sglang"))), Offers(offer(H100))),
    ],
    ids=["none", "no room", "no law", "sizes", "one mounts the volume", "no other engine", "it is there already"],
)
def test_another_engine_without_a_place_is_no_remedy(who: Tenant, offers: Offers) -> None:
    assert on_other_engine(who, offers.market) is None


def test_a_place_with_room_comes_before_a_better_one_without() -> None:
    found = on_other_engine(runs(), Offers(offer(L4), offer(H100), full=(L4,)).market)
    assert found is not None
    assert found.place == (H100, Split(1))


def lacking(what_if: WhatIf, **decision: Any) -> WhatIf:
    who = runs()
    return replace(
        what_if,
        tenant=who,
        decision=replace(what_if.decision, request=who.request, **decision),
        market=lambda: Offers(offer(H100)).market,
    )


@pytest.mark.parametrize(
    ("decision", "situation", "moves"),
    [
        ({"missing": 1}, live.situation(CALM), True),
        ({"change_blocked": True}, live.situation(CALM), True),
        ({"stranded_by": (STRANDED,)}, live.situation(CALM), True),
        ({}, live.situation(CALM), False),
    ],
    ids=["a replica lacks a place", "the spec's change does", "a replica is stranded", "all have a place"],
)
def test_another_engine_is_proposed_if_replicas_have_no_place_on_the_one_that_runs(
    decision: dict[str, Any], situation: Situation, *, moves: bool
) -> None:
    decided = decide(situation, lacking(room_for_all(1), **decision)).decision
    assert isinstance(decided, Move) is moves
    if isinstance(decided, Move):
        assert (decided.reason, decided.engine) == (DecisionReason.OTHER_ENGINE_FITS, "sglang")


@pytest.mark.parametrize(
    "changed",
    [
        {"market": None},
        {"market": lambda: Offers().market},
        {"tenant": tenant(request(), pool(L40S))},
        {"tenant": replace(runs(), pools=())},
    ],
    ids=["nothing is known of others", "no place there", "no other engine", "nothing runs"],
)
def test_nothing_is_proposed_if_there_is_nothing_to_propose(changed: dict[str, Any]) -> None:
    where = replace(lacking(room_for_all(1), missing=1), **changed)
    assert not isinstance(decide(live.situation(CALM), where).decision, Move)


@pytest.mark.parametrize("has_place", [True, False])
def test_an_outgrown_place_is_left_for_another_engine_if_the_one_that_runs_has_no_other(*, has_place: bool) -> None:
    usual, full = room_for_all(1), no_room(1)

    def ask(changed: Tenant) -> Answer:
        return (usual if has_place or changed.request.engine is SGLANG else full).ask(changed)

    decided = decide(outgrown(CALM), replace(lacking(usual), ask=ask)).decision
    assert isinstance(decided, Move)
    assert decided.engine == ("" if has_place else "sglang")


@pytest.mark.parametrize(("engine", "is_closed"), [("sglang", True), ("vllm", False)])
def test_a_place_where_that_engine_did_not_come_up_is_closed_and_one_where_another_did_not_is_open(
    engine: str, *, is_closed: bool
) -> None:
    delay = Delay("EngineCrashed")
    failed = FailedMove(H100, Split(1), delay, engine=engine, at=0.0, until=9e9, times=1, spec="s")
    offers = Offers(offer(H100))
    found = on_other_engine(replace(runs(), failed=(failed,)), offers.market)
    assert ((H100, Split(1)) in offers.closed) is is_closed
    assert (found is None) is is_closed
