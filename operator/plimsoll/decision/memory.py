"""The memory of passes: answers that are used again, and the little that changes decisions.

Passes come every few seconds, and engines are scraped every 15 s or less often. A turn reads ten minutes of samples, so
a thousand objects would cost half of a core if a turn were not repeated while nothing has come that could change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, ScaleOwner
from plimsoll.decision.kept import ChangedRequests, Kept
from plimsoll.decision.outcome import Ready
from plimsoll.decision.planning import figures_of
from plimsoll.decision.room_orders import is_willing
from plimsoll.decision.turns import LoopTurn, Standing
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import MemoryEstimate
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.facts.cluster.taints import leaving_nodes
from plimsoll.placement.demands.pools import Decision, Pool, Tenant, as_it_runs
from plimsoll.placement.extra_pods import REPLACEMENT_SECONDS
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.placement.options.nodes import need_of_pool
from plimsoll.placement.proposing.proposals import Neighbours, proposals, room_for
from plimsoll.placement.proposing.running import Running
from plimsoll.placement.solvers import Stock
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import Plan, Room
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import ScheduledMinimum

LONGEST_SECONDS = 10.0
"""Bounds end by time alone, so a turn is taken at least this often."""


@dataclass(frozen=True, slots=True)
class _Last:
    asked: tuple[object, ...]
    at: float
    turn: LoopTurn


@dataclass(slots=True)
class TurnMemo:
    """The last turns, and ``memories``: what the live loop remembers of each object. Both by uid."""

    memories: dict[str, LoopMemory] = field(default_factory=dict, repr=False)
    _last: dict[str, _Last] = field(default_factory=dict, repr=False)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget objects that are gone."""
        living = set(uids)
        self._last = {uid: last for uid, last in self._last.items() if uid in living}
        self.memories = {uid: memory for uid, memory in self.memories.items() if uid in living}

    def recall(
        self, ready: Ready, decision: Decision | None, reading: Reading, orders: object, now: float
    ) -> LoopTurn | None:
        """Return the last turn if no sample, answer or order has come since, and all else is unchanged."""
        last = self._last.get(ready.deployment.identity.uid)
        if last is None or not 0 <= now - last.at < LONGEST_SECONDS or last.turn.acted:
            return None
        return last.turn if last.asked == (*_asked(ready, decision, reading), orders) else None

    def keep(
        self, ready: Ready, decision: Decision | None, reading: Reading, orders: object, turn: LoopTurn, now: float
    ) -> None:
        """Keep a turn that was taken for a deployment with this decision."""
        uid = ready.deployment.identity.uid
        self.memories[uid] = turn.standing.memory
        self._last[uid] = _Last((*_asked(ready, decision, reading), orders), now, turn)


def _asked(ready: Ready, decision: Decision | None, reading: Reading) -> tuple[object, ...]:
    """Return what a turn is taken of. Comparing is cheap: passes give back the same objects while nothing changes."""
    newest = tuple(pod.samples[-1] for pod in reading.pods.values() if pod.samples)
    load = reading.state, reading.error, newest, reading.gateway
    return ready.deployment, ready.request, decision, *load


Found = Mapping[ObjectKey, tuple[Proposal, ...]]


@dataclass(slots=True)
class Proposer:
    """Finds proposals for those who wait, and again only if something has changed that they depend on."""

    _last: tuple[tuple[object, ...], Found] | None = field(default=None, repr=False)

    def proposals(self, planned: Iterable[Ready], plan: Plan) -> Found:
        """Return the proposals of a pass for those without a place. ``planned`` are all deployments with a decision."""
        waiting = tuple(
            (plan.tenants[key], decision.pools, decision.missing)
            for key, decision in plan.decisions.items()
            if decision.missing
        )
        if not waiting:
            return {}
        running = tuple(running_of(planned, plan.left.fleet))
        asked = waiting, running, plan.left
        if self._last is None or self._last[0] != asked:
            self._last = asked, proposals(plan, running)
        return self._last[1]


