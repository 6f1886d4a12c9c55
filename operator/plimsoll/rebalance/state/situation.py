"""The facts that the live loop decides from, for one deployment at one moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from plimsoll.domain.public_words import Numbers
from plimsoll.placement.demands.clocks import LEAST_SECONDS
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.options.engine_limits import OtherStep
from plimsoll.rebalance.law.capacity import ReplicaModel
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.traffic import PodLoad
from plimsoll.rebalance.state.allowance import Allowance
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import RebalancePolicy
from plimsoll.rebalance.state.replacement import Replacement
from plimsoll.rebalance.state.room import Asked


@dataclass(frozen=True, slots=True)
class DeclaredNeed:
    """The load that one replica must carry, as declared now.

    ``kv_tokens`` is the KV cache that it needs (0: no minimum). ``bytes_per_gpu`` is the memory that the memory law
    expects on the placed GPU type and split.
    """

    kv_tokens: int
    bytes_per_gpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """The engines of a placement as they run.

    Attributes:
        model: the speed of one replica. None: unknown; then the KV cache and the queue decide.
        most_sequences: the most requests at the same time that the engine could be given. None: unknown, or other
            settings did not come up here and are not tried again yet; then the number stays.
        steps: finds the other steps that the engines could be given. It is asked only if one of them may help.
        moving: an old pool still serves in place of a new one. The signals then describe both pools, so nothing is
            decided until the move is over.
        retuning: engines get other settings by the live loop's decision, and have time to serve with these.
        rolling: engines are replaced by others with another template, whoever decided that.
        generates: the engines generate. What pools leaves nothing in the KV cache by which load shows.
    """

    model: ReplicaModel | None = None
    most_sequences: int | None = None
    steps: Callable[[], tuple[OtherStep, ...]] = field(default=tuple, compare=False, repr=False)
    moving: bool = False
    retuning: bool = False
    rolling: bool = False
    generates: bool = True


@dataclass(frozen=True, slots=True)
class Serving:
    """One ready pod: its name, its node, and since when it serves and has that node (POSIX seconds; None: unknown)."""

    pod: str
    node: str
    since: float | None = None
    bound_since: float | None = None


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A pod that does not serve yet, since when it has a node or found none (POSIX seconds), and what is said of it.

    ``failures``: 0 if none is known, 1 if a container ended once and may start yet, 2 if one cannot run, or ended more
    often.
    """

    since: float
    words: str = ""
    failures: int = 0


@dataclass(frozen=True, slots=True)
class PlacementState(Engines):
    """The current placement.

    Attributes:
        replicas: replicas that are wanted now.
        ready: those that serve.
        kv_capacity_tokens: the predicted KV cache of one replica. It is assumed for a replica that reports none.
        budget_bytes_per_gpu: the memory that one GPU of the placed type gives.
        starting_since: POSIX seconds since when each replica starts that does not serve yet.
        failing_since: the same of those whose engine has failed or was started again.
        first_start_seconds: how long a replica without a failure may start while no start-up was seen.
        settled_since: POSIX seconds since when the newest of the ready replicas serves; None: unknown.
        startup_seconds: the longest start-up of a pod that serves; None: unknown.
        new_replicas: those of ``replicas`` that the plan has just placed or has no place for.
        has_states: the model keeps a recurrent state in the KV cache.
        updating: replicas with older settings are replaced one after another, so there is one more than wanted.
        serving: the ready pods.
        newcomers: the pods that do not serve yet, without those that wait for a queue.
    """

    replicas: int
    ready: int
    kv_capacity_tokens: int
    budget_bytes_per_gpu: int
    starting_since: tuple[float, ...] = ()
    failing_since: tuple[float, ...] = ()
    first_start_seconds: float = LEAST_SECONDS
    settled_since: float | None = None
    startup_seconds: float | None = None
    new_replicas: int = 0
    updating: bool = False
    has_states: bool = False
    serving: tuple[Serving, ...] = ()
    newcomers: tuple[Newcomer, ...] = ()

    def node_of(self, pod: str) -> str:
        """Return the node of a ready pod; empty if it is not known."""
        return next((each.node for each in self.serving if each.pod == pod), "")

    @property
    def numbers(self) -> Numbers:
        """The replicas that are wanted, and those that serve."""
        return ("replicas", self.replicas), ("ready", self.ready)


@dataclass(frozen=True, slots=True)
class Situation:
    """All facts of one decision. ``now`` is in POSIX seconds, and ``replacement`` is the one that is under way.

    ``asked`` is the pod that makes room for another deployment, as people have approved it; None: none is asked for.
    ``left`` are the nodes that take no further replicas for a while, because one replica there was slow or silent.
    """

    need: DeclaredNeed
    placement: PlacementState
    load: LoadSummary
    history: ChangeHistory
    now: float
    policy: RebalancePolicy
    memory: LoopMemory = field(default_factory=LoopMemory)
    allowance: Allowance = field(default_factory=Allowance)
    replacement: Replacement | None = None
    asked: Asked | None = None
    left: tuple[Rehoming, ...] = ()

    @property
    def stuck(self) -> int:
        """Replicas that are no supply: they start for too long, or they serve and generate nothing.

        How long a first start takes is not known: a replica whose engine has not failed has the time of a move for it.
        """
        usual, placement = self.memory.stuck_after_seconds, self.placement
        longest = usual if self.memory.startup_seconds is not None else max(usual, placement.first_start_seconds)
        failing = sum(usual < self.now - since <= longest for since in placement.failing_since)
        return self.stalled + failing + sum(self.now - since > longest for since in placement.starting_since)

    @property
    def stalled(self) -> int:
        """Replicas with a queue that generate nothing."""
        return len(self.stalled_loads)

    @property
    def stalled_loads(self) -> tuple[PodLoad, ...]:
        """The loads of these replicas."""
        traffic = self.load.traffic
        return () if traffic is None else tuple(load for load in traffic.loads if load.is_stalled)

    @property
    def unknown(self) -> int:
        """Ready replicas of which nothing is known. Each is taken to carry its own load, no more and no less.

        Those that have just begun to serve are not among them: what they will carry is still counted at the others.
        """
        return max(0, self.placement.ready - self.load.fresh_pods - self.load.new_pods)
