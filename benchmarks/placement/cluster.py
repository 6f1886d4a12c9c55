"""A simulated cluster that carries out decisions: pods start at once, the largest first, on the fullest node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.placement.bound.instance import choice_of
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, Tenant


@dataclass(slots=True)
class Cluster:
    """Nodes with the pods of others, and our pods: for each pool, the node of each pod."""

    empty: Fleet
    free: list[int] = field(init=False)
    pools: dict[ObjectKey, tuple[PlannedPool, ...]] = field(default_factory=dict)
    pods: dict[tuple[ObjectKey, str], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = [node.free for node in self.empty.nodes]

    def fleet(self) -> Fleet:
        """Return the nodes as the next pass reads them."""
        return self.empty.with_nodes(
            replace(node, held=node.allocatable - free) for node, free in zip(self.empty.nodes, self.free, strict=True)
        )

    def tenants(self, requests: Iterable[Request]) -> tuple[Tenant, ...]:
        """Return these deployments with their pools as the next pass sees them."""
        return tuple(Tenant(request, 1, tuple(self._pools_of(request.key))) for request in requests)

    def replicas(self, key: ObjectKey) -> int:
        """Return the number of pods of a deployment that run."""
        return sum(len(self.pods[key, pool.name]) for pool in self.pools.get(key, ()))

    def dollars(self) -> float:
        """Return US dollars an hour of all pods, with the worth of the time that users wait."""
        return sum(
            len(pods)
            * (
                float(_price(self._node_of(key, name)) * pool.split.gpus)
                if pool.choice is None
                else choice_of(pool.choice).dollars
            )
            for (key, name), pods in self.pods.items()
            if pods
            for pool in self.pools[key]
            if pool.name == name
        )

    def doubts(self) -> int:
        """Return what speaks against the choices of all pods."""
        return sum(
            choice_of(pool.choice).doubts * len(self.pods[key, pool.name])
            for key, pools in self.pools.items()
            for pool in pools
            if pool.choice is not None
        )

    def remove(self, key: ObjectKey) -> None:
        """Stop all pods of a deployment."""
        for pool in self.pools.pop(key, ()):
            self._release(pool, self.pods.pop((key, pool.name)), 0)

    def carry_out(self, decisions: Sequence[Decision], *, repack: bool = False) -> int:
        """Do what was decided, and return how many running replicas left their GPU type and split.

        With ``repack``, all pods get new nodes. That is not counted: a plan made anew is compared at its best.
        """
        wanted = {decision.request.key: _active(decision) for decision in decisions}
        stopped = sum(self._shrink(key, pools) for key, pools in wanted.items())
        self.pools |= wanted
        if repack:
            for key, pools in self.pools.items():
                for pool in pools:
                    self._release(pool, self.pods.get((key, pool.name), []), 0)
        growing = [(pool, key) for key, pools in wanted.items() for pool in pools]
        nodes = _by_type(self.empty.nodes)
        for pool, key in sorted(growing, key=lambda each: -each[0].split.gpus):
            pods = self.pods.setdefault((key, pool.name), [])
            while len(pods) < pool.replicas and (node := self._fullest(nodes[pool.gpu_type], pool)) is not None:
                self.free[node] -= pool.split.gpus
                pods.append(node)
        return stopped

    def _shrink(self, key: ObjectKey, wanted: Sequence[PlannedPool]) -> int:
        sizes = {pool.name: pool.replicas for pool in wanted}
        stopped = 0
        for pool in self.pools.get(key, ()):
            pods = self.pods[key, pool.name]
            stopped += max(0, len(pods) - sizes.get(pool.name, 0))
            self._release(pool, pods, sizes.get(pool.name, 0))
            if pool.name not in sizes:
                del self.pods[key, pool.name]
        return stopped

    def _release(self, pool: PlannedPool, pods: list[int], keep: int) -> None:
        for node in pods[keep:]:
            self.free[node] += pool.split.gpus
        del pods[keep:]

    def _fullest(self, nodes: Sequence[int], pool: PlannedPool) -> int | None:
        gpus = pool.split.gpus
        return min((node for node in nodes if self.free[node] >= gpus), key=self.free.__getitem__, default=None)

    def _node_of(self, key: ObjectKey, name: str) -> GpuNode:
        return self.empty.nodes[self.pods[key, name][0]]

    def _pools_of(self, key: ObjectKey) -> Iterator[Pool]:
        for pool in self.pools.get(key, ()):
            running = len(self.pods[key, pool.name])
            yield Pool(
                name=pool.name,
                target=pool.target,
                state=PoolState.ACTIVE,
                generation=1,
                replicas=pool.replicas,
                bound=running,
                ready=running,
                served=True,
                limits=StepLimits(step_tokens=pool.step_tokens or 0),
            )


def _active(decision: Decision) -> tuple[PlannedPool, ...]:
    return tuple(pool for pool in decision.pools if pool.state is PoolState.ACTIVE)


def _by_type(nodes: Sequence[GpuNode]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        found[node.gpu.name].append(number)
    return dict(found)


def _price(node: GpuNode) -> float:
    if node.gpu.price is None:
        raise ValueError(f"{node.gpu.name} has no price: every type of a benchmark's fleet needs one")
    return float(node.gpu.price.usd_per_hour)
