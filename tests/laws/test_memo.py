"""Laws of the memo: it saves work and changes no word of any decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Taint, Toleration
from plimsoll.domain.cluster.gpus import Price
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.cluster.limit_ranges import LimitRange
from plimsoll.domain.decisions.outcomes import Fit, Option, Placed, Remedy, Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.kubernetes_names import CPU_LIMITS, MEMORY_REQUESTS, PODS, ObjectKey
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, ObservedCapacity, Overrides, Request
from plimsoll.placement.advice.remedies import Adviser
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, Tenant
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.ledger import Ledger, Quotas
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.places.place import first_that_fits, pick
from plimsoll.placement.plan import plan
from tests.laws.strategies import KINDS, fleets, requests, shapes
from tests.support.tables import examples

pytestmark = pytest.mark.lengthy

CATALOG = load_gpu_types()
ZONES = ("a", "b")
TAINT = Taint("team", "ml", "NoSchedule")
NAMESPACES = ("a", "b")
RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
GIB = 2**30
TIGHT = LimitRange("tight", limits=(("cpu", 2000), ("memory", 8 * GIB * 1000)))
Change = Callable[[Any], Any]


millis = st.sampled_from([0, 500, 2_000, 9_000])
memory = st.sampled_from([0, 2 * GIB, 8 * GIB, 60 * GIB])
hosts = st.builds(
    HostRoom,
    st.none() | st.integers(0, 20_000),
    st.none() | st.integers(0, 100 * GIB),
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 3).map(lambda cards: (("rdma/ib", cards),)),
)
quotas: st.SearchStrategy[Quotas] = st.dictionaries(
    st.sampled_from(NAMESPACES),
    st.dictionaries(
        st.sampled_from([*RESOURCES, CPU_LIMITS, MEMORY_REQUESTS, PODS]),
        st.integers(0, 9) | st.sampled_from([9_000, 20_000, 60 * GIB]),
    ),
    max_size=2,
)
places_left = st.lists(
    st.builds(Rehoming, st.sampled_from(KINDS), st.builds(Split, st.sampled_from([1, 2, 4])), st.just(0.0)), max_size=3
).map(tuple)


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
        key=ObjectKey(draw(st.sampled_from(NAMESPACES)), name),
        cpu_millis=draw(millis),
        memory_bytes=draw(memory),
        other_resources=draw(st.sampled_from([(), (), (("rdma/ib", 1),)])),
        limit_ranges=draw(st.sampled_from([(), (), (TIGHT,)])),
        memory_limit_bytes=draw(st.none() | memory.filter(bool)),
        overrides=forced,
        node_selector=draw(st.sampled_from([(), (), (("zone", "a"),), (("zone", "c"),)])),
        tolerations=draw(st.sampled_from([(), (Toleration("team", "Exists"),)])),
    )


@st.composite
def zoned_fleets(draw: st.DrawFn) -> Fleet:
    """Fleets whose nodes lie in zones and say what they have besides GPUs, or do not; some are kept for a team."""
    where = draw(fleets())
    return where.with_nodes(
        replace(
            node,
            host=(host := draw(st.just(HostRoom()) | hosts)),
            host_free=host.less(draw(millis), draw(memory), draw(st.integers(0, 3))),
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
    hosts.map(lambda room: each_node(lambda node: replace(node, host_free=room))),
    hosts.map(lambda room: each_node(lambda node: replace(node, host=room, host_free=room))),
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
    st.tuples(millis, memory).map(
        lambda need: lambda wanted: replace(wanted, cpu_millis=need[0], memory_bytes=need[1])
    ),
)


@dataclass(frozen=True)
class Fate:
    """How many pods of a pool have a node, and what became of the others."""

    bound: int = 6
    stranded: int = 0
    stuck: int = 0
    uncreated: int = 0
    refused: bool = False
    promise_over: bool = False


@dataclass(frozen=True)
class Later:
    """What changes from one pass to the next."""

    fleet: Change
    request: Change
    quotas: Quotas
    runs: bool
    moves: bool
    fate: Fate
    left: tuple[Rehoming, ...]
    standing: bool


few_pods = st.integers(0, 3)
fates = st.just(Fate()) | st.builds(Fate, few_pods, few_pods, few_pods, few_pods, st.booleans(), st.booleans())
changes = st.lists(
    st.builds(
        Later, fleet_changes, request_changes, quotas, st.booleans(), st.booleans(), fates, places_left, st.booleans()
    ),
    min_size=1,
    max_size=4,
)


@given(
    st.tuples(picky_requests("a"), picky_requests("b"), picky_requests("c")),
    zoned_fleets(),
    quotas,
    changes,
    st.sampled_from([0, 3, 60, 10**6]),
)
@settings(max_examples=examples(60), deadline=None)
def test_plans_with_one_memo_for_all_of_them_are_those_without(
    wanted: tuple[Request, ...],
    where: Fleet,
    limits: Quotas,
    later: list[Later],
    most: int,
) -> None:
    memo = Memo(most)
    tenants = [Tenant(each, 1) for each in wanted]
    decisions = compared(tenants, where, (), limits, memo)
    for change in later:
        where = change.fleet(where)
        pools = {each.request.key: tuple(running(pool, change.fate) for pool in each.pools) for each in decisions}
        standing = pools[decisions[-1].request.key] if change.standing else ()
        tenants = [
            Tenant(
                change.request(each.request),
                1,
                pools[each.request.key] if change.runs else (),
                accepts_move=change.moves,
                left=change.left,
            )
            for each in (decisions[:-1] if change.standing and len(decisions) > 1 else decisions)
        ]
        decisions = compared(tenants, where, standing, change.quotas, memo)
        assert len(memo) <= most


def compared(
    tenants: list[Tenant], where: Fleet, standing: Sequence[Pool], limits: Quotas, memo: Memo
) -> tuple[Decision, ...]:
    """The decisions, which must be word for word those of a plan that remembers nothing."""
    alone = plan(tenants, where, CATALOG, standing, limits, memo=Memo(0))
    remembered = plan(tenants, where, CATALOG, standing, limits, memo=memo)
    assert not any(each.failure for each in remembered)
    assert remembered == alone
    assert [words(each) for each in remembered] == [words(each) for each in alone]
    return remembered


def words(decision: Decision) -> str:
    """Equal decimals can be written differently, and people read them."""
    return repr((decision.pools, decision.rejections, decision.remedies, decision.warnings, decision.outgrown))


def running(pool: PlannedPool, fate: Fate) -> Pool:
    """What was decided, as it runs."""
    bound = min(pool.replicas, fate.bound)
    return Pool(
        name=pool.name,
        target=pool.target,
        state=PoolState.ACTIVE,
        generation=pool.generation,
        replicas=pool.replicas,
        bound=bound,
        ready=bound,
        limits=StepLimits(pool.limits.step_tokens),
        stranded=fate.stranded,
        stuck=fate.stuck,
        uncreated=fate.uncreated,
        refused=fate.refused,
        promise_over=fate.promise_over,
    )


@given(picky_requests(), zoned_fleets(), quotas)
@settings(max_examples=examples(100), deadline=None)
def test_the_first_that_fits_is_chosen_for_one_replica_among_what_fits_for_sure(
    wanted: Request, where: Fleet, limits: Quotas
) -> None:
    ledger = Ledger.of(where, limits)
    assert first_that_fits(wanted, where, ledger) == by_placing(wanted, where, ledger)


@given(picky_requests(), zoned_fleets(), quotas)
@settings(max_examples=examples(40), deadline=None)
def test_remedies_are_those_that_placing_every_proposal_finds(wanted: Request, where: Fleet, limits: Quotas) -> None:
    ledger = Ledger.of(where, limits)
    assert Adviser(where, (), Memo()).remedies(wanted, ledger) == tuple(found_by_placing(wanted, where, ledger))


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


def by_placing(wanted: Request, where: Fleet, ledger: Ledger) -> Option | None:
    one = replace(wanted, replicas=1)
    outcome = pick(
        one, options(one, where), where, ledger, wants=lambda option: option.estimate.fit_by_figures is Fit.SURE
    )
    return outcome.choice if isinstance(outcome, Placed) else None
