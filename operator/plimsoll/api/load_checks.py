"""Checks of the declared load that need no facts of the model: the Python twins of the CRD's rules."""

from __future__ import annotations

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.domain.errors import InvalidInput

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
