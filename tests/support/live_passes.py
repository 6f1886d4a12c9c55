"""Passes over a store filled by hand, with engines whose load is given: no cluster, no Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.planning.passes import look_up, new_passes
from benchmarks.planning.pictures import carry_out, new_store
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.app.plan.passes import Passes, PassResult
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.plan.snapshot import Snapshot
from plimsoll.app.watch.store import Store
from plimsoll.decision.memory import TurnMemo
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.demands.pools import PoolState
from plimsoll.placement.solvers import DEFAULT_SOLVER, Award, Stock
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.reading import Reading
from testbed.fleet import gpu_node
from tests.support.bodies import Body, inference_deployment_body
from tests.support.live_situations import enough_for

AUTO_COOLDOWN = 30
AUTO = {"mode": "Auto", "maxReplicas": 4, "windowSeconds": 20, "cooldownSeconds": AUTO_COOLDOWN}
NOW = 1_795_300_000.0
"""A day after the pods of :func:`benchmarks.planning.pictures.carry_out` became ready."""

PRESSURE, EASY, SLACK = 1.0, 0.6, 0.0
PRODUCTS = {"l4-24gb": "L4", "l40s-48gb": "L40S", "h100-sxm-80gb": "H100-80GB-HBM3"}

L4, L40S, H100 = "l4-24gb", "l40s-48gb", "h100-sxm-80gb"


@dataclass
class LivePasses:
    """Passes, the store they read, and the number of demands of every call of the solver."""

    passes: Passes
    store: Store
    solved: list[list[str]] = field(default_factory=list)
    version: int = 1
    now: float = NOW

    @staticmethod
    def open(cache: Path, gpus: Mapping[str, int]) -> LivePasses:
        """An operator that has seen nothing yet, on one node of each GPU type."""
        made = LivePasses(new_passes(cache), new_store(0, 0))
        made.passes.solver = made.solve
        made.passes.live.reader = PrometheusSignals("http://nowhere.invalid")
        made.store.replace(NODES, [_node(kind, count) for kind, count in gpus.items()])
        return made

    def solve(self, demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
        """The usual solver, counted."""
        self.solved.append([demand.request.key.name for demand in demands])
        return DEFAULT_SOLVER(demands, stock)

    def put(self, name: str, *kinds: str, created: str = "03:00:00", namespace: str = "ns", **spec: Any) -> None:
        """A deployment that may use these GPU types; it fits one GPU of each."""
        load = {"model": {"name": "Qwen/Qwen2.5-7B-Instruct"}, "contextLength": 4096, "concurrency": 4}
        body = inference_deployment_body(name, uid=f"uid-{name}", spec=load | {"gpu": {"allow": list(kinds)}} | spec)
        body["metadata"] |= {"namespace": namespace, "creationTimestamp": f"2026-11-21T{created}Z"}
        self.store.observe(INFERENCE_DEPLOYMENTS, "ADDED", body)

    def change(self, name: str, generation: int = 2, **spec: Any) -> None:
        """Let the user change parts of a spec."""
        self.version += 1
        [body] = [each for each in self.store.all(INFERENCE_DEPLOYMENTS) if each["metadata"]["name"] == name]
        head = {**body["metadata"], "generation": generation, "resourceVersion": str(self.version)}
        changed = {**body, "metadata": head, "spec": {**body["spec"], **spec}}
        self.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", changed)

    def make(self) -> dict[str, Desired]:
        """One pass; only its own calls of the solver are counted."""
        self.solved.clear()
        return {case.key.name: case for case in self._pass().desired}

    def result(self) -> PassResult:
        """Make one pass, and return everything that it gives."""
        return self._pass()

    def snapshot(self) -> Snapshot:
        """Return the snapshot that one pass publishes."""
        return self._pass().snapshot

    async def settle(self) -> None:
        """Until everything that is decided serves and the statuses say so."""
        self._pass()
        await look_up(self.passes)
        for _ in range(3):
            self.carry_out(self._pass().desired)

    def carry_out(self, cases: Sequence[Desired]) -> None:
        """Let the cluster do what was decided."""
        self.version += 1
        carry_out(self.store, cases, self.version)

    def load(self, case: Desired, usage: float, *, capacity: int | None = None) -> None:
        """Let every engine of an object report this use of its KV cache throughout the window."""
        held = _predicted_tokens(case) if capacity is None else capacity
        pods = [pod.name for pod in case.outcome.deployment.placed.around.ready_pods()]
        samples = tuple(_sample(self.now - ago, usage, held) for ago in (19.0, 10.0, 1.0))
        self.passes.live.readings[case.key] = Reading({pod: PodSignals(pod, samples) for pod in pods})

    def has_been_enough(self, case: Desired, replicas: int = 1) -> None:
        """Let fewer replicas have been enough for as long as :data:`AUTO` asks for."""
        [active] = [pool.name for pool in case.outcome.deployment.placed.pools if pool.state is PoolState.ACTIVE]
        seen = enough_for(replicas, AUTO_COOLDOWN, now=self.now)
        self.passes.memory.turns = TurnMemo(self.passes.memory.turns.memories | {case.uid: replace(seen, pool=active)})

    def _pass(self) -> PassResult:
        return self.passes.make(self.store.picture(), {}, self.now)


Open = Callable[..., LivePasses]
"""Opens passes over nodes: the number of GPUs by ``l4``, ``l40s`` and ``h100``."""


def pools(case: Desired) -> dict[tuple[str, str], int]:
    """Replicas by GPU type and state, as decided."""
    assert case.outcome.decision is not None
    return {(pool.gpu_type, pool.state.value): pool.replicas for pool in case.outcome.decision.pools}


def live_part(case: Desired) -> dict[str, Any]:
    """The live loop's part of the new status."""
    assert case.new_status is not None
    return dict(case.new_status.get("rebalancing") or {})


def _predicted_tokens(case: Desired) -> int:
    assert case.outcome.decision is not None
    assert case.outcome.decision.choice is not None
    return case.outcome.decision.choice.estimate.kv_capacity_tokens


def _sample(at: float, usage: float, capacity: int) -> EngineSample:
    return EngineSample(
        at=at,
        kv_usage=usage,
        waiting=0,
        running=1,
        preemptions_total=0,
        kv_capacity_tokens=capacity,
        prompt_tokens_total=at,
        generation_tokens_total=at,
    )


def _node(kind: str, gpus: int) -> Body:
    body: Body = gpu_node(kind, PRODUCTS[kind], gpus)
    body["metadata"] |= {"uid": f"node-{kind}", "resourceVersion": "1"}
    return body
