"""One InferenceDeployment at one moment: what its object says, what was read for it, and what runs of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from plimsoll.api.v1alpha1 import InferenceDeployment, InferenceDeploymentSpec, RebalancingMode, ScaleOwner
from plimsoll.decision.spec_digests import SpecDigests
from plimsoll.decision.surroundings import Surroundings, engine_of_pod
from plimsoll.domain.cluster.priorities import NO_PRIORITY, Priority
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.requests.weights import WeightsView
from plimsoll.domain.units import counted
from plimsoll.placement.demands.clocks import MoveClock, RetuneClock
from plimsoll.placement.demands.failed_moves import FailedMove
from plimsoll.placement.demands.pools import Pool, active
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.rebalance.inbox import PendingProposals
from plimsoll.rebalance.state.allowance import Opening
from plimsoll.rebalance.state.policy import ScheduledMinimum
from plimsoll.render.placement_proposals import Owner
from plimsoll.status.record.acknowledged import AskedAcknowledgement
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import DeploymentProblem

LEAST_CHANGES = 3
"""Changes of ``spec.replicas`` within an hour that make a contest. One or two are a person's or a deployment tool's."""

_QUOTED_CHARACTERS = 800


@dataclass(frozen=True, slots=True)
class Identity:
    """Which object, and which version of its spec.

    Attributes:
        key: namespace and name.
        uid: Kubernetes' identity of the object.
        generation: the number of its spec.
        created_at: when the object was made, in RFC 3339.
        digests: they change with the parts of the spec on which a decision depends.
    """

    key: ObjectKey
    uid: str
    generation: int
    created_at: str
    digests: SpecDigests


@dataclass(frozen=True, slots=True)
class Asked:
    """The spec of a deployment and its facts, as far as they could be read.

    Attributes:
        replicas: what the object itself declares, for the status of a deployment without a request.
        resource: the parsed object; None if it cannot be parsed, or waits for its turn.
        model: the facts of its model; None if they are not known yet.
        request: what the planner is asked; None if ``problem`` says why not.
        priority: its place in the order of decisions.
        problem: why it cannot be planned.
        teaches: whether others can rely on what its engines report.
        weights: the copy of the weights on a claim as it is now; None: none is asked for.
        chooses_engine: whether the planner chooses the engine. While pools exist, ``resource`` names theirs.
    """

    replicas: int
    resource: InferenceDeployment | None = None
    model: ModelFacts | None = None
    request: Request | None = None
    priority: Priority = NO_PRIORITY
    problem: DeploymentProblem | None = None
    teaches: bool = False
    weights: WeightsView | None = None
    chooses_engine: bool = False


@dataclass(frozen=True, slots=True)
class PlacedPools:
    """The pools of a deployment as they run, and the changes that are under way.

    Attributes:
        around: pods and Deployments by pool.
        pools: the pools as decided, with the state of their pods.
        left: the places that pods have left within the hour.
        failed: the places, and the settings of engines, that did not come up and are not tried again yet.
        move: the clock of the move that is under way.
        is_late: whether that clock has run out.
        retune: the clock of the change of engines' settings that is under way.
        retune_due: when those engines must serve, in POSIX seconds.
        held_back: how many replicas a pool may have while kubelets reject its pods.
    """

    around: Surroundings
    pools: tuple[Pool, ...] = ()
    left: tuple[Rehoming, ...] = ()
    failed: tuple[FailedMove, ...] = ()
    move: MoveClock | None = None
    is_late: bool = False
    retune: RetuneClock | None = None
    retune_due: float | None = None
    held_back: tuple[tuple[str, int], ...] = ()

    @property
    def active(self) -> tuple[Pool, ...]:
        """The pools that are not on their way out."""
        return tuple(active(self.pools))

    @property
    def engines(self) -> dict[str, str]:
        """The engine of each ready pod of these pools by the pod's name: the one it was started with, if that is known.

        While a pool gets another engine, pods of both are in it.
        """
        pods = ((pool, pod) for pool in self.pools for pod in self.around.pods.get(pool.name, ()) if pod.ready)
        return {pod.name: engine_of_pod(pod, pool) for pool, pod in pods}

    @property
    def of_other_engines(self) -> frozenset[str]:
        """The ready pods that still run the engine that their pool had before."""
        pods = ((pool, pod) for pool in self.pools for pod in self.around.pods.get(pool.name, ()))
        return frozenset(pod.name for pool, pod in pods if pod.ready and engine_of_pod(pod, pool) != pool.engine)


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """One refused write: ``what`` was requested, for which ``pool``, and ``since`` when (POSIX seconds).

    ``pool`` is empty if something other than a workload was refused: then no workload of the object is made, unless it
    is ``of_router``, whose objects come after the workloads.
    ``is_passing`` means that no person has to fix anything: the server answered "not now" during all tries of one
    write.
    """

    what: str
    pool: str
    status: int
    message: str
    since: float
    is_passing: bool = False
    of_router: bool = False

    def since_by_pool(self, pools: Iterable[str]) -> dict[str, float]:
        """Since when these pools have been without a workload because of it, in POSIX seconds."""
        return {} if self.of_router else {pool: self.since for pool in pools if self.pool in ("", pool)}

    def sentence(self) -> str:
        """For the status."""
        return f"The API server refused to {self.what}: {self.message[:_QUOTED_CHARACTERS]}"


@dataclass(frozen=True, slots=True)
class Contest:
    """Changes of one Deployment's number of replicas by others."""

    workload: str
    manager: str
    count: int
    wanted_by_them: int
    last_at: float
    answer_at: float

    def sentence(self, ours: int) -> str:
        """A sentence for the status."""
        return (
            f"{self.manager} set spec.replicas of Deployment {self.workload} to {self.wanted_by_them} "
            f"({counted(self.count, 'time')} within 10 minutes); Plimsoll wants {ours} and sets it back with growing "
            "pauses."
        )


