"""Checks of the declared load, the Python twins of the CRD's rules, and of the host memory that the user gives."""

from __future__ import annotations

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.api.v1alpha1.containers import ResourcesSpec
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.cluster.host import HostEstimate
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, ceil_div
from plimsoll.engines.registry import engine_of

_ONE_OF_THEM = "Write one of concurrency (requests of one replica) and totalConcurrency (requests of all replicas)."


def check_load(spec: InferenceDeploymentSpec) -> None:
    """Refuse a load that is declared twice or not at all. Raises :class:`InvalidInput`."""
    if spec.total_concurrency is None:
        _check_each(spec)
    else:
        _check_total(spec, spec.total_concurrency)


def _check_each(spec: InferenceDeploymentSpec) -> None:
    if spec.concurrency is None:
        raise InvalidInput("spec.concurrency", None, _ONE_OF_THEM)
    if spec.min_replicas is not None:
        raise InvalidInput(
            "spec.minReplicas", spec.min_replicas, "It belongs to totalConcurrency. With concurrency write replicas."
        )
    most = spec.engine.max_sequences
    if most is not None and most < spec.concurrency:
        raise InvalidInput(
            "spec.engine.maxSequences",
            most,
            f"Write at least the {spec.concurrency} of concurrency, lower concurrency, or remove it.",
        )


def _check_total(spec: InferenceDeploymentSpec, total: int) -> None:
    if spec.concurrency is not None:
        raise InvalidInput("spec.totalConcurrency", total, _ONE_OF_THEM)
    if spec.replicas != 1:
        raise InvalidInput(
            "spec.replicas",
            spec.replicas,
            "The planner chooses the number for totalConcurrency: remove it, or write minReplicas for the fewest.",
        )
    if spec.min_replicas is not None and spec.min_replicas > total:
        raise InvalidInput(
            "spec.minReplicas", spec.min_replicas, f"Write at most the {total} of totalConcurrency, or raise that."
        )


def check_host_memory(request: Request, resources: ResourcesSpec | None) -> None:
    """Refuse a memory request or limit that no GPU type and split can make do with.

    One GPU keeps the least in host memory: with more of them, each has a process and a share of its own.

    Raises:
        InvalidInput: with the field, its value and the least that works.
    """
    allowed = request.host_allowance
    if allowed is None:
        return
    host = engine_of(request.engine.name).host(request, Vendor.NVIDIA, Split(1))
    field, size = allowed
    if size < host.least_bytes:
        raise InvalidInput(field, _as_written(field, resources), _fix(host))


def _as_written(field: str, resources: ResourcesSpec | None) -> str | int | None:
    """Return the user's own spelling of the figure."""
    given = None if resources is None else resources.limits if ".limits." in field else resources.requests
    return None if given is None else given.get("memory")


def _fix(host: HostEstimate) -> str:
    kept = ", ".join(f"{term.name} {_gib(term.size_bytes)}" for term in host.terms if term.is_certain)
    return (
        f"The engine keeps {kept} in host memory: write at least {ceil_div(host.least_bytes, GIB)}Gi "
        f"(the whole pod is estimated at {host.memory_bytes // GIB}Gi), or remove the field, "
        "and the operator requests what is needed."
    )


def _gib(size: int) -> str:
    return f"{size / GIB:.4g}Gi"
