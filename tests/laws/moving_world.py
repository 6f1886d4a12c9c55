"""A small cluster on which deployments move, whose pods bind, get ready, crash or find no node as a die says."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.requests.serving import ObservedCapacity, Request
from plimsoll.placement.demands.clocks import MoveClock, continued
from plimsoll.placement.demands.failed_moves import Delay, FailedMove, remembered, standing
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, Tenant
from plimsoll.placement.demands.roll_back import is_late
from plimsoll.placement.plan import plan

CRASH = Delay("EngineCrashed", "no such file")
MOVE_SECONDS = 900.0
SPEC = "s"


def _too_small(pools: tuple[Pool, ...]) -> tuple[ObservedCapacity, ...]:
    """Reports of engines that got too little cache, at the places that a move leaves."""
    return tuple(ObservedCapacity(*pool.target.place, 100) for pool in pools if pool.ready)


@dataclass(slots=True)
class Pod:
    """One pod. It holds a GPU while it has a node."""

    has_node: bool = False
    ready: bool = False
    stranded: bool = False


@dataclass(slots=True)
class Moving:
    """One deployment from pass to pass. ``lucky`` pods always bind and get ready. ``moves`` at random times."""

    wanted: Request
    lucky: bool
    pools: tuple[PlannedPool, ...] = ()
    pods: dict[str, list[Pod]] = field(default_factory=dict)
    clock: MoveClock | None = None
    failed: tuple[FailedMove, ...] = ()
    taken_back: int = 0
    came_up: int = 0

    @property
    def serving(self) -> int:
        """Pods that serve."""
        return sum(pod.ready for pods in self.pods.values() for pod in pods)

    @property
    def old_serves(self) -> bool:
        """Whether an old pool has pods that serve."""
        old = (pool.name for pool in self.pools if pool.state is PoolState.RETIRING)
        return any(pod.ready for name in old for pod in self.pods[name])

    @property
    def is_moving(self) -> bool:
        """Whether an old pool serves in place of a new one."""
        return any(pool.state is PoolState.RETIRING for pool in self.pools)


@dataclass(slots=True)
class MovingWorld:
    """The nodes, the deployments, the time, and pods that are ending and hold their GPUs for one more pass."""

    where: Fleet
    lives: list[Moving]
    dice: random.Random
    now: float = 1_800_000_000.0
    ending: Counter[str] = field(default_factory=Counter)

    def step(self) -> dict[str, Decision]:
        """Let time pass, plan, carry the plan out, and let the cluster do something."""
        self.now += self.dice.choice((5, 60, 600, 1200))
        tenants = [self.tenant(life) for life in self.lives]
        held = self.held()
        fleet = self.where.with_nodes(replace(node, held=held[node.gpu.name]) for node in self.where.nodes)
        decided = dict(zip((each.request.key.name for each in tenants), plan(tenants, fleet), strict=True))
        self.ending.clear()
        for life in self.lives:
            self._carry_out(life, decided[life.wanted.key.name])
        return decided

    def held(self) -> Counter[str]:
        """GPUs that pods hold, by type. Each type has one node."""
        held = Counter(self.ending)
        for life in self.lives:
            for pool in life.pools:
                held[pool.gpu_type] += pool.split.gpus * sum(pod.has_node for pod in life.pods[pool.name])
        return held

    def free(self, gpu_type: str) -> int:
        """GPUs of a type that no pod holds."""
        return sum(node.allocatable for node in self.where.of_type(gpu_type)) - self.held()[gpu_type]

    def tenant(self, life: Moving) -> Tenant:
        """The deployment as the next pass sees it. At random, the live loop orders a move."""
        overdue = life.clock is not None and life.clock.is_over(self.now)
        pools = tuple(self._pool(life, pool, overdue=overdue) for pool in life.pools)
        is_settled = bool(pools) and not life.is_moving and all(pool.ready == pool.replicas for pool in pools)
        moves = not life.lucky and is_settled and self.dice.random() < 0.5
        request = replace(life.wanted, observed=_too_small(pools)) if moves or life.is_moving else life.wanted
        failed = standing(life.failed, SPEC, self.now)
        return Tenant(request, 1, pools, accepts_move=moves, spec=SPEC, overdue=overdue, failed=failed)

    def schedule(self) -> None:
        """Let pods bind, get ready, crash or find no node."""
        for life in sorted(self.lives, key=lambda life: not life.lucky):
            for pool in life.pools:
                old = pool.state is PoolState.RETIRING
                for pod in life.pods[pool.name]:
                    self._live_on(pod, pool, lucky=life.lucky or old)

    def _live_on(self, pod: Pod, pool: PlannedPool, *, lucky: bool) -> None:
        if not pod.has_node:
            pod.has_node = (lucky or self.dice.random() < 0.6) and self.free(pool.gpu_type) >= pool.split.gpus
            pod.stranded = not pod.has_node
        elif not pod.ready:
            pod.ready = lucky or self.dice.random() < 0.3

    def _pool(self, life: Moving, pool: PlannedPool, *, overdue: bool) -> Pool:
        pods = life.pods[pool.name]
        found = Pool(
            pool.name, pool.target, pool.state, pool.generation, pool.replicas,
            bound=sum(pod.has_node for pod in pods), ready=sum(pod.ready for pod in pods),
            stranded=sum(pod.stranded for pod in pods), spec=pool.spec, obstacle="InsufficientGpus",
            limits=pool.limits,
        )  # fmt: skip
        return replace(found, delay=CRASH) if overdue and is_late(found) else found

    def _carry_out(self, life: Moving, decision: Decision) -> None:
        was_moving = life.is_moving
        kept = {pool.name: pool for pool in decision.pools}
        for pool in life.pools:
            replicas = kept[pool.name].replicas if pool.name in kept else 0
            pods = sorted(life.pods[pool.name], key=lambda pod: (not pod.ready, not pod.has_node))
            life.pods[pool.name] = pods[:replicas]
            self.ending[pool.gpu_type] += pool.split.gpus * sum(pod.has_node for pod in pods[replicas:])
        life.pods = {
            name: life.pods.get(name, []) + [Pod() for _ in range(pool.replicas - len(life.pods.get(name, [])))]
            for name, pool in kept.items()
        }
        life.pools = decision.pools
        life.failed = remembered(life.failed, decision.rolled_back, SPEC, self.now)
        life.taken_back += bool(decision.rolled_back)
        life.came_up += was_moving and not life.is_moving and not decision.rolled_back
        new = tuple(sorted(pool.name for pool in decision.pools if pool.state is PoolState.ACTIVE))
        life.clock = continued(life.clock, new, MOVE_SECONDS, SPEC, self.now) if life.is_moving else None
