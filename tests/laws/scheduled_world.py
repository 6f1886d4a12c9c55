"""A small cluster on which plans are carried out: honest pods bind as promised, the others as a die says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.host import HostNeed
from plimsoll.domain.requests.serving import Request
from plimsoll.facts.cluster.scheduler_words import chief_obstacle, may_go_elsewhere, read_obstacles
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, Tenant, pool_name
from plimsoll.placement.demands.rehoming import Rehoming, of_last_hour, remembered
from plimsoll.placement.plan import plan

BINDS = "it binds"
ANSWERS = (
    BINDS,
    "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) didn't match Pod's node affinity/selector.",
    "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.",
    "0/4 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.",
    "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't match Pod's node affinity/selector.",
    '0/4 nodes are available: persistentvolumeclaim "weights" not found.',
    "something that no release has said before",
    "",
)
"""What a scheduler may say of a pod, the first being that it found a node."""


@dataclass(slots=True)
class Life:
    """One deployment from pass to pass. ``openings`` and ``departures`` are times and places."""

    wanted: Request
    honest: bool
    pools: tuple[PlannedPool, ...] = ()
    bound: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    left: tuple[Rehoming, ...] = ()
    openings: list[tuple[float, str]] = field(default_factory=list)
    departures: list[tuple[float, str]] = field(default_factory=list)
    waits: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """The nodes, the deployments and the time. ``quota`` limits the GPUs and the pods of all deployments."""

    where: Fleet
    lives: list[Life]
    dice: random.Random
    now: float = 1_800_000_000.0
    quota: int | None = None

    def step(self) -> list[Decision]:
        """One pass: time goes on, a plan is made and carried out, the scheduler answers."""
        self.now += self.dice.randint(1, 240)
        planned = plan([self._tenant(life) for life in self.lives], self.seen(), quotas=self.quotas())
        decisions = {each.request.key: each for each in planned}
        for life in self.lives:
            self._carry_out(life, decisions[life.wanted.key])
        for life in sorted(self.lives, key=lambda life: not life.honest):  # the honest ones' pods are bound at once
            self._schedule(life)
        return [decisions[life.wanted.key] for life in self.lives]

    def seen(self) -> Fleet:
        """The fleet with what is bound now."""
        return self.where.with_nodes(replace(node, held=self.held()[node.name]) for node in self.where.nodes)

    def asked(self) -> int:
        """GPUs that pods ask for, with a node or without."""
        return sum(pool.replicas * pool.split.gpus for life in self.lives for pool in life.pools)

    def quotas(self) -> dict[str, dict[str, int]]:
        """What the quota leaves. It counts every pod, also one without a node."""
        if self.quota is None:
            return {}
        pods = sum(pool.replicas for life in self.lives for pool in life.pools)
        left = {"nvidia.com/gpu": self.quota - self.asked(), "pods": self.quota - pods}
        return {life.wanted.key.namespace: left for life in self.lives}

    def held(self) -> Counter[str]:
        """GPUs that pods hold, by node."""
        held: Counter[str] = Counter()
        for life in self.lives:
            sizes = {pool.name: pool.split.gpus for pool in life.pools}
            for name, nodes in life.nodes.items():
                held.update({node: sizes[name] * nodes.count(node) for node in set(nodes)})
        return held

    def _tenant(self, life: Life) -> Tenant:
        life.left = of_last_hour(life.left, self.now)
        return Tenant(life.wanted, 1, tuple(self._pool(life, pool) for pool in life.pools), left=life.left)

    def _pool(self, life: Life, pool: PlannedPool) -> Pool:
        bound = len(life.nodes.get(pool.name, ()))
        waiting, answer = max(0, pool.replicas - bound), life.waits.get(pool.name)
        obstacles = () if answer is None else read_obstacles("Unschedulable", answer)
        moves = may_go_elsewhere(obstacles)
        return Pool(
            pool.name, pool.target, pool.state, pool.generation,
            pool.replicas, bound=bound, ready=bound,
            stranded=waiting if moves else 0,
            stuck=waiting if obstacles and not moves else 0,
            obstacle=chief_obstacle(obstacles).value if moves else "",
            claim=HostNeed() if moves else None,
        )  # fmt: skip

    def _carry_out(self, life: Life, decision: Decision) -> None:
        before = {pool.name for pool in life.pools if pool.state is PoolState.ACTIVE}
        now = {pool.name for pool in decision.pools if pool.state is PoolState.ACTIVE}
        life.openings += [(self.now, name) for name in sorted(now - before)]
        life.departures += [(self.now, pool_name(*each.place)) for each in decision.departures]
        life.left = remembered(life.left, decision.departures, self.now)
        life.pools = decision.pools
        replicas = {pool.name: pool.replicas for pool in decision.pools}
        life.nodes = {name: nodes[: replicas[name]] for name, nodes in life.nodes.items() if name in replicas}

    def _schedule(self, life: Life) -> None:
        life.waits = {}
        for pool in life.pools:
            answer = BINDS if life.honest else self.dice.choice(ANSWERS)
            while len(life.nodes.get(pool.name, ())) < pool.replicas:
                node = self._free_node(pool) if answer == BINDS else None
                if node is None:
                    life.waits[pool.name] = ANSWERS[1] if answer == BINDS else answer
                    break
                life.nodes.setdefault(pool.name, []).append(node)

    def _free_node(self, pool: PlannedPool) -> str | None:
        held = self.held()
        free = {
            node.name: node.allocatable - held[node.name]
            for node in self.where.nodes
            if node.gpu.name == pool.gpu_type and node.allocatable - held[node.name] >= pool.split.gpus
        }
        return min(free, key=lambda name: (free[name], name), default=None)


def hours_of(events: Sequence[tuple[float, str]]) -> list[list[str]]:
    """The places of every hour that begins with an event."""
    return [[place for at, place in events if start <= at < start + 3600] for start, _ in events]
