"""``kvCache.hostMemory: auto``: a part of a node's memory for its GPUs, and never in the way of a replica."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import UNKNOWN_HOST, HostRoom
from plimsoll.domain.cluster.limit_ranges import LimitedBy, LimitRange, LimitRangeBound, LimitRule
from plimsoll.domain.engines.engine_choice import EngineVersion, HostUse
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import Overrides, Request
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.pools import PlannedPool, Tenant
from plimsoll.placement.extra_pods import OnLeavingNodes, replacements
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan
from tests.support.planning import ENGINE, H100, L4, MI300X, fleet, node, pool, request, tenant
from tests.support.tables import every_case, examples

AUTO = HostUse(by_spec=True, takes_spare=True)
HALF = "h100-sxm-80gb-mig-3g.40gb"


def asked(host: HostUse = AUTO, release: str = "0.32.0", **changes: Any) -> Request:
    return request(engine=replace(ENGINE, version=EngineVersion.of(release), host=host), **changes)


def hosted(each: GpuNode, free: int | None, whole: int | None = 2048) -> GpuNode:
    """A node with so many GiB of memory, and so many of them free."""
    room, left = (HostRoom(192_000, None if size is None else size * GIB, 110) for size in (whole, free))
    return replace(each, host=room, host_free=left)


def on(kind: str, degree: int = 1) -> Overrides:
    return Overrides(gpu_type=kind, tensor_parallel=degree)


def chosen(wanted: Request, where: Fleet, **known: Any) -> PlannedPool:
    (decision,) = plan([Tenant(wanted, 1, **known)], where)
    (found,) = decision.pools
    assert decision.missing == 0
    return found


@every_case(
    ("kind", "degree", "release", "free", "gib"),
    [
        # 256 GiB a GPU: half of it.
        (H100, 1, "0.32.0", 2048, 128),
        (H100, 4, "0.32.0", 2048, 512),
        # 50 GiB a GPU are left, and an engine on one GPU takes 8 in any case, one on four 19.
        (H100, 1, "0.32.0", 400, 42),
        (H100, 4, "0.32.0", 400, 181),
        # Buffers that are rounded up to powers of two are requested twice.
        (MI300X, 1, "0.32.0", 2048, 64),
        (H100, 1, "0.26.0", 2048, 64),
        (H100, 1, "0.32.0", 64, 0),
    ],
)
def test_a_replica_gets_half_of_its_share_as_far_as_it_is_free(
    kind: str, degree: int, release: str, free: int, gib: int
) -> None:
    found = chosen(asked(release=release, overrides=on(kind, degree)), fleet(hosted(node("n", kind, 8), free)))
    assert found.host_cache_bytes == gib * GIB
    assert found.choice is not None
    assert [each.name for each in found.choice.host.terms].count("kvCache") == (1 if gib else 0)


def test_the_smallest_node_that_has_room_decides_and_one_without_room_does_not() -> None:
    large, small, full = node("large", H100, 8), node("small", H100, 8), node("full", H100, 8)
    where = fleet(hosted(large, 2048), hosted(small, 512, 512), hosted(full, 4, 512))
    assert chosen(asked(), where).host_cache_bytes == 32 * GIB
    assert chosen(asked(), fleet(hosted(large, 2048), hosted(full, 4))).host_cache_bytes == 128 * GIB


def test_a_node_that_does_not_say_gets_none_and_slices_share_the_node_with_whole_gpus() -> None:
    assert chosen(asked(), fleet(replace(node("n", H100, 8), host=UNKNOWN_HOST))).host_cache_bytes == 0
    halves = replace(node("n", HALF, 4), resource="nvidia.com/mig-3g.40gb")
    where = fleet(hosted(node("n", H100, 4), 1024, 1024), hosted(halves, 1024, 1024))
    assert chosen(asked(overrides=on(HALF)), where).host_cache_bytes == 64 * GIB


def test_the_users_own_memory_bounds_it() -> None:
    where = fleet(hosted(node("n", H100, 8), 2048))
    assert chosen(asked(memory_bytes=40 * GIB), where).host_cache_bytes == 32 * GIB
    assert chosen(asked(memory_limit_bytes=24 * GIB), where).host_cache_bytes == 16 * GIB
    assert chosen(asked(memory_bytes=6 * GIB), where).host_cache_bytes == 0


def test_no_replica_is_refused_for_it() -> None:
    """A LimitRange of 20 GiB would refuse the pod with its cache: it gets none, and is placed."""
    limit = ("memory", 20 * GIB * 1000)
    most = LimitRange("most", (LimitRangeBound(LimitedBy.CONTAINER, LimitRule.MAX, *limit),), limits=(limit,))
    where = fleet(hosted(node("n", H100, 8), 2048))
    found = chosen(asked(limit_ranges=(most,)), where)
    assert found.host_cache_bytes == 0


def test_what_was_chosen_stays_while_the_spec_does_and_is_counted() -> None:
    """Other pods take and leave memory all the time; engines do not start again for that."""
    where = fleet(hosted(node("n", H100, 8, held=1), 300))
    runs = replace(pool(H100), host_cache_bytes=100 * GIB, spec="same")
    assert chosen(asked(), where, pools=(runs,), spec="same").host_cache_bytes == 100 * GIB
    fresh = chosen(asked(), where, pools=(replace(runs, generation=0),), spec="other")
    assert fresh.host_cache_bytes == (300 // 7 - 8) * GIB
    waits = replace(runs, bound=0, ready=0)
    neighbor = tenant(request(name="neighbor", created="2", memory_bytes=250 * GIB, overrides=on(H100)))
    first, second = plan([Tenant(asked(), 1, (waits,), spec="same"), neighbor], where)
    assert first.pools[0].host_cache_bytes == 100 * GIB
    assert second.missing == 1, "the promise to the waiting replica holds its cache"


def test_an_update_starts_first_only_where_there_is_room_for_the_cache_as_well() -> None:
    runs = replace(pool(H100), host_cache_bytes=100 * GIB, spec="same")
    for free, surge in ((108, True), (107, False)):
        where = fleet(hosted(node("n", H100, 8, held=1), free))
        assert chosen(asked(), where, pools=(runs,), spec="same").surge is surge


def test_a_pod_that_starts_before_a_node_goes_needs_room_for_the_cache_as_well() -> None:
    runs = replace(pool(H100), host_cache_bytes=100 * GIB, spec="same")
    for free, pods in ((108, 1), (107, 0)):
        where = fleet(hosted(node("n", H100, 8), free))
        (decided,) = plan([Tenant(asked(), 1, (runs,), spec="same")], where)
        here = {runs.name: OnLeavingNodes(1, 0)}
        found, _ = replacements(asked(), decided.pools, here, where, Ledger.of(where))
        assert sum(count for _, count in found) == pods


@settings(max_examples=examples(60), deadline=None)
@given(
    free=st.lists(st.integers(0, 2048), min_size=1, max_size=3),
    gpus=st.integers(1, 8),
    degree=st.sampled_from([1, 2, 4]),
    kind=st.sampled_from([H100, L4, MI300X]),
    release=st.sampled_from(["0.26.0", "0.32.0"]),
)
def test_as_many_replicas_fit_as_without(*, free: list[int], gpus: int, degree: int, kind: str, release: str) -> None:
    where = fleet(*(hosted(node(f"n{at}", kind, gpus), size) for at, size in enumerate(free)))
    plain, cached = (
        plan(
            [Tenant(asked(host, release, replicas=8, context=512, concurrency=1, overrides=on(kind, degree)), 1)], where
        )[0]
        for host in (HostUse(), AUTO)
    )
    assert (cached.missing, len(cached.pools)) == (plain.missing, len(plain.pools))
    for each in cached.pools:
        assert each.host_cache_bytes <= 1024 * GIB * degree // gpus
        assert each.host_cache_bytes % GIB == 0


def test_a_memo_does_not_keep_a_size_when_the_free_memory_changes() -> None:
    memo = Memo()
    for left, gib in ((2048, 128), (400, 42), (2048, 128)):
        where = fleet(hosted(node("n", H100, 8), left))
        (decision,) = plan([Tenant(asked(), 1)], where, memo=memo)
        assert decision.pools[0].host_cache_bytes == gib * GIB


def test_more_than_any_node_has_is_refused_with_what_would_do() -> None:
    """512 GiB, of which an engine takes 8 in any case."""
    where = fleet(hosted(node("n", H100, 8), 512, 512))
    (decision,) = plan([tenant(asked(HostUse(600 * GIB, by_spec=True)))], where)
    rejection = next(each for each in decision.rejections if each.split.gpus == 1)
    assert (rejection.reason, rejection.number("largest_bytes")) == (Reason.NODE_LACKS_MEMORY, 512 * GIB)
    remedies = {each.kind: dict(each.numbers) for each in decision.remedies}
    assert remedies[RemedyKind.LESS_HOST_CACHE]["host_bytes"] == 504 * GIB
    (lower,) = plan([tenant(asked(HostUse(504 * GIB, by_spec=True)))], where)
    assert lower.missing == 0
