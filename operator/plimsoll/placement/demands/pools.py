"""Pools as decided earlier and as planned now.

A pool is all replicas of a deployment with one engine, GPU type and split.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from plimsoll.domain.cluster.host import HostNeed
from plimsoll.domain.cluster.priorities import NO_PRIORITY, Priority
from plimsoll.domain.decisions.outcomes import Option, Rejection, Remedy, Split, Suggestion, Target
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, NO_LIMITS, StepLimits
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import ENGINES
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.clocks import EarlierSettings
from plimsoll.placement.demands.failed_moves import Delay, FailedMove, RollBack
from plimsoll.placement.demands.rehoming import Departure, Rehoming
from plimsoll.placement.options.engine_offer import EngineOffer
from plimsoll.placement.options.total_load import Size

Place = tuple[str, Split]
"""A GPU type and a split."""


class PoolState(StrEnum):
    """The state of a pool. Retiring pools keep serving until the active ones serve: make before break."""

    ACTIVE = "Active"
    RETIRING = "Retiring"


@dataclass(frozen=True, slots=True)
class _AnyPool:
    """The fields of every pool. ``generation`` is that of the spec with which it was last judged."""

    name: str
    target: Target
    state: PoolState
    generation: int
    replicas: int

    @property
    def is_active(self) -> bool:
        """Whether it is not on its way out."""
        return self.state is PoolState.ACTIVE

    @property
    def gpu_type(self) -> str:
        """The GPU type of its target."""
        return self.target.gpu_type

    @property
    def split(self) -> Split:
        """How its replicas are cut."""
        return self.target.split

    @property
    def place(self) -> Place:
        """The GPU type and the split."""
        return self.target.place


AnyPool = TypeVar("AnyPool", bound=_AnyPool)


def active(pools: Iterable[AnyPool]) -> list[AnyPool]:
    """Return the pools that are not on their way out."""
    return [pool for pool in pools if pool.is_active]


def serving(pools: Iterable[AnyPool]) -> list[AnyPool]:
    """Return the active pools with replicas."""
    return [pool for pool in pools if pool.is_active and pool.replicas > 0]


def replicas_by_name(pools: Iterable[_AnyPool]) -> dict[str, int]:
    """Return the replicas of each active pool."""
    return {pool.name: pool.replicas for pool in pools if pool.is_active}


@dataclass(frozen=True, slots=True)
class Pool(_AnyPool):
    """A pool as it was decided and as the cluster shows it.

    All counts are of replicas. ``replicas`` were wanted. ``bound`` ones are on a node, ready or ending. ``ready`` ones
    serve. ``stranded`` ones have found no node for longer than the grace period. ``failing`` ones have a node where
    their engine cannot run. ``bad_nodes`` are such nodes, each with the cause in one word, if another node may do.
    ``stuck`` ones have no node for another reason than GPUs: they stay, and no GPUs are kept for them.
    ``exists`` is false while there is only a recorded decision: no pods were created, so the scheduler reports nothing.
    ``served`` means that one of its engines has served under that spec. ``too_large`` means that none has, because
    memory ran out: the pool can be left without loss.
    ``limits`` are those that its engines last got. The requests at the same time were chosen for the spec with the
    digest ``spec``.
    ``uncreated`` replicas have no pod. ``refused`` means that the API server refuses them now (a quota, a policy, an
    invalid template). ``promise_over`` means that it has refused them for longer than GPUs are kept for them.
    ``obstacle`` is why pods are stranded or failing, in one word. ``has_narrow_cache`` means that its
    engines got an fp8 KV cache because the user permits it. ``host_cache_bytes`` is the KV cache in host memory that
    they got because the spec asks for one. ``drain_seconds`` is how long its running requests may
    finish when a pod ends; None: the engine's usual time, which pools of earlier releases have. ``restarts`` means that
    a change gives its engines other settings, so that they start again in any case. ``delay`` is why it does not serve
    although the time of its move is over; None if that is not so. ``earlier`` are the settings that its engines had
    before the live loop gave them those that they get now; None if no such change is under way. ``overdue`` means
    that the new settings should serve by now. ``claim`` is what a stranded or failing pod requests other than GPUs:
    quotas count it. None if such replicas have no pod. ``gated`` replicas wait behind a scheduling gate, as a queue
    sets it. ``engine`` is the name of the engine that it runs.
    """

    bound: int = 0
    ready: int = 0
    stranded: int = 0
    failing: int = 0
    bad_nodes: tuple[tuple[str, str], ...] = ()
    stuck: int = 0
    exists: bool = True
    too_large: bool = False
    served: bool = False
    limits: StepLimits = NO_LIMITS
    spec: str = ""
    uncreated: int = 0
    refused: bool = False
    promise_over: bool = False
    obstacle: str = ""
    has_narrow_cache: bool = False
    host_cache_bytes: int = 0
    drain_seconds: int | None = None
    restarts: bool = False
    delay: Delay | None = None
    earlier: EarlierSettings | None = None
    overdue: bool = False
    claim: HostNeed | None = None
    gated: int = 0
    engine: str = DEFAULT_ENGINE

    @property
    def leaving(self) -> int:
        """The replicas that may leave it: they have found no node, or none where they can run."""
        return self.stranded + self.failing

    @property
    def waiting(self) -> int:
        """The replicas that have no node and may still get one."""
        return max(0, self.replicas - self.bound - self.stranded - self.stuck)


@dataclass(frozen=True, slots=True)
class PlannedPool(_AnyPool):
    """A pool as the plan wants it.

    With ``choice`` None, only the number of replicas of its workload changes. ``surge`` is true if one more replica
    has room, so that an update can start the new one before it stops the old one. ``limits_before`` are those that its
    engines had before, and ``spec`` is the digest of the spec that they were chosen for. ``narrow_before`` is whether
    they had an fp8 KV cache by the planner's choice, and ``host_cache_before`` their KV cache in host memory in bytes.
    ``drain_seconds`` is how long running requests may finish when a
    pod of it ends; None: the engine's usual time. ``engine`` is the name of the engine that it runs from now on.
    """

    choice: Option | None
    surge: bool = False
    limits_before: StepLimits = NO_LIMITS
    spec: str = ""
    narrow_before: bool = False
    host_cache_before: int = 0
    drain_seconds: int | None = None
    engine: str = DEFAULT_ENGINE

    @property
    def limits(self) -> StepLimits:
        """The limits of its engines from now on."""
        return self.limits_before if self.choice is None else self.choice.settings.limits

    @property
    def step_tokens(self) -> int | None:
        """The step of its engines from now on; None if it is not known."""
        return self.limits.step_tokens or None

    @property
    def sequences(self) -> int | None:
        """The most requests that one of its engines runs at the same time from now on; None if not known."""
        return self.limits.sequences or None

    @property
    def has_narrow_cache(self) -> bool:
        """Whether its engines have an fp8 KV cache by the planner's choice from now on."""
        return self.narrow_before if self.choice is None else self.choice.has_narrow_cache

    @property
    def host_cache_bytes(self) -> int:
        """The KV cache in host memory of a replica from now on, as the spec asks for it."""
        return self.host_cache_before if self.choice is None else self.choice.settings.host_cache_bytes


