"""The time of one engine step of a replica, by the project's own performance model."""

from __future__ import annotations

from copy import copy
from functools import lru_cache

from benchmarks.rebalance.values import EngineSpec
from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.api.precision import AUTO, cache_precision, weight_precision
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.performance.step_costs import StepCosts, step_costs

SIGNIFICANT_BITS = 7
"""Lengths and batches are rounded to so many binary digits, so that steps repeat: an error of at most 0.8 %."""


class StepTimes:
    """Seconds of the steps of one replica. Steps that differ by less than a rounding are computed once."""

    __slots__ = ("_costs", "_factor", "_known", "request_seconds")

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs
        self._factor = 1.0
        self._known: dict[tuple[int, int, int], float] = {}
        self.request_seconds = costs.request_seconds
        """The seconds of a request outside its steps."""

    def times(self, factor: float) -> StepTimes:
        """Return times of steps that are so many times as long. What is computed is shared."""
        found = copy(self)
        found._factor = self._factor * factor  # noqa: SLF001 - a copy of its own
        return found

    def step(self, decoding: int, context: float, prompt_tokens: int = 0) -> float:
        """Return the seconds of a step in which ``decoding`` requests generate a token behind ``context`` tokens each.

        ``prompt_tokens`` tokens of prompts ride along; :meth:`attention` is their attention.
        """
        key = rounded(decoding), rounded(int(context)), rounded(prompt_tokens)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._costs.step(*key).total
        return self._factor * found

    def attention(self, computed: int, upto: int) -> float:
        """Return the seconds of the attention of the tokens of one prompt from ``computed`` to ``upto``."""
        whole = self._costs.prompt_attention(upto)
        own = whole - self._costs.prompt_attention(computed) if computed else whole
        return self._factor * own


def rounded(number: int) -> int:
    """Round to :data:`SIGNIFICANT_BITS` binary digits; small numbers stay as they are."""
    shift = number.bit_length() - SIGNIFICANT_BITS
    return (number + (1 << shift - 1)) >> shift << shift if shift > 0 else number


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
