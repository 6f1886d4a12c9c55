"""Pods for nodes that do not exist yet, so that an autoscaler starts them: only of groups whose admin allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.node_groups import NodeGroup
from plimsoll.domain.units import ceil_div
from plimsoll.placement.growth import Growable, Growth, grown
from plimsoll.placement.pools import Decision, PlannedPool, Pool, PoolState, pool_name


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
        """Return the decision with replicas that wait for new nodes; the same where none may.

        Args:
            decision: what the plan decided.
            generation: the generation of the spec.
            spec: the digest of the spec's fields that change an engine.
            left: what the namespace's quotas leave.
        """
        if decision.missing <= 0 or decision.change_blocked or decision.failure:
            return decision
        taken = {pool.name for pool in decision.pools}
        found = [(group, growth) for group in self.groups if (growth := self._growth(group, decision, taken, left))]
        if not found:
            return decision
        group, growth = min(found, key=lambda each: each[1].order)
        label = group.own_label(self.fleet)
        assert label is not None  # noqa: S101 - checked with the growth
        self.awaited[group.name] += growth.nodes
        option = replace(growth.option, target=replace(growth.option.target, selector=label, other_labels=()))
        pool = PlannedPool(
            name=pool_name(option.gpu.name, option.split),
            target=option.target,
            state=PoolState.ACTIVE,
            generation=generation,
            replicas=growth.replicas,
            choice=option,
            spec=spec,
        )
        return replace(decision, pools=(*decision.pools, pool), missing=decision.missing - growth.replicas, remedies=())

    def _growth(self, group: NodeGroup, decision: Decision, taken: set[str], left: Mapping[str, int]) -> Growth | None:
        """Return what the nodes that may still be woken would take. A pool of the same name is on other nodes."""
        nodes = group.nodes_to_wake(self.fleet, self.awaited[group.name])
        if nodes <= 0 or group.own_label(self.fleet) is None:
            return None
        found = grown(decision.request, decision.missing, Growable(group, nodes), left)
        if found is None or pool_name(found.option.gpu.name, found.option.split) in taken:
            return None
        return found


def _awaited(group: NodeGroup, pools: Sequence[Pool]) -> int:
    """Return the number of the group's nodes that the pods of these pools wait for."""
    waiting = [pool for pool in pools if pool.target.selector in group.labels]
    return ceil_div(sum(max(0, pool.replicas - pool.bound) * pool.split.gpus for pool in waiting), group.gpus)
