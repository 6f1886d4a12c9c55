"""Remedies where GPUs are free: a larger quota, or smaller requests of the pod. Each is tried before it is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.cluster.host import DISK, HostRoom
from plimsoll.domain.cluster.node_rules import DRIVER_LABEL, NodeRule, disk_rule, driver_rule
from plimsoll.domain.decisions.outcomes import Rejection, Remedy, Split
from plimsoll.domain.public_words import Numbers, Reason, RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.placement.advice.remedies import other_remedies
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.places.place import place
from tests.support.planning import H100, LLAMA_70B_FP8, fleet, node, request

GPU = "nvidia.com/gpu"
ASKED = request(cpu_millis=4000, memory_bytes=16 * GIB)

TAKEN = Rejection(H100, Split(1), Reason.GPUS_TAKEN, (("gpus", 1), ("free", 0)))


def found(wanted: Request, *, free: HostRoom | None = None, left: int | None = None) -> tuple[Remedy, ...]:
    """The remedies for what placing the request on one node of eight H100 says."""
    there = node("h", H100, 8)
    if free is not None:
        there = replace(there, host=HostRoom(64_000, 512 * GIB, 110), host_free=free)
    where = fleet(there)
    ledger = Ledger.of(where, None if left is None else {"default": {GPU: left}})
    return other_remedies(wanted, where, ledger, place(wanted, where, ledger).rejections)


def numbers_of(remedies: tuple[Remedy, ...]) -> Numbers:
    (remedy,) = remedies
    return remedy.numbers


def test_a_quota_is_raised_by_what_one_replica_lacks() -> None:
    wanted = request(LLAMA_70B_FP8, replicas=3)  # two GPUs a replica
    for left, more in ((0, 2), (1, 1)):
        (remedy,) = found(wanted, left=left)
        assert remedy.kind is RemedyKind.RAISE_QUOTA
        assert dict(remedy.numbers) == {"resource": GPU, "more": more, "gpus": 2, "gpu_type": H100}


def test_all_entries_of_a_quota_that_are_too_small_are_raised_together() -> None:
    where = fleet(node("h", H100, 8))
    left = {GPU: 1, "requests.cpu": 1500, "requests.memory": 16 * GIB, "limits.memory": 6 * GIB + 1}
    ledger = Ledger.of(where, {"default": left})
    (remedy,) = other_remedies(ASKED, where, ledger, place(ASKED, where, ledger).rejections)
    numbers = {"requests.cpu": 2500, "limits.memory": 10 * GIB - 1, "gpus": 1, "gpu_type": H100}
    assert (remedy.kind, dict(remedy.numbers)) == (RemedyKind.RAISE_QUOTA, numbers)


def test_no_larger_quota_is_proposed_where_it_would_place_nothing() -> None:
    where = fleet(node("h", H100, 1, held=1))
    ledger = Ledger.of(where, {"default": {GPU: 0}})
    assert other_remedies(ASKED, where, ledger, place(ASKED, where, ledger).rejections) == ()


def test_requests_are_lowered_to_what_one_node_has_free_and_the_other_one_stays() -> None:
    lowered = found(ASKED, free=HostRoom(3999, 64 * GIB, 9))
    assert [remedy.kind for remedy in lowered] == [RemedyKind.LOWER_REQUESTS]
    assert dict(numbers_of(lowered)) == {"cpu_millis": 3999, "memory_bytes": 16 * GIB, "gpu_type": H100}
    less_memory = found(ASKED, free=HostRoom(64_000, 15 * GIB, 9))
    assert dict(numbers_of(less_memory)) == {"cpu_millis": 4000, "memory_bytes": 15 * GIB, "gpu_type": H100}


def test_one_thousandth_of_a_core_is_proposed_and_none_is_not() -> None:
    assert dict(numbers_of(found(ASKED, free=HostRoom(1, 64 * GIB, 9))))["cpu_millis"] == 1
    assert found(ASKED, free=HostRoom(0, 64 * GIB, 9)) == ()


def test_smaller_requests_that_would_not_do_are_not_proposed() -> None:
    """The CPU is named, but the memory is short too."""
    assert found(ASKED, free=HostRoom(3999, 15 * GIB, 9)) == ()


@pytest.mark.parametrize(
    ("rule", "kind", "figure"),
    [
        (disk_rule(101), RemedyKind.CACHE_ON_CLAIM, ("least_bytes", 101)),
        (driver_rule(580), RemedyKind.UPDATE_DRIVER, ("least", 580)),
    ],
    ids=["disk", "driver"],
)
def test_better_nodes_are_named_with_what_they_must_have(
    rule: NodeRule, kind: RemedyKind, figure: tuple[str, int]
) -> None:
    """The rule alone is behind it: the node is free, and another rule that it keeps stays."""
    where = fleet(replace(node("h", H100, 8), labels=((DRIVER_LABEL, "535"),), host=HostRoom(others=((DISK, 100),))))
    asked = request(node_rules=(rule,))
    rejections = place(asked, where).rejections
    (remedy,) = other_remedies(asked, where, Ledger.of(where), rejections)
    assert (remedy.kind, remedy.numbers) == (kind, (figure, ("gpu_type", H100)))
    kept = request(node_rules=(rule, driver_rule(999) if kind is RemedyKind.CACHE_ON_CLAIM else disk_rule(999)))
    assert other_remedies(kept, where, Ledger.of(where), rejections) == ()


def test_other_reasons_lead_to_no_proposal() -> None:
    where = fleet(node("h", H100, 8))
    assert other_remedies(ASKED, where, Ledger.of(where), (TAKEN,)) == ()


def test_a_shortage_is_found_behind_other_reasons() -> None:
    short = replace(node("h", H100, 8), host=HostRoom(64_000, 512 * GIB, 110), host_free=HostRoom(3999, 64 * GIB, 9))
    where = fleet(short)
    ledger = Ledger.of(where)
    rejections = (TAKEN, *place(ASKED, where, ledger).rejections)
    assert [each.kind for each in other_remedies(ASKED, where, ledger, rejections)] == [RemedyKind.LOWER_REQUESTS]
