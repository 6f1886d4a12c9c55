"""The resource that is missing where a candidate fits and has no room, with its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.cluster.host import UNKNOWN_HOST, HostRoom
from plimsoll.domain.public_words import Numbers, Reason
from plimsoll.domain.units import GIB
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.places.place import shortage
from tests.support.planning import H100, fleet, node, placed, request
from tests.support.tables import every_case

LARGE = HostRoom(64_000, 512 * GIB, 110)
ASKED = request(cpu_millis=4000, memory_bytes=16 * GIB)
CHOICE = placed(ASKED, fleet(node("h", H100))).choice


def host(free: HostRoom, whole: HostRoom = LARGE, name: str = "a", held: int = 0) -> GpuNode:
    return replace(node(name, H100, 2, held=held), host=whole, host_free=free)


def short(*nodes: GpuNode, quota: int | None = None) -> tuple[Reason, dict[str, int | str]]:
    quotas = None if quota is None else {"default": {"nvidia.com/gpu": quota}}
    where = fleet(*nodes)
    reason, numbers = shortage(ASKED, CHOICE, where, Ledger.of(where, quotas))
    return reason, dict[str, int | str](numbers)


@every_case(
    ("nodes", "reason", "numbers"),
    [
        pytest.param(
            (host(HostRoom(3999, 16 * GIB, 1)), host(HostRoom(2000, 64 * GIB, 1), name="b")),
            Reason.NODE_LACKS_CPU,
            (("asked_millis", 4000), ("free_millis", 3999), ("largest_millis", 64_000), ("node", "a")),
            id="cpu",
        ),
        pytest.param(
            (host(HostRoom(4000, 15 * GIB, 1)),),
            Reason.NODE_LACKS_MEMORY,
            (("asked_bytes", 16 * GIB), ("free_bytes", 15 * GIB), ("largest_bytes", 512 * GIB), ("node", "a")),
            id="memory",
        ),
        pytest.param(
            (host(HostRoom(3999, 15 * GIB, 1)),),
            Reason.NODE_LACKS_CPU,
            (("asked_millis", 4000), ("free_millis", 3999), ("largest_millis", 64_000), ("node", "a")),
            id="both: the CPU is named",
        ),
        pytest.param(
            (host(HostRoom(3999, 64 * GIB, 1)), host(HostRoom(8000, GIB, 1), name="b")),
            Reason.NODE_LACKS_CPU,
            (("asked_millis", 4000), ("free_millis", 8000), ("largest_millis", 64_000), ("node", "b")),
            id="each node lacks another resource",
        ),
        pytest.param(
            (host(HostRoom(8000, 64 * GIB, 0)), host(HostRoom(8000, 64 * GIB, 0), LARGE._replace(pods=32), "b")),
            Reason.NODE_LACKS_PODS,
            (("largest", 110),),
            id="pods",
        ),
        pytest.param(
            (host(HostRoom(8000, 64 * GIB, 0), LARGE._replace(pods=0)),),
            Reason.NODE_LACKS_PODS,
            (("largest", 0),),
            id="a node that runs no pods at all",
        ),
        pytest.param(
            (host(HostRoom(8000, 64 * GIB, 0)), host(HostRoom(-500, 64 * GIB, 1), name="b")),
            Reason.NODE_LACKS_CPU,
            (("asked_millis", 4000), ("free_millis", 8000), ("largest_millis", 64_000), ("node", "a")),
            id="a pod slot on one node and CPU on the other",
        ),
        pytest.param(
            (host(HostRoom(0, 64 * GIB, 1)),),
            Reason.NODE_LACKS_CPU,
            (("asked_millis", 4000), ("free_millis", 0), ("largest_millis", 64_000), ("node", "a")),
            id="no cpu at all",
        ),
        pytest.param(
            (host(HostRoom(3000, 64 * GIB, 1), UNKNOWN_HOST),),
            Reason.NODE_LACKS_CPU,
            (("asked_millis", 4000), ("free_millis", 3000), ("largest_millis", 0), ("node", "a")),
            id="the total of a node is not known",
        ),
        pytest.param(
            (host(HostRoom(-500, 64 * GIB, 1)),),
            Reason.NODE_LACKS_CPU,
            (("asked_millis", 4000), ("free_millis", 0), ("largest_millis", 64_000), ("node", "a")),
            id="more is requested of the node than it has",
        ),
        pytest.param(
            (host(HostRoom(8000, 64 * GIB, 9), held=2), host(HostRoom(0, 0, 0), name="b", held=2)),
            Reason.GPUS_TAKEN,
            (("gpus", 1), ("free", 0)),
            id="gpus",
        ),
        pytest.param(
            (host(HostRoom(0, 0, 0)), host(UNKNOWN_HOST, UNKNOWN_HOST, "b")),
            Reason.GPUS_TAKEN,
            (("gpus", 1), ("free", 2)),
            id="a node that does not report its host has room",
        ),
    ],
)
def test_what_is_short_is_named_with_the_most_that_one_node_has(
    nodes: tuple[GpuNode, ...], reason: Reason, numbers: Numbers
) -> None:
    assert short(*nodes) == (reason, dict(numbers))


def test_a_quota_is_named_first_and_only_where_it_is_short() -> None:
    full = host(LARGE, held=2)
    assert short(full, quota=0) == (Reason.QUOTA_EXCEEDED, {"gpus": 1, "left": 0, "resource": "nvidia.com/gpu"})
    assert short(full, quota=1)[0] is Reason.GPUS_TAKEN


@pytest.mark.parametrize(
    ("resource", "left", "numbers"),
    [
        ("requests.cpu", 3999, {"asked_millis": 4000, "left_millis": 3999}),
        ("requests.memory", 16 * GIB - 1, {"asked_bytes": 16 * GIB, "left_bytes": 16 * GIB - 1}),
        ("limits.cpu", 7999, {"asked_millis": 8000, "left_millis": 7999}),
        ("limits.memory", 0, {"asked_bytes": 16 * GIB, "left_bytes": 0}),  # no limit is declared: the request counts
    ],
)
def test_a_quota_on_cpu_or_memory_is_named_with_what_the_pod_takes_and_what_is_left(
    resource: str, left: int, numbers: dict[str, int]
) -> None:
    where = fleet(host(LARGE))
    asked = replace(ASKED, cpu_limit_millis=8000)
    ledger = Ledger.of(where, {"default": {resource: left, "nvidia.com/gpu": 1}})
    reason, found = shortage(asked, CHOICE, where, ledger)
    assert (reason, dict(found)) == (Reason.QUOTA_EXCEEDED, {**numbers, "resource": resource})
    enough = Ledger.of(where, {"default": {resource: left + max(numbers.values()), "nvidia.com/gpu": 1}})
    assert shortage(asked, CHOICE, where, enough)[0] is Reason.GPUS_TAKEN