@dataclass(frozen=True, slots=True)
class Writes:
    """The writes that this process knows of, to the objects of one deployment, by itself and by others.

    Attributes:
        is_under_way: whether an earlier decision is being written.
        refusal: what the API server refused last.
        contests: changes of a Deployment's replicas by others, by pool.
        came_back: whether the spec was changed and changed back since the status was written.
        is_contested: whether others keep changing ``spec.replicas``.
    """

    is_under_way: bool = False
    refusal: RefusedWrite | None = None
    contests: tuple[tuple[str, Contest], ...] = ()
    came_back: bool = False
    is_contested: bool = False


@dataclass(frozen=True, slots=True)
class People:
    """The will of people: the windows and the schedule of the spec at this hour, and the answers to proposals.

    ``pending`` is None if nobody can approve anything. ``acknowledging`` are the approvals that acknowledge findings,
    the oldest first; None if they are not known.
    """

    opening: Opening = field(default_factory=Opening)
    scheduled: tuple[ScheduledMinimum, ...] = ()
    pending: PendingProposals | None = None
    acknowledging: tuple[AskedAcknowledgement, ...] | None = None


@dataclass(frozen=True, slots=True)
class Deployment:
    """One InferenceDeployment: its ``identity``, its status as a ``record``, what is ``asked``, and what is ``placed``.

    ``is_faulty`` means that an earlier exception still stands: nothing of the deployment is changed.
    """

    identity: Identity
    record: Record
    placed: PlacedPools
    asked: Asked
    writes: Writes = field(default_factory=Writes)
    people: People = field(default_factory=People)
    is_faulty: bool = False

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.identity.key

    @property
    def spec(self) -> InferenceDeploymentSpec | None:
        """The spec as the user wrote it; None if it cannot be parsed."""
        return None if self.asked.resource is None else self.asked.resource.spec

    @property
    def owner(self) -> Owner:
        """The object as the owner of its proposals."""
        return Owner(self.identity.key, self.identity.uid, self.identity.generation)

    @property
    def is_judged(self) -> bool:
        """Whether the placement was planned for this spec. If not, the plan replaces it, and nothing is moved."""
        return all(pool.generation == self.identity.generation for pool in self.placed.active)

    @property
    def inference_pool(self) -> str:
        """The InferencePool whose gateway's queue counts; empty if there is none or the live loop is off."""
        given = None if self.spec is None else self.spec.rebalancing
        if given is None or given.gateway is None or given.mode is RebalancingMode.OFF:
            return ""
        return given.gateway.inference_pool

    @property
    def is_routed(self) -> bool:
        """Whether the queue of a router of its own counts."""
        return (
            self.spec is not None
            and self.spec.routing.has_router
            and self.spec.rebalancing.mode is not RebalancingMode.OFF
        )

    @property
    def has_signals(self) -> bool:
        """Whether there is anything to read: engines that serve, or the queue of a gateway or router."""
        return bool(self.placed.around.ready_pods() or self.inference_pool or self.is_routed)

    @property
    def is_scaled_by_others(self) -> bool:
        """Whether others keep changing the number of replicas that the live loop decides."""
        if self.spec is None or not self.writes.is_contested:
            return False
        given = self.spec.rebalancing
        return given.mode is RebalancingMode.AUTO and given.scale is not ScaleOwner.EXTERNAL