@dataclass(frozen=True, slots=True)
class SeenAnswers:
    """The answers of a deployment, as the engines' metrics showed them.

    ``tokens`` is their mean length. ``slowness`` is the measured time of a token over that of the performance model, at
    the replicas of ``pool``.
    """

    tokens: float
    pool: str = ""
    slowness: float = 1.0

    @property
    def of_length(self) -> SeenAnswers:
        """The part that counts for another engine, whose speed was measured nowhere."""
        return SeenAnswers(self.tokens)


@dataclass(frozen=True, slots=True)
class Tenant:
    """One deployment before the plan.

    ``spec`` is the digest of the spec's fields that change an engine.
    ``accepts_move`` is the live loop's order to leave an outgrown pool. ``goes_to`` is its order to have all replicas
    at one place, which only hypotheses have (:mod:`plimsoll.placement.transition.hypothesis`). ``left`` are the places
    from which its pods were moved within the last hour. ``priority`` says who comes first if not all have room.
    ``answers`` is what was seen of its answers; None: nothing yet. ``overdue`` means that the new pools of a move
    should serve by now, and ``failed`` are the places that did not come up in time before.
    """

    request: Request
    generation: int
    pools: tuple[Pool, ...] = ()
    suspended: bool = False
    accepts_move: bool = False
    left: tuple[Rehoming, ...] = ()
    spec: str = ""
    priority: Priority = NO_PRIORITY
    answers: SeenAnswers | None = None
    overdue: bool = False
    failed: tuple[FailedMove, ...] = ()
    goes_to: Place | None = None

    def on_engine(self, engine: str) -> Tenant:
        """Return the deployment on an alternative engine, of whose speed nothing was seen; itself if there is none."""
        request = next((each for each in self.request.on_alternatives if each.engine.name == engine), self.request)
        answers = None if self.answers is None else self.answers.of_length
        return replace(self, request=request, answers=answers)

    @property
    def turn(self) -> tuple[int, str, ObjectKey]:
        """The key that sorts deployments in the order of decisions: the higher priority first, then the older."""
        return -self.priority.value, self.request.created, self.request.key


