"""The proposals of a pass: for each deployment that waits, what would make room for it.

Room for one more replica of a deployment that runs: the changes of others, checked by planning after them.

The proposals are those for a deployment that waits. Each is applied to a copy of the ledger, and the deployment is
planned again on it. So a proposal that makes no room in the end is not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.host import NO_HOST_NEED, HostRoom
from plimsoll.domain.decisions.proposals import Change, Proposal, Share
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.costs import LEAST_SECONDS as LEAST_MOVE_SECONDS
from plimsoll.placement.demands.draining import LEAST_SECONDS as LEAST_DRAIN_SECONDS
from plimsoll.placement.demands.pools import Decision, Tenant, active, replicas_by_name
from plimsoll.placement.demands.rehoming import still_open
from plimsoll.placement.ledger import Ledger, Taken
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.proposing.defragmentation import defragmentation
from plimsoll.placement.proposing.preemption import Spare, Waiting, preemption
from plimsoll.placement.proposing.running import Running
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import Plan, Room

MOST_WAITING = 5
"""The most deployments that proposals are looked for in one pass, the first in the order of decisions. Who comes behind
them would be served after them anyway."""


def proposals(plan: Plan, running: Sequence[Running]) -> Mapping[ObjectKey, tuple[Proposal, ...]]:
    """Return what would make room, by the deployment that waits. Two proposals may exclude each other.

    Moves come before preemption, since they take nothing from anybody.
    """
    waiting = [
        (plan.tenants[key], decision)
        for key, decision in plan.decisions.items()
        if decision.missing and not decision.failure and not plan.tenants[key].suspended
    ]
    found = {
        tenant.request.key: proposals_for(tenant, decision, plan, running)
        for tenant, decision in waiting[:MOST_WAITING]
    }
    return {key: each for key, each in found.items() if each}


def proposals_for(
    tenant: Tenant, decision: Decision, plan: Plan, running: Sequence[Running], spare: Spare | None = None
) -> tuple[Proposal, ...]:
    """Return what would make room for the replicas of one deployment that a plan has no place for.

    ``spare`` is how many replicas others can do without; None: all of them.
    """
    fleet, ledger = plan.left.fleet, plan.left.ledger
    request = decision.request
    closed = [each.place for each in tenant.left]
    judged = options(request, fleet, plan.adviser.memo).verdicts
    waiting = Waiting(
        request=request,
        missing=decision.missing,
        options=tuple(still_open(judged, closed)),
        priority=tenant.priority.value,
        before=tuple(Share(pool.target, pool.replicas) for pool in active(decision.pools)),
    )
    owners = {key: each.request for key, each in plan.tenants.items()}
    moved = defragmentation(waiting, running, owners, fleet, ledger)
    ended = preemption(waiting, running, fleet, ledger, spare) if tenant.priority.preempts else None
    return tuple(each for each in (moved, ended) if each is not None)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The replicas that run on nodes, and how many of them each deployment can do without.

    ``willing`` are the deployments that let an approval of somebody else's proposal move or end replicas of theirs, and
    ``open`` those of them that may begin now.
    """

    running: tuple[Running, ...] = ()
    spare: Spare = field(default_factory=dict)
    willing: frozenset[ObjectKey] = frozenset()
    open: frozenset[ObjectKey] = frozenset()

    def willing_for(self, key: ObjectKey) -> tuple[Running, ...]:
        """Return the replicas of those that are willing, but for those of the deployment that needs the room."""
        return tuple(each for each in self.running if each.owner in self.willing and each.owner != key)


def room_for(plan: Plan, lacking: Answer, neighbours: Neighbours) -> Room | None:
    """Return the changes of others that make room for an answer of this plan that lacks some; None: there are none.

    Moves come before preemption, since they take nothing from anybody. Changes that an approval has carried out come
    before those that people have to make.
    """
    willing = neighbours.willing_for(lacking.tenant.request.key)
    room = _room_of(plan, lacking, willing, neighbours.spare) if willing else None
    if room is not None:
        is_open = all(each.owner in neighbours.open for each in room.proposal.changes)
        return replace(room, proposal=replace(room.proposal, by_loop=True), is_open=is_open)
    if len(willing) == len(neighbours.running):
        return None
    return _room_of(plan, lacking, neighbours.running, neighbours.spare)


