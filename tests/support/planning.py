"""GPUs, nodes, fleets and requests in one line each, for tests of the pure core."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Taint
from plimsoll.domain.cluster.gpus import GpuType, Price, Vendor
from plimsoll.domain.cluster.node_rules import NodeRule
from plimsoll.domain.decisions.outcomes import Option, Outcome, Placed, Rejection, Split, Target, Unplaceable
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.engines.images import declared
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.placement.demands.pools import Pool, PoolState, Tenant, pool_name
from plimsoll.placement.places.place import place

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.3-70B-Instruct"
LLAMA_70B_FP8 = "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"

H100, A100, L40S, L4, T4, MI300X = (
    "h100-sxm-80gb",
    "a100-sxm-80gb",
    "l40s-48gb",
    "l4-24gb",
    "t4-16gb",
    "mi300x-192gb",
)

_TYPES = {gpu.name: gpu for gpu in load_gpu_types()}
ENGINE = EngineChoice(EngineVersion(0, 32))


def gpu(name: str, *, price: str | None = "catalogue") -> GpuType:
    """A catalogued type; ``price`` in US dollars per GPU and hour, or None for a type without a price."""
    if price == "catalogue":
        return _TYPES[name]
    return replace(_TYPES[name], price=None if price is None else Price(Decimal(price), "test"))


def architecture_rule(offered: tuple[str, ...]) -> NodeRule:
    """The rule for an image that is declared for these architectures."""
    return declared(f"linux/{each}" for each in offered).rules[0]


def model(name: str = LLAMA_8B) -> ModelFacts:
    """A catalogued model."""
    facts = load_model_facts(name)
    assert facts is not None, name
    return facts


def node(
    name: str,
    kind: GpuType | str,
    gpus: int = 8,
    *,
    held: int = 0,
    labels: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
) -> GpuNode:
    """A node with GPUs of one kind, reached by its product label."""
    kind = gpu(kind) if isinstance(kind, str) else kind
    nvidia = kind.vendor is Vendor.NVIDIA
    return GpuNode(
        name=name,
        gpu=kind,
        resource="nvidia.com/gpu" if nvidia else "amd.com/gpu",
        selector=("nvidia.com/gpu.product" if nvidia else "amd.com/gpu.product-name", kind.product_labels[0]),
        allocatable=gpus,
        held=held,
        labels=tuple(sorted((labels or {}).items())),
        taints=taints,
    )


def fleet(*nodes: GpuNode) -> Fleet:
    """A fleet of these nodes, in the order in which a cluster would be read."""
    return Fleet().with_nodes(nodes)


def request(
    facts: ModelFacts | str = LLAMA_8B,
    *,
    context: int = 4096,
    concurrency: int = 8,
    name: str = "llama",
    **changes: Any,
) -> Request:
    """A request as ``auto`` would resolve it; ``changes`` are fields of :class:`Request`."""
    facts = model(facts) if isinstance(facts, str) else facts
    checkpoint = facts.checkpoint
    precision = changes.pop("precision", None) or checkpoint.precision
    dtype = checkpoint.dtype if precision.is_quantized else precision
    automatic = checkpoint.kv_precision or (KvPrecision.FP16 if dtype is Precision.FP16 else KvPrecision.BF16)
    fields: dict[str, Any] = {
        "key": ObjectKey("default", name),
        "model": facts,
        "precision": precision,
        "kv_precision": automatic,
        "shape": ServingShape(context, concurrency),
        "engine": ENGINE,
    }
    return Request(**fields | changes)


def placed(wanted: Request, where: Fleet) -> Placed:
    """The placement, which must be there."""
    outcome = place(wanted, where)
    assert isinstance(outcome, Placed), refusals(outcome)
    return outcome


def unplaceable(wanted: Request, where: Fleet) -> Unplaceable:
    """The refusal, which must be there."""
    outcome = place(wanted, where)
    assert isinstance(outcome, Unplaceable), chosen(outcome.choice)
    return outcome


def chosen(choice: Option | None) -> tuple[str, int]:
    """Type and degree of a choice."""
    assert choice is not None
    return choice.gpu.name, choice.split.tensor_parallel


def refusals(outcome: Outcome) -> dict[tuple[str, int], Reason]:
    """Every turned-down candidate with its reason."""
    return {(each.gpu_type, each.split.tensor_parallel): each.reason for each in outcome.rejections}


def refusal(outcome: Outcome, kind: str, degree: int) -> Rejection:
    """The rejection of one candidate."""
    return next(each for each in outcome.rejections if (each.gpu_type, each.split.tensor_parallel) == (kind, degree))


def pool(kind: str, degree: int = 1, replicas: int = 1, **changes: Any) -> Pool:
    """An active pool of the first generation whose pods all serve."""
    there = node("any", kind)
    fields: dict[str, Any] = {
        "name": pool_name(kind, Split(degree)),
        "target": Target(kind, Split(degree), there.selector, there.resource),
        "state": PoolState.ACTIVE,
        "generation": 1,
        "replicas": replicas,
        "bound": replicas,
        "ready": replicas,
    }
    return Pool(**fields | changes)


def tenant(wanted: Request, *pools: Pool, generation: int = 1, **changes: Any) -> Tenant:
    """A deployment and what runs of it."""
    return Tenant(wanted, generation, pools, **changes)
