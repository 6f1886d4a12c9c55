"""Pools: the replicas of one deployment that share a GPU type and a split, as decided earlier and as planned now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.outcomes import Choice, Rejection, Remedy, Split, Target
from plimsoll.domain.serving import Request
from plimsoll.placement.rehoming import Departure, Rehoming


class PoolState(StrEnum):
    """Retiring pools keep serving until the active ones do: make before break."""

    ACTIVE = "Active"
    RETIRING = "Retiring"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as it was decided and as the cluster shows it.

    ``generation`` is that of the spec it was last judged by. ``replicas`` were wanted; ``bound`` pods sit on a node, be
    they ready or on their way out; ``ready`` serve; ``stranded`` found no node for longer than the grace period, and
    ``stuck`` neither, but something else than GPUs stands against it: these stay, and no GPUs are kept for them.
    ``exists`` is false while the decision is on record only: nothing was made of it, so no scheduler complains of it.
    ``served`` tells that an engine of it has served under that spec, ``too_large`` that none has, for want of memory:
    nothing is lost by leaving it.
    ``batched_tokens`` is the step that its engines were last given; None where that is not known.
    ``uncreated`` of its replicas have no pod at all. ``refused`` says that the API server refuses them now (a quota, a
    policy, an invalid template), ``promise_over`` that it has done so for longer than GPUs are kept for them.
    ``obstacle`` is what the scheduler has against its stranded pods, in one word.
    """

    name: str
    target: Target
    state: PoolState
    generation: int
    replicas: int
    bound: int = 0
    ready: int = 0
    stranded: int = 0
    stuck: int = 0
    exists: bool = True
    too_large: bool = False
    served: bool = False
    batched_tokens: int | None = None
    uncreated: int = 0
    refused: bool = False
    promise_over: bool = False
    obstacle: str = ""

    @property
    def gpu_type(self) -> str:
        """The GPU type of its target."""
        return self.target.gpu_type

    @property
    def split(self) -> Split:
        """How its replicas are cut."""
        return self.target.split

    @property
    def place(self) -> tuple[str, Split]:
        """The GPU type and the split."""
        return self.target.place


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """A pool as it shall be.

    ``choice`` None leaves its workload untouched but for the number of replicas. ``surge`` tells whether one more
    replica has room, so that an update can start the new one before it stops the old one. ``batched_tokens`` is the
    step that its engines ran with before.
    """

    name: str
    target: Target
    state: PoolState
    generation: int
    replicas: int
    choice: Choice | None
    surge: bool = False
    batched_tokens: int | None = None

    @property
    def gpu_type(self) -> str:
        """The GPU type of its target."""
        return self.target.gpu_type

    @property
    def split(self) -> Split:
        """How its replicas are cut."""
        return self.target.split

    @property
    def place(self) -> tuple[str, Split]:
        """The GPU type and the split."""
        return self.target.place

    @property
    def step_tokens(self) -> int | None:
        """The step of its engines from now on."""
        return self.batched_tokens if self.choice is None else self.choice.settings.max_num_batched_tokens


@dataclass(frozen=True, slots=True)
class Tenant:
    """One deployment before the plan.

    ``accepts_move`` is the live loop's order to leave an outgrown pool. ``left`` are the places that its pods were
    re-homed from within the last hour.
    """

    request: Request
    generation: int
    pools: tuple[Pool, ...] = ()
    suspended: bool = False
    accepts_move: bool = False
    left: tuple[Rehoming, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One deployment after the plan.

    ``missing`` replicas found no place; ``rejections`` and ``remedies`` are of this pass and empty when nothing had to
    be placed (``placed_now`` false). ``outgrown`` is why the running pool would not be chosen any more, without an
    order to leave it. ``change_blocked`` says that the spec's change has no place yet and the old placement keeps
    serving. ``departures`` are places that replicas leave in this pass because their pods find no node there;
    ``rehomings_spent`` says that they would leave and have been moved too often in the last hour.
    ``failure`` is an error of the planning itself: nothing of this deployment was changed by this pass.
    ``is_refusal`` tells that it is one of ours, which names what cannot be used, e.g. a model without a memory law.
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
    rehomings_spent: bool = False
    failure: str = ""
    is_refusal: bool = False

    @property
    def choice(self) -> Choice | None:
        """The choice of the first active pool: what status and columns speak of."""
        active = (pool.choice for pool in self.pools if pool.state is PoolState.ACTIVE and pool.choice is not None)
        return next(active, None)


MAX_POOLS = 4
"""GPU types that one deployment may spread over: more would be nobody's wish."""


def as_it_is(pool: Pool) -> PlannedPool:
    """A pool of which nothing changes."""
    return PlannedPool(
        name=pool.name,
        target=pool.target,
        state=pool.state,
        generation=pool.generation,
        replicas=pool.replicas,
        choice=None,
        batched_tokens=pool.batched_tokens,
    )


def count(pools: Iterable[PlannedPool]) -> int:
    """Replicas of all these pools."""
    return sum(pool.replicas for pool in pools)


def pool_name(gpu_type: str, split: Split) -> str:
    """The name of a pool follows from what it is, so that two passes never invent two names."""
    suffix = "" if split.pipeline_parallel == 1 else f"-pp{split.pipeline_parallel}"
    return f"{gpu_type.replace('.', '-')}-tp{split.tensor_parallel}{suffix}"
