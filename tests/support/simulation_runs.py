"""Simulation runs on a small model, whose runs take a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.direct import direct_question
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.placement.options.sizing import Sized, size_on
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.simulation.run import ReplicaKind, ReplicaLimits, SimulationRun, kind_of_replica
from plimsoll.simulation.workload import Workload

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
GPU = "l4-24gb"


@cache
def kind(concurrency: int = 4, context: int = 4096) -> ReplicaKind:
    """One replica of an 8B model on an L4, on which weights leave little room for the KV cache."""
    question = direct_question(MODEL, TypedOptions(context_length=context, concurrency=concurrency))
    assert question is not None
    gpu = next(each for each in load_gpu_types() if each.name == GPU)
    place = size_on(question.request, gpu, Split(1))
    assert isinstance(place, Sized)
    return kind_of_replica(question.request, place)


def with_limits(found: ReplicaKind, change: Callable[[ReplicaLimits], ReplicaLimits]) -> ReplicaKind:
    """The replica with other limits of its engine, and a model of it that knows them."""
    limits = change(found.limits)
    model = replace(found.model, kv_tokens=limits.kv_tokens).limited(StepLimits(sequences=limits.max_num_seqs))
    return replace(found, limits=limits, model=model)


def policy(most: int = 5, mode: Mode = Mode.AUTO) -> RebalancePolicy:
    """Bounds with the API's defaults."""
    return RebalancePolicy(mode=mode, max_replicas=most)


OFF = policy(1, Mode.OFF)

LIGHT = Workload(0.05, 300, 60, minutes=20)
"""Far below what one replica carries."""

HEAVY = Workload(4.0, 800, 300, minutes=10)
"""Far above it."""


def simulation_run(
    workload: Workload = HEAVY, bounds: RebalancePolicy = OFF, found: ReplicaKind | None = None, seed: int = 1
) -> SimulationRun:
    """A simulation run that starts replicas within two minutes."""
    return SimulationRun(kind() if found is None else found, workload, bounds, startup_seconds=120, seed=seed)
