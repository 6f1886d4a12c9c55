"""Generated clusters and deployments: 1,250 nodes as labellers label them, and tenants of five models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion, StepLimits
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape, TotalLoad
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.nodes import eligible_nodes
from testbed.fleet import gpu_node

NODES = 1250
PRODUCTS = (("H100-80GB-HBM3", 8), ("A100-SXM4-80GB", 8), ("L40S", 4), ("L4", 1), ("MI300X", 8))
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-20b",
    "Qwen/Qwen2.5-7B-Instruct",
)
CATALOG = load_gpu_types()


@dataclass(frozen=True, slots=True)
class World:
    """A cluster and its deployments at one moment."""

    fleet: Fleet
    tenants: tuple[Tenant, ...]

    def read_anew(self) -> World:
        """The same facts as the operator's next pass has them after a change elsewhere (``ReadingMemo``).

        Requests and nodes are the same objects while nothing about them changes; the fleet is a new object, which knows
        no answer yet. If no node and no pod has changed at all, a pass gets the last fleet itself, and takes less time.
        """
        return replace(self, fleet=replace(self.fleet))

    def with_new_nodes(self) -> World:
        """The same facts, with every node read again into new objects, as if each had changed."""
        held = {node.name: node.held for node in self.fleet.nodes}
        nodes = (replace(node, held=held[node.name]) for node in empty_fleet(len(held)).nodes)
        return replace(self, fleet=self.fleet.with_nodes(nodes))


def empty_fleet(nodes: int = NODES) -> Fleet:
    """Nodes of five kinds with nothing on them."""
    bodies = []
    for index in range(nodes):
        product, gpus = PRODUCTS[index % len(PRODUCTS)]
        bodies.append(gpu_node(f"n{index:04d}", product, gpus, zone=f"zone-{index % 3}"))
    return read_fleet(bodies, (), CATALOG)


def full(fleet: Fleet) -> Fleet:
    """The same nodes with every GPU held."""
    return fleet.with_nodes(replace(node, held=node.allocatable) for node in fleet.nodes)


def newcomers(count: int, *, first: int = 0, alike: bool = True) -> tuple[Tenant, ...]:
    """Deployments of the five models in turn; of 20 loads, or each with a load of its own where they are not alike."""
    facts = [_facts(name) for name in MODELS]
    return tuple(_newcomer(facts[index % len(facts)], index, alike=alike) for index in range(first, first + count))


def half_with_totals(count: int) -> tuple[Tenant, ...]:
    """Deployments of 40 different requests. Half of them declare the load of all their replicas together."""
    return tuple(
        _with_total(tenant, 24 * (1 + index // len(MODELS) % 4)) if index // 20 % 2 else tenant
        for index, tenant in enumerate(newcomers(count))
    )


def too_large(count: int) -> tuple[Tenant, ...]:
    """Deployments that fit no node of the fleet, whoever leaves it."""
    facts = _facts("meta-llama/Llama-3.1-8B-Instruct")
    shapes = (ServingShape(131_072, 2_000 + index) for index in range(count))
    return tuple(Tenant(_request(facts, f"large-{index:03d}", shape), 1) for index, shape in enumerate(shapes))


def running(fleet: Fleet, decisions: Sequence[Decision]) -> World:
    """The world once every pod of these decisions is bound and serves."""
    ledger = Ledger.of(fleet)
    for decision in decisions:
        for pool in decision.pools:
            nodes = eligible_nodes(decision.request, fleet, pool.gpu_type)
            ledger = ledger.take(nodes, pool.split.shape, pool.replicas)
    held = (replace(node, held=node.allocatable - ledger.free[node.account]) for node in fleet.nodes)
    tenants = (Tenant(each.request, 1, tuple(_serving(pool) for pool in each.pools)) for each in decisions)
    return World(fleet.with_nodes(held), tuple(tenants))


def _newcomer(facts: ModelFacts, index: int, *, alike: bool) -> Tenant:
    load = index // len(MODELS) % 4 if alike else index
    shape = ServingShape(4096 * (1 + load % 4), 4 + load)
    return Tenant(_request(facts, f"d{index:04d}", shape), 1)


def _with_total(tenant: Tenant, requests: int) -> Tenant:
    shape = replace(tenant.request.shape, concurrency=requests)
    return replace(tenant, request=replace(tenant.request, shape=shape, total=TotalLoad(requests)))


def _request(facts: ModelFacts, name: str, shape: ServingShape) -> Request:
    return Request(
        key=ObjectKey("default", name),
        model=facts,
        precision=facts.checkpoint.precision,
        kv_precision=facts.checkpoint.kv_precision or _automatic(facts),
        shape=shape,
        engine=EngineChoice(EngineVersion(0, 32)),
    )


def _automatic(facts: ModelFacts) -> KvPrecision:
    return KvPrecision.FP16 if facts.checkpoint.dtype is Precision.FP16 else KvPrecision.BF16


def _facts(name: str) -> ModelFacts:
    facts = load_model_facts(name)
    if facts is None:
        raise LookupError(f"{name} is not in the catalogue")
    return facts


def _serving(pool: PlannedPool) -> Pool:
    return Pool(
        name=pool.name,
        target=pool.target,
        state=pool.state,
        generation=pool.generation,
        replicas=pool.replicas,
        bound=pool.replicas,
        ready=pool.replicas,
        served=True,
        limits=StepLimits(step_tokens=pool.step_tokens or 0),
    )
