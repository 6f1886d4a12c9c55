"""Further resources that a pod names (ephemeral storage, huge pages, devices): it goes only to a node that has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.highs import fleetwide
from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.cluster.host import Amounts, HostNeed, HostRoom
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import Overrides, Request
from plimsoll.domain.units import GIB
from plimsoll.placement.explain import rejection_sentence, remedy_sentence
from plimsoll.placement.ledger import Ledger, taken_between
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import SOLVERS, Solver
from tests.support.planning import H100, L40S, fleet, node, placed, request, tenant
from tests.support.tables import every_case, examples

IB, PAGES, DISK = "rdma/ib", "hugepages-2Mi", "ephemeral-storage"
ALL_SOLVERS: dict[str, Solver] = {**SOLVERS, "together": fleetwide()}

amounts = st.dictionaries(st.sampled_from([IB, PAGES, DISK]), st.integers(1, 3)).map(
    lambda each: tuple(sorted(each.items()))
)


def having(name: str, others: Amounts | None, kind: str = H100, gpus: int = 2) -> GpuNode:
    room = HostRoom(192_000, 2048 * GIB, 110, others)
    return replace(node(name, kind, gpus), host=room, host_free=room)


def asking(others: Amounts, kind: str = H100, **changes: Any) -> Request:
    return request(other_resources=others, overrides=Overrides(gpu_type=kind, tensor_parallel=1), **changes)


def replicas_on(has: Amounts, asks: Amounts, gpus: int = 2) -> int:
    return min([gpus, *(dict(has).get(name, 0) // amount for name, amount in asks)])


@pytest.mark.parametrize("solver", ALL_SOLVERS)
@given(rooms=st.lists(amounts, min_size=1, max_size=4), asks=amounts, replicas=st.integers(1, 6))
@settings(max_examples=examples(60), deadline=None)
def test_as_many_replicas_are_placed_as_nodes_have_all_that_they_name(
    rooms: list[Amounts], asks: Amounts, replicas: int, solver: str
) -> None:
    where = fleet(having("neighbours", (), L40S), *(having(f"n{index}", has) for index, has in enumerate(rooms)))
    picky = tenant(asking(asks, name="picky", created="1", replicas=replicas))
    neighbour = tenant(asking((), L40S, name="neighbour", created="2"))
    first, second = plan([picky, neighbour], where, solver=ALL_SOLVERS[solver])
    room = min(replicas, sum(replicas_on(has, asks) for has in rooms))
    assert (sum(pool.replicas for pool in first.pools), first.missing) == (room, replicas - room)
    assert [(pool.gpu_type, pool.replicas) for pool in second.pools] == [(L40S, 1)]


def test_together_what_is_rare_goes_to_the_one_who_names_it() -> None:
    """Only one of two nodes has the card. The older engine, which names none, goes to the other node."""
    where = fleet(having("a", ((IB, 1),), gpus=1), having("b", (), gpus=1))
    both = [tenant(asking((), name="b", created="1")), tenant(asking(((IB, 1),), name="a", created="2"))]
    assert [each.missing for each in plan(both, where, solver=fleetwide())] == [0, 0]


def test_a_node_that_reports_none_of_them_is_not_limited() -> None:
    assert placed(asking(((IB, 1),)), fleet(having("a", None))).replicas == 1


@every_case(
    ("has", "asks", "numbers", "sentence", "remedy"),
    [
        (
            (),
            ((IB, 1),),
            {"resource": IB, "asked": 1, "free": 0, "largest": 0, "node": "h"},
            "a pod asks for 1 rdma/ib and no node with free GPUs has any",
            "remove rdma/ib from spec.podTemplate.resources: it fits on h100-sxm-80gb then",
        ),
        (
            ((IB, 1),),
            ((IB, 2),),
            {"resource": IB, "asked": 2, "free": 1, "largest": 1, "node": "h"},
            "a pod asks for 2 rdma/ib and at most 1 is free on a node with free GPUs (on h; the largest has 1)",
            "lower rdma/ib in spec.podTemplate.resources to 1: it fits on h100-sxm-80gb then",
        ),
        (
            ((DISK, 40 * GIB),),
            ((DISK, 200 * GIB),),
            {
                "resource": DISK,
                "asked_bytes": 200 * GIB,
                "free_bytes": 40 * GIB,
                "largest_bytes": 40 * GIB,
                "node": "h",
            },
            (
                "a pod asks for 200.00 GiB of ephemeral-storage and at most 40.00 GiB are free on a node with free "
                "GPUs (on h; the largest has 40.00 GiB)"
            ),
            "lower ephemeral-storage in spec.podTemplate.resources to 40960Mi: it fits on h100-sxm-80gb then",
        ),
    ],
)
def test_the_missing_resource_is_named_with_its_figures(
    has: Amounts, asks: Amounts, numbers: dict[str, int | str], sentence: str, remedy: str
) -> None:
    (decision,) = plan([tenant(asking(asks))], fleet(having("h", has)))
    found = next(each for each in decision.rejections if each.reason is Reason.NODE_LACKS_RESOURCE)
    assert dict(found.numbers) == numbers
    assert sentence in rejection_sentence(found)
    assert remedy_sentence(decision.remedies[0]) == remedy
    assert RemedyKind.FREE_GPUS not in {each.kind for each in decision.remedies}, "free GPUs are not what it lacks"


def test_no_smaller_request_is_proposed_where_it_would_not_do() -> None:
    (decision,) = plan([tenant(asking(((PAGES, 1), (IB, 1))))], fleet(having("h", ())))
    assert RemedyKind.LOWER_REQUESTS not in {each.kind for each in decision.remedies}, "it lacks two resources"


def test_where_the_nodes_that_have_it_lack_cpu_the_cpu_is_named() -> None:
    """The node without the card has CPU; that helps nobody."""
    full = replace(having("a", ((IB, 1),)), host_free=HostRoom(1000, 2048 * GIB, 110, ((IB, 1),)))
    (decision,) = plan([tenant(asking(((IB, 1),)))], fleet(full, having("b", ())))
    found = next(each for each in decision.rejections if each.reason is Reason.NODE_LACKS_CPU)
    assert dict(found.numbers)["free_millis"] == 1000


def test_a_ledger_gives_back_what_was_taken() -> None:
    where = fleet(having("a", ((DISK, 10), (IB, 2))), having("b", None))
    before, need = Ledger.of(where), HostNeed(1000, GIB, ((DISK, 3), (IB, 1)))
    left = before.take(where.nodes, Split(1).shape, 4, need)
    assert left.hosts["a"] == HostRoom(190_000, 2046 * GIB, 108, ((DISK, 4), (IB, 0)))
    assert left.hosts["b"].others is None
    difference = taken_between(before, left)
    assert difference is not None
    assert difference.given_back_to(left) == before
    assert difference.taken_from(before) == left
    with pytest.raises(ValueError, match="over-committed"):
        left.take(where.nodes[:1], Split(1).shape, 1, need)


def test_a_need_is_within_another_only_with_all_that_it_names() -> None:
    assert HostNeed(1, 1).is_within(HostNeed(1, 1, ((IB, 1),)))
    assert HostNeed(1, 1, ((IB, 1),)).is_within(HostNeed(1, 1, ((IB, 1),)))
    assert not HostNeed(1, 1, ((IB, 1),)).is_within(HostNeed(1, 1))
