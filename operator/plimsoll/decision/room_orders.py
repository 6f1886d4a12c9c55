"""The orders to make room that count now, and what they ask of each deployment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from plimsoll.api.v1alpha1 import MovesMode, RebalancingMode
from plimsoll.decision.deployment import Deployment
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.placement.transition.hypothesis import Plan
from plimsoll.rebalance.state.room import ROOM_SECONDS, Asked, Leaving, RoomOrder, RoomProgress, rests

NOT_THERE = None, None


def is_willing(deployment: Deployment, now: float) -> bool:
    """Whether a deployment lets an approval of somebody else's proposal move or end replicas of it.

    Its owner lets the live loop move it without asking anybody, all its replicas are at one place, and no such move of
    it has failed of late.
    """
    spec, request, placed = deployment.spec, deployment.asked.request, deployment.placed
    if spec is None or spec.suspend or request is None or request.mounts_alone:
        return False
    if len(placed.pools) != 1:
        return False
    given = spec.rebalancing
    is_auto = given.mode is RebalancingMode.AUTO and given.moves is not MovesMode.RECOMMEND
    return is_auto and not rests(deployment.record.history, now)


@dataclass(frozen=True, slots=True)
class RoomOrders:
    """The orders that statuses keep, by the deployment that needs the room, with the progress of each.

    ``pods`` are those that are still there, by uid, each with its deployment.
    """

    orders: Mapping[ObjectKey, tuple[Deployment, RoomOrder, RoomProgress]] = field(default_factory=dict)
    pods: Mapping[str, tuple[Deployment, PodFacts]] = field(default_factory=dict)

    @staticmethod
    def of(deployments: Iterable[Deployment], now: float) -> RoomOrders:
        """Read them. ``now`` is in POSIX seconds."""
        deployments = tuple(deployments)
        found = {each.key: (each, order) for each in deployments if (order := each.record.room) is not None}
        if not found:
            return RoomOrders()
        wanted = {leaving.pod for _, order in found.values() for leaving in order.leaving}
        there = ((each, pod) for each in deployments for pods in each.placed.around.pods.values() for pod in pods)
        pods = {pod.uid: (each, pod) for each, pod in there if pod.uid in wanted}
        return RoomOrders({key: (*each, _progress(*each, pods, now)) for key, each in found.items()}, pods)

    def about(self, deployment: Deployment) -> tuple[Asked | None, RoomProgress | None]:
        """Return the pod of a deployment that makes room for another one, and the progress of its own order.

        The one that is on its way comes first, so that it is the same until it has left.
        """
        own = self.orders.get(deployment.key)
        replacing = deployment.record.replacing
        asked = sorted(self._asked_of(deployment), key=lambda each: replacing is None or each.pod != replacing.pod)
        return next(iter(asked), None), None if own is None else own[2]

    def _asked_of(self, deployment: Deployment) -> Iterator[Asked]:
        for key, (_, order, progress) in sorted(self.orders.items()):
            for leaving in () if progress.why else order.leaving:
                owner, pod = self.pods.get(leaving.pod, NOT_THERE)
                if owner is not None and pod is not None and owner.key == deployment.key and pod.ready:
                    whom = key.name if key.namespace == deployment.key.namespace else "another deployment"
                    yield Asked(pod.name, pod.node, whom, leaving.ends)

    def held(self, plan: Plan) -> Plan:
        """Return a plan that leaves nothing to the loop's wishes on nodes where room is being made."""
        counting = (order for _, order, progress in self.orders.values() if not progress.why)
        nodes = {leaving.node for order in counting for leaving in order.leaving}
        free = {node.account: 0 for node in plan.left.fleet.nodes if node.name in nodes}
        return replace(plan, left=replace(plan.left, ledger=plan.left.ledger.with_amounts(free, {}))) if free else plan


def _progress(
    needs: Deployment, order: RoomOrder, pods: Mapping[str, tuple[Deployment, PodFacts]], now: float
) -> RoomProgress:
    there = [(each, pods[each.pod][0]) for each in order.leaving if each.pod in pods]
    return RoomProgress(len(there), _why_not(needs, order, there, now))


def _why_not(needs: Deployment, order: RoomOrder, there: Sequence[tuple[Leaving, Deployment]], now: float) -> str:
    """Return why an order counts no longer; empty while it does."""
    spec, pending = needs.spec, needs.people.pending
    if spec is None or spec.suspend or spec.rebalancing.mode is RebalancingMode.OFF:
        return "the live loop is off"
    if order.generation != needs.identity.generation:
        return "the spec has changed"
    votes = () if pending is None else pending.votes
    approved = any(each.uid == order.approval and each.approves and each.proposal == order.proposal for each in votes)
    if not approved or not order.is_as_approved:
        return "its approval is gone"
    if max(0.0, now - order.began) >= ROOM_SECONDS:
        return "it took too long"
    if not all(_may_end(needs, owner) for leaving, owner in there if leaving.ends):
        return "its priority does not let it take the place of others any more"
    if not all(is_willing(owner, now) for _, owner in there):
        return "a replica of another deployment did not move, or its owner does not let it any more"
    return ""


def _may_end(needs: Deployment, deployment: Deployment) -> bool:
    """Whether an admin lets a deployment ask for the GPUs of another one."""
    ours, theirs = needs.asked.priority, deployment.asked.priority
    return ours.preempts and ours.value > theirs.value