@dataclass(frozen=True, slots=True)
class Decision:
    """One deployment after the plan.

    ``missing`` replicas found no place. ``rejections`` and ``remedies`` belong to this pass. They are empty when
    nothing had to be placed (``placed_now`` false). ``outgrown`` is why the running pool would not be chosen any more,
    when no order to leave it was given. ``change_blocked`` means that the spec's change has no place yet and the old
    placement keeps serving. ``departures`` are places that replicas leave in this pass, because their pods find no node
    there. ``rolled_back`` are places that it leaves, and settings that it takes back, because they did not come up in
    time.
    ``rehomings_spent`` means that replicas should leave but were moved too often in the last hour, and ``stranded_by``
    why no other place takes replicas that the scheduler cannot bind.
    ``failure`` is an error of the planning itself: this pass changed nothing in this deployment.
    ``is_refusal`` means that the error is a ``PlimsollError``, which names the unusable input, e.g. a model without a
    memory law. ``appraisal`` is how good all placements of the pass are together; None if this deployment got none,
    or if the solver does not say. It is not compared: it changes with every other deployment. ``suggestions`` would
    make a placement of this pass cheaper. ``sizes`` are those that this pass compared for the deployment, and
    ``engines`` the engines, the one that was taken first.
    """

    request: Request
    pools: tuple[PlannedPool, ...]
    missing: int = 0
    placed_now: bool = False
    rejections: tuple[Rejection, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    warnings: tuple[str, ...] = ()
    outgrown: Rejection | None = None
    change_blocked: bool = False
    departures: tuple[Departure, ...] = ()
    rolled_back: tuple[RollBack, ...] = ()
    rehomings_spent: bool = False
    stranded_by: tuple[Rejection, ...] = ()
    failure: str = ""
    is_refusal: bool = False
    appraisal: Appraisal | None = field(default=None, compare=False)
    suggestions: tuple[Suggestion, ...] = ()
    sizes: tuple[Size, ...] = ()
    engines: tuple[EngineOffer, ...] = ()

    @property
    def waits_for_place(self) -> bool:
        """Whether replicas, or the spec's change, have no place."""
        return self.missing > 0 or self.change_blocked

    @property
    def choice(self) -> Option | None:
        """The choice of the first active pool, which status and columns show."""
        return next((pool.choice for pool in active(self.pools) if pool.choice is not None), None)


def as_it_is(pool: Pool) -> PlannedPool:
    """Return a planned pool that is equal to the given one."""
    return PlannedPool(
        name=pool.name,
        target=pool.target,
        state=pool.state,
        generation=pool.generation,
        replicas=pool.replicas,
        choice=None,
        limits_before=pool.limits,
        spec=pool.spec,
        narrow_before=pool.has_narrow_cache,
        host_cache_before=pool.host_cache_bytes,
        drain_seconds=pool.drain_seconds,
        engine=pool.engine,
    )


def as_chosen(pool: Pool, choice: Option, tenant: Tenant, drain_seconds: int | None) -> PlannedPool:
    """Return a planned pool with the same replicas, and with what was chosen for the tenant's present spec."""
    return replace(
        as_it_is(pool),
        target=choice.target,
        generation=tenant.generation,
        choice=choice,
        spec=tenant.spec,
        drain_seconds=drain_seconds,
        engine=tenant.request.engine.name,
    )


def as_it_runs(request: Request, pool: Pool | PlannedPool) -> Request:
    """Return the request on the pool's engine, with the cache and the limits that its engines last got.

    A pool that leaves an engine that refuses the spec counts as if it ran the request's own engine.
    """
    request = request.on(pool.engine) or request
    request = request.with_cache_as(narrow=pool.has_narrow_cache, host_bytes=pool.host_cache_bytes)
    return request.limited(pool.limits.of_replica(pool.split.data_parallel))


def running_engine(pools: Iterable[Pool]) -> str | None:
    """Return the engine that a deployment's pools stay with: that of the pools that serve, or have served, if any did.

    None if there are no pools, or if memory ran out before any of them served: nothing is lost if another engine takes
    over. A pool on its way out counts while it serves, because the pool that replaces it may never do so.
    """
    pools = tuple(pools)
    proven = [pool for pool in pools if pool.ready or pool.served]
    if proven:
        return max(proven, key=lambda pool: (pool.ready > 0, pool.is_active)).engine
    return next((pool.engine for pool in active(pools) or pools if not pool.too_large), None)


def count(pools: Iterable[_AnyPool]) -> int:
    """Return the number of replicas in all these pools."""
    return sum(pool.replicas for pool in pools)


def pool_name(gpu_type: str, split: Split) -> str:
    """Return a pool's name. It follows from the GPU type and the split, so every pass gives the same name.

    The name of an engine follows it while a pool of another engine has that name (:func:`name_of_new`). Whole experts
    do not change it: they are used only if the same degree is impossible without them, and always with data
    parallelism.
    """
    suffix = "" if split.pipeline_parallel == 1 else f"-pp{split.pipeline_parallel}"
    suffix += "" if split.data_parallel == 1 else f"-dp{split.data_parallel}"
    return f"{gpu_type.replace('.', '-')}-tp{split.tensor_parallel}{suffix}"


def is_at(name: str, gpu_type: str, split: Split) -> bool:
    """Whether a pool of this name is at a place, on whatever engine."""
    return name in {pool_name(gpu_type, split), *(_beside_another(gpu_type, split, engine) for engine in ENGINES)}


def name_of_new(place: Place, engine: str, pools: Iterable[Pool | PlannedPool]) -> str:
    """Return the name of a pool that is opened next to the given ones: two engines at one place are two pools.

    One of the same engine that is at the place has that name already: its pods are called back.
    """
    here = {pool.engine: pool.name for pool in pools if is_at(pool.name, *place)}
    name = pool_name(*place)
    return here.get(engine) or (_beside_another(*place, engine) if name in here.values() else name)


def _beside_another(gpu_type: str, split: Split, engine: str) -> str:
    return f"{pool_name(gpu_type, split)}-{engine}"


def places_on(pools: Iterable[Pool | PlannedPool], engine: str) -> set[Place]:
    """Return the places of the pools that run an engine."""
    return {pool.place for pool in pools if pool.engine == engine}