def _room_of(plan: Plan, lacking: Answer, running: Sequence[Running], spare: Spare) -> Room | None:
    found = proposals_for(lacking.tenant, lacking.decision, plan.adopted(lacking), running, spare)
    rooms = (_checked(plan, lacking, proposal, running) for proposal in found)
    return next((room for room in rooms if room is not None), None)


def _checked(plan: Plan, lacking: Answer, proposal: Proposal, running: Iterable[Running]) -> Room | None:
    """Return the room that a proposal makes; None if the deployment would still lack some."""
    ledger = _after(proposal.changes, running, plan.left.fleet, plan.left.ledger)
    then = replace(plan, left=replace(plan.left, ledger=ledger)).ask(lacking.tenant).decision
    if then.missing or then.change_blocked:
        return None
    after = (*proposal.before, *_new_shares(lacking.decision, then))
    return Room(replace(proposal, after=after), then, max(map(round, _waits(plan, proposal.changes, running))))


def _new_shares(now: Decision, then: Decision) -> Iterator[Share]:
    known = replicas_by_name(now.pools)
    for pool in active(then.pools):
        more = pool.replicas - known.get(pool.name, 0)
        if more > 0:
            yield Share(pool.target, more)


def _after(changes: Iterable[Change], running: Iterable[Running], fleet: Fleet, ledger: Ledger) -> Ledger:
    """Return the ledger once replicas have left their nodes and stand on others."""
    for change, leaves in _with_running(changes, running):
        old = _taken(change, change.node, leaves, fleet, ledger)
        ledger = ledger if old is None else old.given_back_to(ledger)
        new = None if change.to is None else _taken(change, change.to, leaves, fleet, ledger)
        ledger = ledger if new is None else new.taken_from(ledger)
    return ledger


def _taken(change: Change, name: str, leaves: Running | None, fleet: Fleet, ledger: Ledger) -> Taken | None:
    """Return what the replicas of a change take on one node; None if the node takes no part any more."""
    nodes, count = fleet.of_type(change.leaving.target.gpu_type), change.leaving.replicas
    node = next((node for node in nodes if node.name == name), None)
    if node is None:
        return None
    need = NO_HOST_NEED if leaves is None else leaves.need
    room = HostRoom(0, 0, 0, ()).without(need, -count)
    hosts = {name: room} if name in ledger.hosts else {}
    return Taken({node.account: count * change.leaving.target.split.shape.gpus_per_pod}, hosts, {})


def _waits(plan: Plan, changes: Iterable[Change], running: Iterable[Running]) -> Iterator[float]:
    """Yield the seconds until each change has freed its GPUs. A moved replica serves elsewhere before it ends here."""
    for change, leaves in _with_running(changes, running):
        starts = LEAST_MOVE_SECONDS if leaves is None else leaves.startup_seconds or LEAST_MOVE_SECONDS
        yield _drain_seconds(plan, change) + (0 if change.to is None else starts)


def _drain_seconds(plan: Plan, change: Change) -> int:
    tenant = plan.tenants.get(change.owner)
    pools = () if tenant is None else tenant.pools
    seconds = (pool.drain_seconds for pool in pools if pool.target == change.leaving.target)
    return next((each for each in seconds if each is not None), LEAST_DRAIN_SECONDS)


def _with_running(changes: Iterable[Change], running: Iterable[Running]) -> Iterator[tuple[Change, Running | None]]:
    """Yield each change with a replica of those that leave, if one is known."""
    known = {(each.owner, each.target, each.node): each for each in running}
    return ((change, known.get((change.owner, change.leaving.target, change.node))) for change in changes)
