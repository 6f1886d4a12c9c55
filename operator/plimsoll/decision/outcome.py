"""The outcome of a pass for one InferenceDeployment, and for all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plimsoll.api.conversion.engines import resource_on
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.turns import LoopTurn, Standing
from plimsoll.domain.decisions.observations import Seen
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import ObservedCapacity, Request
from plimsoll.placement.demands.clocks import RetuneClock
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.extra_pods import Replacements
from plimsoll.placement.transition.hypothesis import Plan
from plimsoll.status.record.report import DeploymentProblem
from plimsoll.status.words.left_out import NOTHING_COMES, Coming


@dataclass(frozen=True, slots=True)
class Observed:
    """The reports of a deployment's engines about their memory.

    Attributes:
        seen: observations, now and earlier.
        reported: KV tokens of one replica, by pool.
        reported_in_host: the tokens that one replica keeps in host memory, by pool.
        silent: the pools whose engines report their load, and not the size of their KV cache.
    """

    seen: tuple[Seen, ...] = ()
    reported: Mapping[str, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    reported_in_host: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready:
    """A deployment that can be planned: its request with what engines taught, and the state of its live loop."""

    deployment: Deployment
    request: Request
    standing: Standing
    observed: Observed

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.deployment.identity.key


@dataclass(frozen=True, slots=True)
class Besides:
    """Actions and sentences of a pass apart from the decision.

    Attributes:
        too_small: the placements whose engines report less KV cache than the load needs there.
        proposals: moves and endings of others that would make room.
        replacing: the pods that start before a node goes, by pool.
        leaving: the nodes that go soon and that replicas serve on until their successors do.
        awaits: the groups of nodes whose new nodes replicas wait for.
        left_out: a sentence about GPUs that take no part.
        coming: the new nodes that the deployment may still get.
        needed_again: the nodes that were left for one replica and take further ones again, because no other has room.
    """

    too_small: tuple[ObservedCapacity, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    replacing: Replacements = ()
    leaving: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()
    left_out: str = ""
    coming: Coming = NOTHING_COMES
    needed_again: tuple[str, ...] = ()


NOTHING_BESIDES = Besides()


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The changes that go on after a pass: of engines' settings, and of pods' templates.

    Attributes:
        retune: the clock of a change of settings.
        retune_due: when the engines with these settings must serve, in POSIX seconds.
        updates_due: when the oldest new replica of each pool must serve.
        late_updates: the pools in which it should serve by now.
        allowed_seconds: how long new replicas may take until they serve.
    """

    retune: RetuneClock | None = None
    retune_due: float | None = None
    updates_due: tuple[tuple[str, float], ...] = ()
    late_updates: frozenset[str] = frozenset()
    allowed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a pass for one deployment.

    Attributes:
        deployment: the deployment as it was.
        observed: what its engines report.
        request: what was planned for it; None: nothing was.
        standing: the state of its live loop after its turn; None: it has none.
        decision: its pools, the rejections of other places, and remedies; None: nothing is changed.
        turn: the answer of its live loop; None: it had no turn.
        problem: why it stands still.
        is_faulty: whether the problem is an exception.
        under_way: the changes that go on after this pass.
        besides: what else is done and said.
    """

    deployment: Deployment
    observed: Observed = field(default_factory=Observed)
    request: Request | None = None
    standing: Standing | None = None
    decision: Decision | None = None
    turn: LoopTurn | None = None
    problem: DeploymentProblem | None = None
    is_faulty: bool = False
    under_way: UnderWay = field(default_factory=UnderWay)
    besides: Besides = NOTHING_BESIDES

    @property
    def used_again(self) -> dict[str, str]:
        """The nodes that were left for one replica and take further ones from now on, each with the cause in words."""
        cleared = frozenset[str]() if self.turn is None else self.turn.cleared
        left = (each.node for each in self.deployment.placed.left if each.is_shunned)
        causes = dict.fromkeys(self.besides.needed_again, "no other node has room")
        causes |= dict.fromkeys(cleared, "the node was not the cause")
        return {node: causes[node] for node in left if node in causes}

    @property
    def key(self) -> ObjectKey:
        """Namespace and name of the deployment."""
        return self.deployment.identity.key

    @property
    def resource(self) -> InferenceDeployment | None:
        """The object, with the engine that was decided on; None if it cannot be parsed."""
        asked, decision = self.deployment.asked.resource, self.decision
        if asked is None or decision is None or not self.deployment.asked.chooses_engine:
            return asked
        return resource_on(asked, decision.request.engine.name)

    @property
    def uid(self) -> str:
        """Kubernetes' identity of the deployment."""
        return self.deployment.identity.uid

    @property
    def generation(self) -> int:
        """The generation of the spec that was decided on."""
        return self.deployment.identity.generation


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of a pass, in the order of the world's deployments.

    Attributes:
        each: one for each deployment.
        planned: the plan before the live loop's changes.
        left: the plan with these changes: its stock is what is free after all decisions.
        until: moments at which something changes by time alone that is of no one deployment, in POSIX seconds.
    """

    each: tuple[Outcome, ...]
    planned: Plan
    left: Plan
    until: tuple[float, ...] = ()
