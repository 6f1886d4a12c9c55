"""Laws of the memo: it saves work and changes no word of any decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.fleet import Fleet, GpuNode, Taint, Toleration
from plimsoll.domain.gpus import Price
from plimsoll.domain.outcomes import Choice, Fit, Placed, Remedy, Split
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.domain.reasons import RemedyKind
from plimsoll.domain.serving import GpuConstraints, ObservedCapacity, Overrides, Request
from plimsoll.placement.first_fit import first_that_fits
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.place import place
from plimsoll.placement.plan import plan
from plimsoll.placement.pools import Decision, Pool, PoolState, Tenant
from plimsoll.placement.remedies import remedies
from tests.laws.strategies import KINDS, fleets, requests, shapes

CATALOG = load_gpu_types()
ZONES = ("a", "b")
TAINT = Taint("team", "ml", "NoSchedule")
Change = Callable[[Any], Any]


@st.composite
def picky_requests(draw: st.DrawFn, name: str = "a") -> Request:
    """Requests with everything that bears on where they may run."""
    wanted = draw(requests(name))
    forced = Overrides(
        gpu_type=draw(st.none() | st.sampled_from(KINDS)) if draw(st.booleans()) else None,
        tensor_parallel=draw(st.sampled_from([None, None, None, 1, 2, 3])),
        memory_per_gpu_bytes=draw(st.sampled_from([None, None, None, 20 * 2**30])),
    )
    return replace(
        wanted,
        overrides=forced,
        node_selector=draw(st.sampled_from([(), (), (("zone", "a"),), (("zone", "c"),)])),
        tolerations=draw(st.sampled_from([(), (Toleration("team", "Exists"),)])),
    )


@st.composite
def zoned_fleets(draw: st.DrawFn) -> Fleet:
    """Fleets whose nodes lie in zones; some are kept for a team."""
    where = draw(fleets())
    return where.with_nodes(
        replace(
            node,
            labels=(("zone", draw(st.sampled_from(ZONES))),),
            taints=draw(st.sampled_from([(), (), (TAINT,)])),
        )
        for node in where.nodes
    )


def each_node(change: Callable[[GpuNode], GpuNode]) -> Change:
    return lambda where: where.with_nodes(change(node) for node in where.nodes)


def repriced(price: str) -> Change:
    told = Price(Decimal(price), "test")
    return each_node(lambda node: replace(node, gpu=replace(node.gpu, price=told)))


fleet_changes: st.SearchStrategy[Change] = st.one_of(
    st.just(each_node(replace)),  # equal, but made of new objects, as every pass reads it
    st.integers(0, 8).map(lambda held: each_node(lambda node: replace(node, held=held))),
    st.integers(1, 8).map(lambda gpus: each_node(lambda node: replace(node, allocatable=gpus))),
    st.sampled_from(["1", "1.0", "1.00", "7.5"]).map(repriced),
    st.integers(0, 5).map(lambda left_out: lambda where: replace(where, nodes=where.nodes[:left_out])),
    st.sampled_from(ZONES).map(lambda zone: each_node(lambda node: replace(node, labels=(("zone", zone),)))),
    st.just(each_node(lambda node: replace(node, taints=(TAINT,)))),
    st.integers(-4, 4).map(
        lambda gib: each_node(
            lambda node: replace(node, gpu=replace(node.gpu, usable_bytes=node.gpu.usable_bytes + gib * 2**30))
        )
    ),
)
request_changes: st.SearchStrategy[Change] = st.one_of(
    st.just(replace),
    st.integers(0, 4).map(lambda replicas: lambda wanted: replace(wanted, replicas=replicas)),
    shapes().map(lambda shape: lambda wanted: replace(wanted, shape=shape)),
    st.sampled_from(["5", "5.0", "50"]).map(
        lambda limit: lambda wanted: replace(wanted, constraints=GpuConstraints(max_hourly_price=Decimal(limit)))
    ),
    st.sampled_from(KINDS).map(lambda kind: lambda wanted: replace(wanted, failed_starts=((kind, Split(1)),))),
    st.integers(0, 10**6).map(
        lambda seen: (
            lambda wanted: replace(wanted, observed=tuple(ObservedCapacity(kind, Split(1), seen) for kind in KINDS))
        )
    ),
    st.just(lambda wanted: replace(wanted, node_selector=(), overrides=Overrides())),
)
changes = st.lists(st.tuples(fleet_changes, request_changes, st.booleans()), min_size=1, max_size=4)


@given(st.tuples(picky_requests("a"), picky_requests("b")), zoned_fleets(), changes, st.sampled_from([0, 3, 60, 10**6]))
@settings(max_examples=60, deadline=None)
def test_plans_with_one_memo_for_all_of_them_are_those_without(
    wanted: tuple[Request, ...],
    where: Fleet,
    later: list[tuple[Change, Change, bool]],
    most: int,
) -> None:
    memo = Memo(most)
    tenants = [Tenant(each, 1) for each in wanted]
    decisions = compared(tenants, where, memo)
    for change_fleet, change_request, runs in later:
        where = change_fleet(where)
        tenants = [
            Tenant(change_request(each.request), 1, tuple(running(each)) if runs else (), accepts_move=runs)
            for each in decisions
        ]
        decisions = compared(tenants, where, memo)
        assert len(memo) <= most


def compared(tenants: list[Tenant], where: Fleet, memo: Memo) -> tuple[Decision, ...]:
    """The decisions, which must be word for word those of a plan that remembers nothing."""
    alone = plan(tenants, where, CATALOG, memo=Memo(0))
    remembered = plan(tenants, where, CATALOG, memo=memo)
    assert remembered == alone
    assert [words(each) for each in remembered] == [words(each) for each in alone]
    return remembered


def words(decision: Decision) -> str:
    """Equal decimals can be written differently, and people read them."""
    return repr((decision.pools, decision.rejections, decision.remedies, decision.warnings, decision.outgrown))


def running(decision: Decision) -> list[Pool]:
    """What was decided, as it runs."""
    return [
        Pool(
            name=each.name,
            gpu_type=each.gpu_type,
            split=each.split,
            selector=each.selector,
            resource=each.resource,
            state=PoolState.ACTIVE,
            generation=each.generation,
            replicas=each.replicas,
            bound=each.replicas,
            ready=each.replicas,
            batched_tokens=each.step_tokens,
        )
        for each in decision.pools
    ]


@given(picky_requests(), zoned_fleets())
@settings(max_examples=100, deadline=None)
def test_the_first_that_fits_is_what_placing_one_replica_chooses(wanted: Request, where: Fleet) -> None:
    assert first_that_fits(wanted, where, Ledger.of(where)) == by_placing(wanted, where, Ledger.of(where))


@given(picky_requests(), zoned_fleets())
@settings(max_examples=40, deadline=None)
def test_remedies_are_those_that_placing_every_proposal_finds(wanted: Request, where: Fleet) -> None:
    ledger = Ledger.of(where)
    assert remedies(wanted, where, ledger, ()) == tuple(found_by_placing(wanted, where, ledger))


def found_by_placing(wanted: Request, where: Fleet, ledger: Ledger) -> list[Remedy]:
    """The slow way: every proposal is placed, and loads are bisected over all candidates at once."""
    shape, found = wanted.shape, list[Remedy]()
    freed = by_placing(wanted, where.emptied, Ledger.of(where.emptied))
    if freed:
        found.append(Remedy(RemedyKind.FREE_GPUS, (("gpu_type", freed.gpu.name), ("gpus", freed.split.gpus))))
    shortest = max(1, (shape.expected_prompt_tokens or 0) + (shape.expected_output_tokens or 0))
    context = bisected(
        range(shortest, shape.context_tokens),
        lambda value: places(replace(wanted, shape=replace(shape, context_tokens=value)), where, ledger),
    )
    if context is not None:
        found.append(Remedy(RemedyKind.REDUCE_CONTEXT, (("from", shape.context_tokens), ("to", context))))
    sequences = bisected(
        range(1, shape.concurrency),
        lambda value: places(replace(wanted, shape=replace(shape, concurrency=value)), where, ledger),
    )
    if sequences is not None:
        found.append(Remedy(RemedyKind.REDUCE_CONCURRENCY, (("from", shape.concurrency), ("to", sequences))))
    older = KvPrecision.FP16 if wanted.kv_precision is KvPrecision.BF16 else wanted.kv_precision
    bits = (
        (RemedyKind.WEIGHTS_FP16, wanted.precision is Precision.BF16, (Precision.FP16, older)),
        (RemedyKind.KV_CACHE_FP8, wanted.kv_precision is not KvPrecision.FP8, (wanted.precision, KvPrecision.FP8)),
        (RemedyKind.WEIGHTS_FP8, not wanted.precision.is_quantized, (Precision.FP8, wanted.kv_precision)),
    )
    for kind, applies, (precision, kv_precision) in bits:
        if applies and places(replace(wanted, precision=precision, kv_precision=kv_precision), where, ledger):
            found.append(Remedy(kind))
    free = replace(wanted, constraints=GpuConstraints(), overrides=Overrides(), node_selector=())
    relaxed = None if free == wanted else by_placing(free, where, ledger)
    if relaxed:
        numbers = (("gpu_type", relaxed.gpu.name), ("gpus", relaxed.split.gpus))
        found.append(Remedy(RemedyKind.RELAX_CONSTRAINTS, numbers))
    return found


def bisected(values: range, fits: Callable[[int], bool]) -> int | None:
    if not values or not fits(values[0]):
        return None
    good, bad = values[0], values[-1] + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def places(wanted: Request, where: Fleet, ledger: Ledger) -> bool:
    return by_placing(wanted, where, ledger) is not None


def by_placing(wanted: Request, where: Fleet, ledger: Ledger) -> Choice | None:
    outcome = place(replace(wanted, replicas=1), where, ledger)
    return outcome.choice if isinstance(outcome, Placed) and outcome.choice.estimate.fit is Fit.SURE else None
