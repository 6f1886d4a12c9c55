"""Answers that requests share on one fleet are those that each request would get alone."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.fleet import Taint, Toleration
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request, ServingShape
from plimsoll.placement.advice.remedies import room_seen
from plimsoll.placement.ledger import Ledger, QuotaUse, charged
from plimsoll.placement.options.candidates import candidates
from plimsoll.placement.options.feasibility import judge
from plimsoll.placement.options.verdicts import options
from tests.support.planning import ENGINE, H100, L4, LLAMA_70B_FP8, MI300X, T4, fleet, node, request
from tests.support.tables import every_case

HOST = HostRoom(64_000, 2**38, 20)
NODES = (
    replace(node("h", H100, 8, labels={"zone": "a"}), host=HOST, host_free=HOST),
    replace(node("l", L4, 1, labels={"zone": "b"}), host=HOST, host_free=HOST),
    node("m", MI300X, 8, taints=(Taint("team", "ml", "NoSchedule"),)),
    node("t", T4, 4, labels={"zone": "b"}),
)
USUAL = request()

ABOUT_CANDIDATES = {
    "model": request(LLAMA_70B_FP8),
    "precision": replace(USUAL, precision=Precision.FP8),
    "cache": replace(USUAL, kv_precision=KvPrecision.FP8),
    "image": replace(USUAL, engine=replace(ENGINE, image_vendor=Vendor.AMD)),
    "denied": replace(USUAL, constraints=GpuConstraints(deny=(H100,))),
    "degree": replace(USUAL, overrides=Overrides(tensor_parallel=2)),
    "odd degree": replace(USUAL, overrides=Overrides(tensor_parallel=3)),
    "selector": replace(USUAL, node_selector=(("zone", "b"),)),
    "toleration": replace(USUAL, tolerations=(Toleration("team", "Exists"),)),
}


@every_case("changed", ABOUT_CANDIDATES.values(), ids=ABOUT_CANDIDATES)
def test_a_request_has_the_options_that_it_would_have_alone(changed: Request) -> None:
    shared, alone = fleet(*NODES), fleet(*NODES)
    usual = options(USUAL, shared).verdicts
    found = options(changed, shared).verdicts
    assert found == tuple(judge(changed, each, alone) for each in candidates(changed, alone))
    assert found != usual
    assert options(USUAL, shared).verdicts == usual


def test_a_request_with_another_load_shares_refusals_and_is_judged_by_its_own_figures() -> None:
    shared = fleet(*NODES)
    less, more = (options(replace(USUAL, shape=ServingShape(*load)), shared) for load in ((2048, 2), (131_072, 400)))
    pairs = list(zip(less.verdicts, more.verdicts, strict=True))
    assert any(one is other for one, other in pairs)
    assert any(type(one) is not type(other) for one, other in pairs)


ABOUT_ROOM = {
    "model": (request(LLAMA_70B_FP8), False),
    "selector": (replace(USUAL, node_selector=(("zone", "b"),)), True),
    "toleration": (replace(USUAL, tolerations=(Toleration("team", "Exists"),)), True),
    "CPU": (replace(USUAL, cpu_millis=10**6), True),
    "memory": (replace(USUAL, memory_bytes=2**40), True),
    "forced": (replace(USUAL, overrides=Overrides(tensor_parallel=3)), True),
    "quota": (replace(USUAL, key=ObjectKey("tight", "llama")), True),
}


@every_case(("changed", "differs"), ABOUT_ROOM.values(), ids=ABOUT_ROOM)
def test_a_request_sees_the_room_that_it_would_see_alone(changed: Request, differs: bool) -> None:  # noqa: FBT001
    where, quota = fleet(*NODES), {"tight": {"nvidia.com/gpu": 1}}
    shared = Ledger.of(where, quota)
    usual, found = room_seen(USUAL, where, shared), room_seen(changed, where, shared)
    assert found == room_seen(changed, where, Ledger.of(where, quota))
    assert (found != usual) is differs


def test_a_ledger_with_less_room_is_seen_anew() -> None:
    where = fleet(*NODES)
    before = Ledger.of(where)
    seen = room_seen(USUAL, where, before)
    assert room_seen(USUAL, where, before.take(where.of_type(H100), Split(8).shape, 1)) != seen
    assert room_seen(USUAL, where, before) is seen


def test_a_ledger_with_a_smaller_quota_is_seen_anew() -> None:
    where, mine = fleet(*NODES), replace(USUAL, key=ObjectKey("tight", "llama"))
    before = Ledger.of(where, {"tight": {"nvidia.com/gpu": 1}})
    seen, smaller = room_seen(mine, where, before), charged(before, "tight", QuotaUse((("nvidia.com/gpu", 1),)), 1)
    assert room_seen(mine, where, smaller) != seen
    assert room_seen(mine, where, before.without_quota()) != seen
    assert room_seen(USUAL, where, smaller) == room_seen(USUAL, where, before)
