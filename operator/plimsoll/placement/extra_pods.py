"""Pods in addition to a plan: for nodes that do not exist yet, and in place of those on nodes that will go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import ceil_div
from plimsoll.placement.advice.growth import Growable, Growth, grown
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, as_it_runs, is_at, name_of_new
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.ledger import Ledger, charged, room_in, use_of
from plimsoll.placement.options.nodes import eligible_nodes, need_of_pool


@dataclass(slots=True)
class Waker:
    """Decides for one deployment after the other which of its replicas wait for new nodes.

    ``awaited`` are the nodes of each group, by name, for which pods wait already.
    """

    groups: Sequence[NodeGroup]
    fleet: Fleet
    awaited: dict[str, int]

    @staticmethod
    def of(groups: Sequence[NodeGroup], fleet: Fleet, pools: Sequence[Pool]) -> Waker:
        """Return one for the groups that allow it. ``pools`` are those of all deployments."""
        allowed = [group for group in groups if group.most_usd_per_hour is not None]
        return Waker(allowed, fleet, {group.name: _awaited(group, pools) for group in allowed})

    def woken(self, decision: Decision, generation: int, spec: str, left: Mapping[str, int]) -> Decision:
        """Return the decision with replicas that wait for new nodes; the same if none may.

        Args:
            decision: what the plan decided.
            generation: the generation of the spec.
            spec: the digest of the spec's fields that change an engine.
            left: what the namespace's quotas leave.
        """
        if decision.missing <= 0 or decision.change_blocked or decision.failure:
            return decision
        found = [(group, growth) for group in self.groups if (growth := self._growth(group, decision, left))]
        if not found:
            return decision
        group, growth = min(found, key=lambda each: each[1].order)
        label = group.own_label(self.fleet)
        assert label is not None  # noqa: S101 - checked with the growth
        self.awaited[group.name] += growth.nodes
        option = replace(growth.option, target=replace(growth.option.target, selector=label, other_labels=()))
        pool = PlannedPool(
            name=name_of_new(option.target.place, decision.request.engine.name, decision.pools),
            target=option.target,
            state=PoolState.ACTIVE,
            generation=generation,
            replicas=growth.replicas,
            choice=option,
            spec=spec,
            engine=decision.request.engine.name,
        )
        return replace(decision, pools=(*decision.pools, pool), missing=decision.missing - growth.replicas, remedies=())

    def _growth(self, group: NodeGroup, decision: Decision, left: Mapping[str, int]) -> Growth | None:
        """Return what the nodes that may still be woken would take. A pool at the same place is on other nodes."""
        nodes = group.nodes_to_wake(self.fleet, self.awaited[group.name])
        if nodes <= 0 or group.own_label(self.fleet) is None:
            return None
        found = grown(decision.request, decision.missing, Growable(group, nodes), left)
        if found is None or any(is_at(pool.name, *found.option.target.place) for pool in decision.pools):
            return None
        return found


def _awaited(group: NodeGroup, pools: Sequence[Pool]) -> int:
    waiting = [pool for pool in pools if pool.target.selector in group.labels]
    return ceil_div(sum(max(0, pool.replicas - pool.bound) * pool.split.gpus for pool in waiting), group.gpus)


REPLACEMENT_SECONDS = 3600.0
"""How long replacements are kept for a node that does not go after all. A drain follows a cordon within minutes."""


@dataclass(frozen=True, slots=True)
class OnLeavingNodes:
    """The replicas of one pool that serve on nodes that go soon, and those that it has beyond the wanted ones."""

    serving: int
    spare: int


Replacements = tuple[tuple[str, int], ...]
"""More pods than planned, by pool."""


def replacements(
    request: Request,
    pools: Sequence[PlannedPool],
    leaving: Mapping[str, OnLeavingNodes],
    fleet: Fleet,
    ledger: Ledger,
) -> tuple[Replacements, Ledger]:
    """Return how many more pods each pool gets, and the ledger without their resources.

    A pool gets one for each of its pods that serve on a node that goes, as far as other nodes have room and the
    namespace's quotas allow it. Those that it has already stay.

    Args:
        request: the deployment.
        pools: its pools as planned.
        leaving: its pods on such nodes, by pool.
        fleet: all nodes that take pods; those that go are not among them.
        ledger: what all decisions leave free.
    """
    found: list[tuple[str, int]] = []
    if request.mounts_alone:
        return (), ledger
    for pool in pools:
        here = leaving.get(pool.name)
        if here is None or not pool.is_active:
            continue
        if pool.choice is None:  # its workload is not rendered
            continue
        wanted = min(here.serving, pool.replicas)
        kept = min(wanted, here.spare)
        more, ledger = _more(request, pool, wanted - kept, fleet, ledger)
        if kept + more > 0:
            found.append((pool.name, kept + more))
    return tuple(found), ledger


def needed_again(request: Request, left: Sequence[Rehoming], fleet: Fleet, ledger: Ledger) -> tuple[str, ...]:
    """Return the node that a deployment without room elsewhere uses again; empty if there is none.

    It is the first of ``left`` with a free GPU and where pods can run: replicas may be narrower than the slow one was.
    """
    closed = {each.node for each in left if not each.is_of_one_replica}
    asked = replace(
        request, node_rules=tuple(rule for rule in request.node_rules if rule.reason is not Reason.NODE_LEFT)
    )
    for each in left:
        here = tuple(node for node in eligible_nodes(asked, fleet, each.gpu_type) if node.name == each.node)
        if each.is_shunned and each.node not in closed and ledger.largest(here):
            return (each.node,)
    return ()


def _more(request: Request, pool: PlannedPool, wanted: int, fleet: Fleet, ledger: Ledger) -> tuple[int, Ledger]:
    """Return how many of the wanted pods have room elsewhere, and the ledger without their resources."""
    if wanted <= 0:
        return 0, ledger
    namespace, shape = request.key.namespace, pool.split.shape
    need = need_of_pool(as_it_runs(request, pool), pool.gpu_type, pool.split, fleet)
    use = use_of(request, pool.target.resource, shape, need)
    others = eligible_nodes(request, fleet, pool.gpu_type)
    reached = tuple(node for node in others if node.selector in pool.target.labels)
    admitted = room_in(ledger.quota.get(namespace, {}), use)
    room = ledger.room_for(reached, shape, need, enough=wanted)
    more = room if admitted is None else min(room, admitted)
    return more, charged(ledger.take(reached, shape, more, need), namespace, use, more)
