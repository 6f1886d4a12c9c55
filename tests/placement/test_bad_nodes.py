"""Nodes where a deployment's pods cannot run: replicas go to another node of the type, or to another type, or stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import HostNeed
from plimsoll.domain.cluster.node_rules import left_rule
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import Reason
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState
from plimsoll.placement.demands.rehoming import Departure, Rehoming, remembered
from plimsoll.placement.extra_pods import needed_again
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L4, L40S, fleet, node, pool, request, tenant

MAX_REHOMINGS_PER_HOUR = 4
MOST_AVOIDED = 16

ONE = Split(1)
BROKEN = "GpuUnusable"
NEED = HostNeed(2000, 8 * 2**30)


def failing(on: str, *, kind: str = L4, replicas: int = 1, bad: int = 1, **changes: Any) -> Pool:
    """A pool of which one replica, or several, cannot run on a node."""
    found = pool(kind, replicas=replicas, exists=True, bound=replicas, ready=replicas - bad, **changes)
    found = replace(found, failing=bad, bad_nodes=((on, BROKEN),), obstacle=BROKEN)
    return replace(found, claim=NEED)


def decided(
    running: Pool, where: Fleet, *, left: tuple[Rehoming, ...] = (), quotas: Any = None, **changes: Any
) -> Decision:
    causes = {each.node: each.reason for each in left if each.node} | dict(running.bad_nodes)
    causes |= dict.fromkeys(running.target.avoids, "") if not running.stranded else {}
    rules = (left_rule(causes),) if causes else ()
    wanted = request(replicas=running.replicas, node_rules=rules, **changes)
    (found,) = plan([replace(tenant(wanted, running), left=left)], where, quotas=quotas)
    return found


def shape(decision: Decision) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(each.gpu_type, each.replicas, each.target.avoids) for each in decision.pools]


def test_a_replica_stays_at_its_place_and_leaves_the_node() -> None:
    found = decided(failing("a"), fleet(node("a", L4, 2, held=1), node("b", L4, 2), node("h", L40S, 2)))
    assert shape(found) == [(L4, 1, ("a",))]
    assert found.departures == (Departure(L4, ONE, BROKEN, "a"),)
    assert found.stranded_by == ()


def test_one_that_serves_is_not_ended_before_its_successor_serves() -> None:
    found = decided(failing("a", replicas=2), fleet(node("a", L4, 2, held=2), node("b", L4, 2)))
    assert [(each.replicas, each.surge, each.state) for each in found.pools] == [(2, True, PoolState.ACTIVE)]


def test_without_another_node_of_the_type_it_goes_to_another_type_also_where_the_quota_is_used_up() -> None:
    where = fleet(node("a", L4, 2, held=1), node("b", L4, 2, held=2), node("h", L40S, 2))
    for quotas in (None, {"default": {"nvidia.com/gpu": 0, "requests.memory": 0, "requests.cpu": 0}}):
        found = decided(failing("a"), where, quotas=quotas)
        assert shape(found) == [(L40S, 1, ())]
        assert found.departures == (Departure(L4, ONE, BROKEN),)


def test_of_several_only_those_that_cannot_run_go_to_another_type() -> None:
    where = fleet(node("a", L4, 2, held=2), node("h", L40S, 2))
    assert shape(decided(failing("a", replicas=2), where)) == [(L4, 1, ()), (L40S, 1, ())]


def test_where_nothing_else_takes_it_the_replica_stays_and_the_reasons_are_kept() -> None:
    where = fleet(node("a", L4, 2, held=1), node("h", L40S, 2, held=2))
    found = decided(failing("a"), where)
    assert shape(found) == [(L4, 1, ())]
    assert {each.reason for each in found.stranded_by} >= {Reason.GPUS_TAKEN}


def test_a_cause_of_the_whole_type_leaves_it_at_once() -> None:
    running = replace(failing("a"), bad_nodes=(), obstacle="GpuNotSupported")
    found = decided(running, fleet(node("a", L4, 2, held=1), node("b", L4, 2), node("h", L40S, 2)))
    assert shape(found) == [(L40S, 1, ())]
    assert found.departures == (Departure(L4, ONE, "GpuNotSupported"),)


def test_after_too_many_moves_within_the_hour_it_stays() -> None:
    where = fleet(node("a", L4, 2, held=1), node("b", L4, 2))
    left = tuple(Rehoming(L4, ONE, BROKEN, f"n{i}", at=float(i)) for i in range(MAX_REHOMINGS_PER_HOUR))
    found = decided(failing("a"), where, left=left)
    assert (shape(found), found.rehomings_spent) == ([(L4, 1, ())], True)
    assert shape(decided(failing("a"), where, left=left[1:])) == [(L4, 1, ("a",))]


def test_nodes_of_one_slow_replica_do_not_count_as_such_moves() -> None:
    where = fleet(node("a", L4, 2, held=1), node("b", L4, 2))
    left = tuple(Rehoming(L4, ONE, "ReplicaSlow", f"n{i}", at=float(i)) for i in range(MAX_REHOMINGS_PER_HOUR))
    found = decided(failing("a"), where, left=left)
    assert (shape(found), found.rehomings_spent) == ([(L4, 1, ("a",))], False)


def test_the_node_of_a_slow_replica_is_used_again_by_a_narrower_one_and_not_where_pods_cannot_run() -> None:
    """The neighbours are a node without a free GPU, and one that another cause closes as well."""
    nodes = node("full", L4, 2, held=2), node("bad", L4, 2), node("slow", L4, 2, held=1), node("more", L4, 2)
    where, names = fleet(*nodes), ("full", "bad", "slow", "more")
    slow = tuple(Rehoming(L4, Split(2), "ReplicaSlow", name, at=0.0) for name in names)
    left = (*slow, Rehoming(L4, ONE, BROKEN, "bad", at=0.0))
    wanted = request(replicas=1, node_rules=(left_rule(dict.fromkeys(names, "")),))
    assert needed_again(wanted, left, where, Ledger.of(where, {})) == ("slow",)
    known = tuple(replace(each, used_again=each.node == "slow") for each in left)
    assert needed_again(wanted, known, where, Ledger.of(where, {})) == ("more",)


def avoiding(*names: str, **changes: Any) -> Pool:
    found = pool(L4, exists=True, **{"bound": 1, "ready": 1, **changes})
    return replace(found, target=replace(found.target, avoids=names))


def test_an_engine_that_serves_is_not_restarted_because_a_node_is_forgotten() -> None:
    where = fleet(node("a", L4, 2), node("b", L4, 2, held=1))
    assert shape(decided(avoiding("a"), where)) == [(L4, 1, ("a",))]


def test_a_forgotten_node_is_tried_again_together_with_another_change() -> None:
    where = fleet(node("a", L4, 2), node("b", L4, 2, held=1))
    assert shape(decided(avoiding("a", restarts=True), where)) == [(L4, 1, ())]
    left = (Rehoming(L4, ONE, BROKEN, "a", at=0.0),)
    assert shape(decided(avoiding("a", restarts=True), where, left=left)) == [(L4, 1, ("a",))]
    of_others = (Rehoming(L40S, ONE, BROKEN, "a", at=0.0), Rehoming(L4, Split(2), BROKEN, "a", at=0.0))
    assert shape(decided(avoiding("a", restarts=True), where, left=of_others)) == [(L4, 1, ())]
    both = replace(failing("b"), target=avoiding("a").target)
    three = fleet(*where.nodes, node("c", L4, 1))
    assert shape(decided(both, three)) == [(L4, 1, ("b",))]
    assert shape(decided(both, three, left=left)) == [(L4, 1, ("a", "b"))]
    for reason in ("ReplicaSlow", "ReplicaSilent"):  # a template would keep pods off it after the hour, too
        slow = (Rehoming(L4, ONE, reason, "b", at=0.0),)
        assert shape(decided(avoiding("a", restarts=True), three, left=(*left, *slow))) == [(L4, 1, ("a",))]


def test_a_forgotten_node_is_tried_again_where_pods_wait_and_it_has_room() -> None:
    waits = {"bound": 0, "ready": 0, "stranded": 1, "obstacle": "InsufficientGpus"}
    room, none = (fleet(node("a", L4, 2, held=held), node("b", L4, 2, held=2)) for held in (0, 2))
    assert shape(decided(avoiding("a", **waits), room)) == [(L4, 1, ())]
    assert shape(decided(avoiding("a", **waits), none)) == [(L4, 1, ("a",))]


def test_a_pool_stays_off_sixteen_nodes_at_the_most() -> None:
    bad = tuple((f"n{at:02}", BROKEN) for at in range(MOST_AVOIDED + 1))
    where = fleet(*(node(name, L4, 1) for name, _ in bad), node("z", L4, 1))
    found = decided(replace(failing("n00"), bad_nodes=bad), where)
    assert shape(found) == [(L4, 1, tuple(name for name, _ in bad[:MOST_AVOIDED]))]


def test_a_node_that_was_left_is_remembered_apart_from_its_place() -> None:
    found = remembered((), [Departure(L4, ONE, BROKEN, "a"), Departure(L4, ONE, BROKEN)], 10.0)
    assert [(each.node, each.at) for each in found] == [("", 10.0), ("a", 10.0)]
    again = remembered(found, [Departure(L4, ONE, BROKEN, "a")], 20.0)
    assert [(each.node, each.at) for each in again] == [("", 10.0), ("a", 20.0)]


class Cluster:
    """Nodes of which some are broken, a scheduler that takes any node with room, and one deployment in many passes."""

    def __init__(self, nodes: list[GpuNode], broken: Mapping[str, str], pick: int) -> None:
        self.nodes, self.broken, self.pick = nodes, broken, pick
        self.left: tuple[Rehoming, ...] = ()
        self.now = 0.0
        self.pools: tuple[Pool, ...] = ()
        self.on: dict[str, str] = {}

    def fleet(self) -> Fleet:
        taken = [*self.on.values()]
        return fleet(*(replace(each, held=each.held + taken.count(each.name)) for each in self.nodes))

    def bind(self, planned: PlannedPool) -> None:
        free = [
            each.name
            for each in self.fleet().of_type(planned.gpu_type)
            if each.free and each.name not in planned.target.avoids
        ]
        if free:
            self.on[planned.name] = free[self.pick % len(free)]

    def observed(self, planned: PlannedPool) -> Pool:
        found = pool(planned.gpu_type, exists=True, bound=0)
        found = replace(found, name=planned.name, target=planned.target)
        here = self.on.get(planned.name)
        if here is None:
            return replace(found, stranded=1, obstacle="InsufficientGpus", claim=NEED)
        cause = self.broken.get(here)
        if cause is None or here in planned.target.avoids:
            return replace(found, bound=1, ready=int(cause is None))
        nodes = ((here, cause),) if cause == BROKEN else ()
        return replace(found, bound=1, failing=1, bad_nodes=nodes, obstacle=cause, claim=NEED)

    def step(self) -> Decision:
        self.now += 60.0
        causes = {each.node: each.reason for each in self.left if each.node}
        causes |= {name: cause for each in self.pools for name, cause in each.bad_nodes}
        rules = (left_rule(causes),) if causes else ()
        mine = replace(tenant(request(node_rules=rules), *self.pools), left=self.left)
        found, neighbour = plan(
            [mine, tenant(request(name="neighbour", created="9"), pool(H100, exists=True))], self.fleet()
        )
        assert [(each.gpu_type, each.replicas, each.target.avoids) for each in neighbour.pools] == [(H100, 1, ())]
        self.left = remembered(self.left, found.departures, self.now)
        active = [each for each in found.pools if each.replicas]
        self.on = {each.name: self.on[each.name] for each in active if each.name in self.on}
        for each in active:
            if self.on.get(each.name) in (None, *each.target.avoids):
                self.on.pop(each.name, None)
                self.bind(each)
        self.pools = tuple(self.observed(each) for each in active)
        return found


@given(
    st.lists(
        st.tuples(st.sampled_from([L4, L40S]), st.integers(1, 2), st.sampled_from(["", BROKEN, "GpuNotSupported"])),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 10),
)
def test_in_any_fleet_a_replica_ends_on_a_good_node_or_has_left_as_many_places_as_it_may(
    drawn: list[tuple[str, int, str]], pick: int
) -> None:
    nodes = [node(f"n{i}", kind, gpus) for i, (kind, gpus, _) in enumerate(drawn)] + [node("h", H100, 1, held=1)]
    unsupported = {kind for kind, _, cause in drawn if cause == "GpuNotSupported"}
    causes = ["GpuNotSupported" if kind in unsupported else cause for kind, _, cause in drawn]
    broken = {f"n{i}": cause for i, cause in enumerate(causes) if cause}
    cluster = Cluster(nodes, broken, pick)
    for _ in range(12):
        last = cluster.step()
        assert sum(each.replicas for each in last.pools) == 1, "never two, never none"
    good = {each.name for each in nodes} - set(broken) - {"h"}
    spent = len({(*each.place, each.node) for each in cluster.left}) >= MAX_REHOMINGS_PER_HOUR
    closed = {each.gpu_type for each in cluster.left if not each.node}
    reachable = {name for name in good if cluster.fleet().nodes and _type_of(nodes, name) not in closed}
    serves = bool(set(cluster.on.values()) & good)
    assert serves or spent or not reachable
    before = (cluster.on, cluster.left)
    cluster.step()
    assert before == (cluster.on, cluster.left) or not serves, "what serves moves no more"


def _type_of(nodes: list[GpuNode], name: str) -> str:
    return next(each.gpu.name for each in nodes if each.name == name)
