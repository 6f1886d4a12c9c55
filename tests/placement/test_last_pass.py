"""A deployment about which nothing has changed is not planned again, and what changes is seen at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.highs import fleetwide
from plimsoll.domain.cluster.fleet import Fleet, GpuNode, IgnoredNode, Taint
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import NodeReason
from plimsoll.placement.advice.remedies import Adviser
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.demands.pools import Decision, Pool, Tenant
from plimsoll.placement.ledger import Ledger, Quotas
from plimsoll.placement.memo import LastPass, Memo
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import Award, Stock
from plimsoll.placement.transition.make_before_break import decision_of
from tests.support.planning import H100, L4, L40S, LLAMA_70B_FP8, fleet, node, pool, request, tenant
from tests.support.tables import every_case

NODES = (node("h", H100, 4, held=2, labels={"zone": "a"}), node("l", L40S, 4, held=1, labels={"zone": "a"}))


def running(name: str, kind: str, degree: int = 1) -> Tenant:
    """A deployment whose only replica serves."""
    wanted = request(LLAMA_70B_FP8, name=name) if degree > 1 else request(name=name)
    return tenant(wanted, serving(pool(kind, degree)))


def serving(one: Pool) -> Pool:
    return replace(one, bound=one.replicas, ready=one.replicas, served=True)


TENANTS = (running("large", H100, 2), running("small", L40S))


def read_anew(where: Fleet) -> Fleet:
    """Equal nodes in new objects, as a pass reads them."""
    return where.with_nodes(replace(each) for each in where.nodes)


def test_an_unchanged_fleet_is_not_planned_again() -> None:
    memo, where = Memo(), fleet(*NODES)
    first = plan(TENANTS, where, memo=memo)
    again = plan([replace(each) for each in TENANTS], read_anew(where), memo=memo)
    assert [one is other for one, other in zip(first, again, strict=True)] == [True, True]


def test_what_resource_claims_hold_makes_another_stock() -> None:
    """Sentences name those GPUs, so decisions of the last pass are not used again where only this differs."""
    held = fleet(*NODES)
    claimed = fleet(replace(NODES[0], claimed=1), NODES[1])
    ledger = Ledger.of(held)
    assert Stock(held, ledger) == Stock(read_anew(held), ledger)
    assert Stock(held, ledger) != Stock(claimed, Ledger.of(claimed))
    assert Stock(held, ledger) != Stock(fleet(NODES[0]), ledger)


def test_a_newcomer_leaves_the_awards_of_the_others() -> None:
    memo, where, solver, given = Memo(), fleet(*NODES), fleetwide(), list[list[Award]]()

    def noted(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
        given.append(list(solver(demands, stock)))
        return iter(given[-1])

    plan(TENANTS, where, memo=memo, solver=noted)
    new = tenant(request(name="zebra", created="9"))
    plan((*TENANTS, new), read_anew(where), memo=memo, solver=noted)
    assert [one is other for one, other in zip(*given, strict=False)] == [True, True]
    assert given[1][2].granted


def test_a_deployment_that_changes_is_planned_again_and_nothing_changes_for_its_neighbour() -> None:
    memo, where = Memo(), fleet(*NODES)
    large, small = plan(TENANTS, where, memo=memo)
    more = replace(TENANTS[0], request=replace(TENANTS[0].request, replicas=2))
    larger, kept = plan([more, TENANTS[1]], where, memo=memo)
    assert sum(each.replicas for each in larger.pools) == 2 == 2 * sum(each.replicas for each in large.pools)
    assert kept == small


def test_a_new_deployment_changes_nothing_for_those_that_run() -> None:
    memo, where = Memo(), fleet(*NODES)
    before = plan(TENANTS, where, memo=memo)
    new = tenant(replace(request(name="new"), created="9"))
    after = plan([*TENANTS, new], where, memo=memo)
    assert [one is other for one, other in zip(before, after, strict=False)] == [True, True]
    assert after[2].placed_now
    assert after == plan([*TENANTS, new], where, memo=Memo())


CHANGES: dict[str, Callable[[GpuNode], GpuNode]] = {
    "the last GPUs are taken": lambda each: replace(each, held=each.allocatable),
    "the last processors are taken": lambda each: replace(each, host_free=HostRoom(cpu_millis=10)),
    "the nodes are tainted": lambda each: replace(each, taints=(Taint("team", "ml", "NoSchedule"),)),
    "the nodes have fewer GPUs": lambda each: replace(each, allocatable=1, held=1),
    "GPUs report less memory": lambda each: replace(each, gpu=replace(each.gpu, usable_bytes=2**30)),
    "the nodes are selected by another label": lambda each: replace(each, selector=("other", "label")),
}


@every_case("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_about_the_nodes_is_seen_at_once(change: Callable[[GpuNode], GpuNode]) -> None:
    memo, before, after = Memo(), fleet(*NODES), fleet(*map(change, NODES))
    for where in (before, after, before):
        assert plan(TENANTS, where, memo=memo) == plan(TENANTS, where, memo=Memo())
    asking = (*TENANTS, tenant(request(name="new")))
    assert plan(asking, after, memo=memo) == plan(asking, after, memo=Memo()) != plan(asking, before, memo=Memo())


def test_an_update_may_use_a_free_gpu_only_as_long_as_it_is_free() -> None:
    memo = Memo()

    def surges(held: int, quotas: Quotas | None = None) -> list[bool]:
        nodes = fleet(node("h", H100, 4, held=held), NODES[1])
        decisions = plan(TENANTS, nodes, quotas=quotas, memo=memo)
        return [each.surge for decision in decisions for each in decision.pools]

    spent: Quotas = {"default": {"nvidia.com/gpu": 1}}
    assert [surges(2), surges(3), surges(2)] == [[True, True], [False, True], [True, True]]
    assert surges(2, spent) == [False, True]


SOLD = load_gpu_types()
WAITING = tenant(replace(request(LLAMA_70B_FP8, name="waiting"), created="8"))


def test_a_deployment_that_waits_is_explained_again_only_if_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, solver, asking = Memo(), fleetwide(), (*TENANTS, WAITING)
    full = fleet(*(replace(each, held=each.allocatable) for each in NODES))
    explained: list[ObjectKey] = []

    def counted(award: Award, where: Fleet, adviser: Adviser) -> Decision:
        explained.append(award.demand.request.key)
        return decision_of(award, where, adviser)

    monkeypatch.setattr("plimsoll.placement.transition.answers.decision_of", counted)
    group = NodeGroup("spare", next(gpu for gpu in SOLD if gpu.name == H100), "nvidia.com/gpu", 8)
    passes: list[tuple[Fleet, tuple[GpuType, ...], tuple[NodeGroup, ...], bool]] = [
        (full, (), (), True),
        (read_anew(full), (), (), False),
        (full, SOLD, (), True),
        (read_anew(full), SOLD, (group,), True),
        (read_anew(full), SOLD, (replace(group),), False),
        (fleet(replace(NODES[0], held=1), replace(NODES[1], held=4)), SOLD, (group,), True),
        (full, (), (), True),
    ]
    for where, catalog, groups, is_new in passes:
        explained.clear()
        found = plan(asking, where, catalog, memo=memo, solver=solver, groups=groups)
        assert (WAITING.request.key in explained) is is_new
        assert found == plan(asking, where, catalog, memo=Memo(), solver=fleetwide(), groups=groups)


def test_a_new_deployment_that_waits_is_decided_by_what_others_leave_now() -> None:
    memo, solver = Memo(), fleetwide()
    where = fleet(replace(NODES[0], held=4), *(node(name, L40S, 4, held=3) for name in "abc"))
    small = [tenant(replace(request(name=f"small-{each}"), created="9")) for each in range(3)]
    for placed in (0, 1, 2, 3, 1):
        asking, there = [*small[:placed], WAITING], read_anew(where)
        found = plan(asking, there, SOLD, memo=memo, solver=solver)
        assert found == plan(asking, there, SOLD, memo=Memo(), solver=fleetwide())


def test_an_equal_value_is_given_again_as_the_same_object() -> None:
    last, first = LastPass(), [1]
    assert last.same("x", first) is last.same("x", [1]) is first
    assert last.same("y", [1]) is not first
    assert [last.same("x", [2]), last.same("x", [1])] == [[2], [1]]


def test_a_deployment_that_is_gone_is_forgotten() -> None:
    memo, where = Memo(), fleet(*NODES)
    plan(TENANTS, where, memo=memo)
    assert len(memo.last) == 2
    plan(TENANTS[:1], where, memo=memo)
    assert len(memo.last) == 1


def test_a_deployment_that_cannot_be_planned_is_tried_again_and_its_neighbour_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memo, where = Memo(), fleet(*NODES)

    def broken(*_: object) -> Decision:
        raise RuntimeError("broken")

    with monkeypatch.context() as patched:
        patched.setattr("plimsoll.placement.transition.answers.decision_of", broken)
        assert [each.failure for each in plan(TENANTS[:1], where, memo=memo)] == ["RuntimeError: broken"]
    assert plan(TENANTS, where, memo=memo) == plan(TENANTS, where, memo=Memo())


def test_the_layout_of_a_fleet_leaves_out_what_pods_hold_and_nothing_else() -> None:
    where = fleet(*NODES)
    held = where.with_nodes(replace(each, held=0, host_free=HostRoom(pods=1)) for each in where.nodes)
    assert held.layout == where.layout
    assert replace(where, ignored=(IgnoredNode("x", NodeReason.NOT_READY),)).layout != where.layout
    for change in ({"labels": ()}, {"allocatable": 9}, {"host": HostRoom(pods=3)}, {"name": "other"}):
        other = where.with_nodes(replace(each, **change) for each in where.nodes)
        assert other.layout != where.layout, change


def test_equal_layouts_are_one_object_so_that_comparing_them_is_quick() -> None:
    last, where = LastPass(), fleet(*NODES)
    held = where.with_nodes((replace(where.nodes[0], held=4), where.nodes[1]))
    assert last.layout(where) is last.layout(read_anew(where)) is last.layout(held)
    for other in (
        fleet(NODES[0]),
        where,
        fleet(*NODES, node("m", H100, 4)),
        where.with_nodes((replace(where.nodes[0], allocatable=8), where.nodes[1])),
        replace(where, ignored=(IgnoredNode("x", NodeReason.NOT_READY),)),
    ):
        assert last.layout(other) == other.layout


def test_the_fleet_with_nothing_running_is_one_object_while_the_layout_is_equal() -> None:
    last, where = LastPass(), fleet(*NODES)
    emptied = last.emptied(where)
    assert {each.held for each in emptied.nodes} == {0}
    assert last.emptied(read_anew(where)) is emptied
    assert last.emptied(fleet(NODES[0])) == fleet(NODES[0]).emptied != emptied


def test_answers_about_one_deployment_are_not_those_about_another() -> None:
    last, basis = LastPass(), ("basis",)
    assert last.recall(ObjectKey("a", "x"), "q", basis, lambda: 1) == 1
    assert last.recall(ObjectKey("b", "x"), "q", basis, lambda: 2) == 2
    assert last.recall(ObjectKey("a", "x"), "other", basis, lambda: 3) == 3
    assert last.recall(ObjectKey("a", "x"), "q", basis, lambda: 4) == 1
    assert last.recall(ObjectKey("a", "x"), "q", ("other",), lambda: 5) == 5


@pytest.mark.parametrize("name", ["old", "new"])
def test_the_solver_for_the_whole_fleet_plans_the_same_with_and_without_the_last_pass(name: str) -> None:
    memo, solver, where = Memo(), fleetwide(), fleet(*NODES, node("x", L4, 1))
    for count in (0, 1, 2, 1, 0):
        asking = [*TENANTS, *(tenant(request(name=f"{name}-{each}")) for each in range(count))]
        assert plan(asking, where, memo=memo, solver=solver) == plan(asking, where, memo=Memo(), solver=fleetwide())


def test_a_pool_whose_pods_found_no_node_is_judged_by_what_others_hold_now() -> None:
    """Its labels may be extended to nodes that have become free."""
    other = replace(node("m", H100, 4, held=4), selector=("nvidia.com/gpu.product", "H100-other"))
    stuck = tenant(request(LLAMA_70B_FP8, name="large"), replace(pool(H100, 2), stranded=1))
    memo = Memo()
    for held in (4, 0, 4, 0):
        where = fleet(node("h", H100, 4, held=4), replace(other, held=held))
        assert plan([stuck, TENANTS[1]], where, memo=memo) == plan([stuck, TENANTS[1]], where, memo=Memo())
    free, taken = fleet(node("h", H100, 4, held=4), replace(other, held=0)), fleet(node("h", H100, 4, held=4), other)
    assert plan([stuck], free, memo=memo)[0].pools[0].target != plan([stuck], taken, memo=memo)[0].pools[0].target


def test_the_solver_gives_the_same_awards_again_to_those_who_still_wait() -> None:
    inner, seen = fleetwide(), list[list[Award]]()

    def recorded(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
        awards = list(inner(demands, stock))
        if len(demands) > 1:
            seen.append(awards)
        return iter(awards)

    waiting = [tenant(request(name=name, created=name, replicas=3)) for name in "ab"]
    for _ in range(2):
        plan(waiting, fleet(*NODES), solver=recorded)
    first, again = seen
    assert [one is other for one, other in zip(first, again, strict=True)] == [True, True]