def running_of(planned: Iterable[Ready], fleet: Fleet) -> Iterator[Running]:
    """Yield every replica of ours that is on a node, and not on its way out.

    A deployment that could not be planned is not among them: nobody knows what its pools need elsewhere.
    """
    prices = {gpu.name: gpu for gpu in fleet.gpu_types()}
    for ready in planned:
        placed = ready.deployment.placed
        for pool in placed.pools:
            gpu = prices.get(pool.gpu_type)
            price = None if gpu is None else hourly_price(gpu, pool.split)
            for pod in placed.around.pods.get(pool.name, ()):
                if pod.node and not pod.terminating:
                    yield Running(
                        ready.key,
                        pool.target,
                        pod.node,
                        ready.deployment.asked.priority.value,
                        price or Decimal(0),
                        need_of_pool(as_it_runs(ready.request, pool), pool.gpu_type, pool.split, fleet),
                        pod.startup_seconds,
                        pod.uid,
                    )


MOST_SEARCHES = 5
"""The most new searches in a pass. Who comes behind is searched for in one of the next passes, some seconds later."""

KEPT_PASSES = 20
"""How many passes an answer is kept that nobody asks for: most passes repeat the turns that nothing has changed."""


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer, the pass in which it was given last, and everything that it depends on."""

    lacking: Tenant
    rest: tuple[Neighbours, Stock]
    room: Room | None
    used: int


@dataclass(slots=True)
class Rooms:
    """Finds room at others. Who is decided first in a pass is searched for first."""

    _planned: Callable[[], Iterable[Ready]] = field(default=tuple, repr=False)
    _now: float = 0.0
    _neighbours: Neighbours | None = field(default=None, repr=False)
    _searches: int = 0
    _passes: int = 0
    _last: dict[ObjectKey, _Known] = field(default_factory=dict, repr=False)

    def begin(self, planned: Callable[[], Iterable[Ready]], now: float) -> None:
        """Begin a pass. ``planned`` gives all deployments with a decision; nobody asks before somebody lacks room."""
        self._planned, self._now, self._neighbours, self._searches = planned, now, None, 0
        self._passes += 1
        self._last = {key: known for key, known in self._last.items() if self._passes - known.used <= KEPT_PASSES}

    def room(self, plan: Plan, lacking: Answer) -> Room | None:
        """Return the changes of others in a plan that make room for an answer that lacks some."""
        if self._neighbours is None:
            self._neighbours = neighbours_of(self._planned(), plan.left.fleet, self._now)
        key, tenant, rest = lacking.tenant.request.key, lacking.tenant, (self._neighbours, plan.left)
        known = self._last.get(key)
        if known is not None and known.lacking != tenant:
            known = None
        if known is None or known.rest != rest:
            if self._searches >= MOST_SEARCHES:
                return None if known is None else known.room
            self._searches += 1
            known = _Known(tenant, rest, room_for(plan, lacking, self._neighbours), self._passes)
        self._last[key] = replace(known, used=self._passes)
        return known.room


def neighbours_of(planned: Iterable[Ready], fleet: Fleet, now: float) -> Neighbours:
    """Return the replicas that may move or end for others. Those of a suspended deployment stay where they are."""
    free = [ready for ready in planned if ready.deployment.spec is not None and not ready.deployment.spec.suspend]
    willing = frozenset(ready.key for ready in free if is_willing(ready.deployment, now))
    is_open = {ready.key: ready.deployment.people.opening.is_open for ready in free}
    opened = frozenset(key for key in willing if is_open[key])
    return Neighbours(tuple(running_of(free, fleet)), dict(_spare(free)), willing, opened)


def _spare(planned: Iterable[Ready]) -> Iterator[tuple[ObjectKey, int]]:
    for ready in planned:
        if ready.deployment.spec is not None:
            floor = serving_floor(ready.deployment.spec, ready.standing, ready.deployment.people.scheduled)
            yield ready.key, max(0, len(ready.deployment.placed.around.ready_pods()) - floor)


def serving_floor(spec: InferenceDeploymentSpec, standing: Standing, scheduled: Iterable[ScheduledMinimum] = ()) -> int:
    """Return how many replicas a deployment keeps whatever others need.

    One always serves on, and those that its schedule asks for now. A number that another controller or the load of all
    replicas together fixes stays whole.
    """
    if spec.rebalancing.scale is ScaleOwner.EXTERNAL:
        return max(1, standing.target_replicas)
    fixed = () if spec.total_concurrency is None else (standing.base_replicas,)
    now = (each.replicas for each in scheduled if each.opening.is_open)
    return max(1, spec.rebalancing.min_replicas, *fixed, *now)


@dataclass(slots=True)
class LeavingNodes:
    """The nodes that go soon, each with the time when this process saw it first, in POSIX seconds.

    Another process begins to count anew: a node that stays cordoned has replacements for a little longer then.
    """

    since: dict[str, float] = field(default_factory=dict)

    def look(self, fleet: Fleet, now: float) -> frozenset[str]:
        """Return the nodes that pods are replaced for. One that does not go after a time counts no longer."""
        self.since = {name: min(now, self.since.get(name, now)) for name in leaving_nodes(fleet)}
        return frozenset(name for name, at in self.since.items() if now - at < REPLACEMENT_SECONDS)

    def ends(self) -> Iterator[float]:
        """Yield when a node counts no longer, in POSIX seconds."""
        return (at + REPLACEMENT_SECONDS for at in self.since.values())


@dataclass(frozen=True, slots=True)
class _Estimated:
    """The estimate of what runs, and what it was made from."""

    request: Request
    pools: tuple[Pool, ...]
    fleet: Fleet
    figures: MemoryEstimate | None


@dataclass(slots=True)
class Memory:
    """The answers of earlier passes for the next ones. Not thread-safe: one pass is made at a time.

    Two parts change decisions, and a new process begins without them: what the live loop remembers of each deployment
    (``turns.memories``), and since when nodes are about to go (``leaving``). All else saves time: it is used again
    while all that it was found from is equal. Two answers may be a little old: a turn is repeated for ten seconds while
    nothing has come, and a look for room at others waits for a later pass if many ask.

    Attributes:
        estimates: estimates, demands and remedies.
        turns: the last turns of the live loop, and its memories.
        rooms: the changes of others that would make room for a change of the live loop.
        proposer: the proposals of the last pass.
        leaving: the nodes that go soon.
        requests: requests with what engines taught.
    """

    estimates: Memo = field(default_factory=Memo)
    turns: TurnMemo = field(default_factory=TurnMemo)
    rooms: Rooms = field(default_factory=Rooms)
    proposer: Proposer = field(default_factory=Proposer)
    leaving: LeavingNodes = field(default_factory=LeavingNodes)
    requests: ChangedRequests = field(default_factory=ChangedRequests)
    _estimated: Kept[_Estimated] = field(default_factory=Kept)

    def begin(self) -> None:
        """Begin a pass: drop what the last pass did not use."""
        self.requests.begin()
        self._estimated.begin()

    def figures(self, ready: Ready, fleet: Fleet) -> MemoryEstimate | None:
        """Return the estimate of what runs of a deployment."""
        uid, pools = ready.deployment.identity.uid, ready.deployment.placed.pools
        known = self._estimated.get(uid)
        same = known is not None and known.request is ready.request and known.fleet is fleet
        if known is None or not same or known.pools != pools:
            figures = figures_of(ready.request, pools, fleet, self.estimates)
            known = _Estimated(ready.request, pools, fleet, figures)
        return self._estimated.put(uid, known).figures
