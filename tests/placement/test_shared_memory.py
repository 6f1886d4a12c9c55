"""A GPU that shares its host's memory: what other pods of its node hold is not free for the engine."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.decisions.outcomes import Fit, Option, Placed, Split, Unplaceable
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.placement.places.place import place
from tests.support.planning import H100, fleet, node, request

GB10 = "gb10-128gb"
KIT_BYTES = 119 * GIB
"""The memory that the kernel of such a kit reports."""


def placed_with(free_bytes: int, kind: str = GB10, wanted: Request | None = None) -> Placed | Unplaceable:
    room = HostRoom(20_000, free_bytes, 100)
    where = fleet(replace(node("kit", kind, 1), host=room._replace(memory_bytes=KIT_BYTES), host_free=room))
    return place(wanted or request(), where)


def choice(found: Placed | Unplaceable) -> Option:
    assert isinstance(found, Placed)
    return found.choice


def test_its_share_of_the_memory_is_requested_from_the_node() -> None:
    kit, card = choice(placed_with(KIT_BYTES)), choice(placed_with(KIT_BYTES, H100))
    terms = {term.name: term.size_bytes for term in kit.host.terms}
    assert terms["gpuMemory"] == kit.estimate.budget_bytes
    assert "gpuMemory" not in {term.name for term in card.host.terms}
    assert kit.host.memory_bytes - card.host.memory_bytes >= kit.estimate.budget_bytes
    assert kit.host.least_bytes == card.host.least_bytes == 0, "a limit of the pod does not bound the GPU's part"
    assert kit.estimate.fit is Fit.PROBABLE


def test_other_pods_of_the_node_take_its_room_and_not_that_of_a_card_with_memory_of_its_own() -> None:
    busy = KIT_BYTES - 30 * GIB
    refused = placed_with(busy)
    assert isinstance(refused, Unplaceable)
    alone = [each.reason for each in refused.rejections if each.split == Split(1)]
    assert alone == [Reason.NODE_LACKS_MEMORY]
    assert choice(placed_with(busy, H100)).gpu.name == H100


def test_a_smaller_share_finds_room_there() -> None:
    wanted = request()
    smaller = replace(wanted, engine=replace(wanted.engine, gpu_memory_utilization_percent=40))
    assert choice(placed_with(KIT_BYTES - 30 * GIB, wanted=smaller)).settings.gpu_memory_utilization_percent == 40
