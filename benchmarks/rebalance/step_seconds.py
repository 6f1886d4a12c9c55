"""The time of one engine step of a replica, by the project's own performance model."""

from __future__ import annotations

from functools import lru_cache

from benchmarks.rebalance.values import EngineSpec
from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.api.conversion.precision import AUTO, cache_precision, weight_precision
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import ModelFacts
from plimsoll.performance.step_costs import StepCosts, step_costs
from plimsoll.simulation.engine import StepTimes


@lru_cache(maxsize=64)
def step_times(model: str, gpu_type: str, tensor_parallel: int) -> StepTimes:
    """Return the times of a catalogued model in its own formats. All replicas of a kind share what is computed.

    Raises:
        ValueError: the catalogue does not have the model or the GPU type.
    """
    return StepTimes(costs_of(model, gpu_type, tensor_parallel))


@lru_cache(maxsize=64)
def costs_of(model: str, gpu_type: str, tensor_parallel: int) -> StepCosts:
    """Return the costs of a step by the operator's performance model.

    Raises:
        ValueError: the catalogue does not have the model or the GPU type.
    """
    facts = _model(model)
    precision = weight_precision(AUTO, facts)
    kv_precision = cache_precision(AUTO, facts, precision)
    return step_costs(facts, precision, kv_precision, _gpu(gpu_type), Split(tensor_parallel))


def times_of(spec: EngineSpec) -> StepTimes:
    """Return the times of a replica's steps.

    Raises:
        ValueError: the catalogue does not have the model or the GPU type.
    """
    return step_times(spec.model, spec.gpu_type, spec.tensor_parallel)


def _model(name: str) -> ModelFacts:
    found = load_model_facts(name)
    if found is None:
        raise ValueError(f"model: {name!r} is not in the catalogue; see `plimsoll models`")
    return found


def _gpu(name: str) -> GpuType:
    for gpu in load_gpu_types():
        if gpu.name == name:
            return gpu
    raise ValueError(f"gpu_type: {name!r} is not in the catalogue; see `plimsoll gpus`")
