"""The data that a status is rendered from: the plan's decision and the state of the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll.domain.decisions.observations import Seen
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.engines.failures import EngineFailure
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.public_words import LiveTrouble, PublicWord
from plimsoll.domain.requests.routing import RouterView, RoutingMode
from plimsoll.domain.requests.serving import ObservedCapacity
from plimsoll.domain.requests.weights import WeightsView
from plimsoll.placement.demands.clocks import MoveClock, RetuneClock
from plimsoll.placement.demands.failed_moves import FailedMove
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.options.engine_offer import EngineOffer
from plimsoll.rebalance.inbox import AnsweredProposals
from plimsoll.rebalance.state.history import ChangeRecord
from plimsoll.rebalance.state.memory import Learned
from plimsoll.rebalance.state.replacement import Replacement
from plimsoll.rebalance.state.room import RoomOrder
from plimsoll.status.record.decisions import DecisionNote


@dataclass(frozen=True, slots=True)
class PoolView:
    """The pods of one pool: how many exist, serve or wait for a node (with the scheduler's message), and one's failure.

    ``failed_on`` is the node of that failure. ``waits_for`` is the scheduler's message in plain
    words. ``updating`` means that replicas with the settings of the last change are still to come.
    ``kv_tokens_predicted`` was predicted at ``predicted_at_generation`` of the spec; it stays known when the pool
    proves too small. ``hides_cache`` means that its engines report their load and not the size of their KV cache.
    ``served`` is whether an engine was seen to serve at that generation. ``starting_since`` is since when the oldest of
    its pods that do not serve starts, in POSIX seconds; None if there is none. ``rejected`` are the words about
    kubelets that reject its pods; ``accepted`` pods were not rejected, and ``next_try`` is when another one is made.
    ``queued`` of the pods without a node wait for a ``queue`` of Kueue. ``engine`` is the one that the pool had before
    this pass.
    """

    name: str
    pods: int = 0
    ready: int = 0
    unbound: int = 0
    scheduler_message: str = ""
    waits_for: str = ""
    failure: EngineFailure | None = None
    failed_on: str | None = None
    restarts: int = 0
    workload_error: str = ""
    kv_tokens_reported: int | None = None
    host_tokens_reported: int | None = None
    engine: str = DEFAULT_ENGINE
    kv_tokens_predicted: int | None = None
    predicted_at_generation: int | None = None
    updating: bool = False
    served: bool = False
    hides_cache: bool = False
    starting_since: float | None = None
    rejected: str = ""
    accepted: int = 0
    next_try: float | None = None
    queued: int = 0
    queue: str = ""


@dataclass(frozen=True, slots=True)
class DeploymentProblem:
    """The reason for no plan: the object or its model is unusable (``permanent``), or a source did not answer.

    A problem that mostly ends sooner than ``reported_after_seconds`` is not worth a write until then.
    """

    reason: PublicWord
    message: str
    permanent: bool
    reported_after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RebalancingReport:
    """The live loop's decision, already in words, its changes, the replacement under way, and what it learned.

    ``trouble`` is what is wrong while the deployment serves; None: nothing is, or nothing was diagnosed.
    """

    decision: str
    reason: str
    message: str
    proposal: str | None = None
    base_replicas: int | None = None
    target_replicas: int | None = None
    changes: tuple[ChangeRecord, ...] = ()
    last_change: str | None = None
    learned: Learned | None = None
    diagnosis: str | None = None
    proposal_id: str | None = None
    approved: bool = False
    answered: AnsweredProposals = field(default_factory=AnsweredProposals)
    hints: tuple[str, ...] = ()
    trouble: LiveTrouble | None = None
    replacing: Replacement | None = None
    room: RoomOrder | None = None


@dataclass(frozen=True, slots=True)
class RoutingReport:
    """The router of a deployment: its mode, how it runs, and whether it has host names of its own at a Gateway.

    ``is_due``: the Gateway's controller should have answered for the route by now. ``picker_tls``: the picker expects
    a Gateway to ask it by TLS.
    """

    mode: RoutingMode
    router: RouterView
    has_hostnames: bool = False
    is_due: bool = False
    picker_tls: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The data of one status: a ``decision``, or the ``problem`` that prevents one.

    ``too_small`` are the placements whose engines hold less KV cache than the load needs there.
    ``replacing`` more pods start before the nodes ``leaving`` go; if it is zero, all replicas move away from these.
    ``awaits`` are the groups whose new nodes pods wait for.
    ``refused`` is the API server's own message about an object of ours that it refuses, ``router_refused`` about one of
    a router. ``refusal_passes`` is whether it may accept the same object later. ``contested`` names who else keeps
    changing the number of replicas of one of our Deployments. ``size_digest`` is the digest of the spec for which a
    size is chosen; None if the user declares the size. ``move`` is under way, and ``failed_moves`` are the places that
    did not come up before. ``late`` is a new pool that should serve by now, and whose move cannot be taken back.
    ``retune`` is a change of settings that the live loop made and that is under way, and ``retune_due`` when it is
    taken back (POSIX seconds). ``late_updates`` are pools whose replicas with a new template should serve by now.
    ``asleep`` says why no replica is wanted and what starts one, if the live loop decided that. ``left_out`` names GPUs
    of the fleet that take no part, and ``coming`` names new nodes that may still be of use; empty if there is none.
    ``weights`` is the copy on a claim. ``kept`` says why another number of replicas is wanted than the spec names, if
    no live loop decides it. ``engines`` are the engines that were compared, the one that is taken first; empty if the
    status keeps what it says, and None if the spec names its engine.
    """

    name: str
    generation: int
    replicas: int
    decision: Decision | None = None
    too_small: tuple[ObservedCapacity, ...] = ()
    replacing: int = 0
    leaving: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()
    problem: DeploymentProblem | None = None
    model: ModelFacts | None = None
    engine_version: str = ""
    pools: tuple[PoolView, ...] = field(default=())
    suspended: bool = False
    name_conflict: str = ""
    observations: tuple[Seen, ...] = ()
    rebalancing: RebalancingReport | None = None
    rebalancing_off: bool = False
    routing: RoutingReport | None = None
    spec_digest: str = ""
    size_digest: str | None = None
    refused: str = ""
    router_refused: str = ""
    refusal_passes: bool = False
    contested: str = ""
    rehomings: tuple[Rehoming, ...] = ()
    move: MoveClock | None = None
    failed_moves: tuple[FailedMove, ...] = ()
    late: Pool | None = None
    retune: RetuneClock | None = None
    retune_due: float | None = None
    late_updates: frozenset[str] = frozenset()
    decisions: tuple[DecisionNote, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    namespace: str = ""
    asleep: str = ""
    left_out: str = ""
    coming: str = ""
    weights: WeightsView | None = None
    kept: str = ""
    engines: tuple[EngineOffer, ...] | None = None

    def predicted_tokens(self, pool: PlannedPool) -> int | None:
        """The KV tokens of one replica as predicted when the spec was last planned.

        Later reports of engines correct later estimates. They must not make a wrong estimate look right.
        """
        view = self.view(pool.name)
        if pool.choice is None or (view.kv_tokens_predicted and view.predicted_at_generation == pool.generation):
            return view.kv_tokens_predicted
        return pool.choice.estimate.kv_capacity_tokens

    def reported_tokens(self, pool: PlannedPool) -> int | None:
        """The KV tokens of one replica as its engine reports; None: it has not, or the pool gets another engine."""
        view = self.view(pool.name)
        return view.kv_tokens_reported if view.engine == pool.engine else None

    def reported_in_host(self, pool: PlannedPool) -> int | None:
        """The tokens that one replica keeps in host memory, as its engine reports; None as above."""
        view = self.view(pool.name)
        return view.host_tokens_reported if view.engine == pool.engine else None

    def has_served(self, pool: PlannedPool) -> bool:
        """Whether an engine of the pool has served under the spec that the pool was last planned for.

        In the pass that plans the pool again, its pods still have the old settings.
        """
        view = self.view(pool.name)
        return view.predicted_at_generation == pool.generation and (
            view.served or (view.ready > 0 and not view.updating)
        )

    def wanted_pods(self, pool: str) -> int:
        """The pods that the decision wants of one pool."""
        pools = () if self.decision is None else self.decision.pools
        return sum(each.split.shape.pods_of(each.replicas) for each in pools if each.name == pool)

    def view(self, pool: str) -> PoolView:
        """The pods of one pool; an empty view if none exist yet."""
        return next((view for view in self.pools if view.name == pool), None) or PoolView(pool)
