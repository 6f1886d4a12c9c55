"""The operator's own law: each tick is one turn of its live loop, :func:`plimsoll.decision.turns.take_turn`.

The policy gives the turn what the operator reads from a cluster: the spec, the pods, the samples and the plan. Every
change has a place, unless the scenario's GPUs run out. The operator looks every 5 s, with the API's default
bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import cast

from benchmarks.placement.fleets import CATALOG
from benchmarks.rebalance.engines import most_sequences, steps_of
from benchmarks.rebalance.step_seconds import costs_of
from benchmarks.rebalance.values import EngineSpec, Scenario
from plimsoll.adapters.catalog import load_model_facts
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.app.settings import Settings
from plimsoll.decision.surroundings import Surroundings
from plimsoll.decision.turns import LoopTurn, Running, Standing, take_turn
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Option, Split, Target
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion, StepLimits
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.law.capacity import ReplicaModel
from plimsoll.rebalance.signals.forecast import LEAST_STARTUP_SECONDS, Past, Point, Season, season_of
from plimsoll.rebalance.signals.metrics import PodSignals, SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.decisions import Retune
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.simulation.loop import engine_sample, open_room
from plimsoll.simulation.peers.signals import serving
from plimsoll.simulation.peers.view import Order, PodView, Policy, View

MODEL = "Qwen/Qwen3-32B"
"""A request needs a model. The live loop reads nothing of it."""

Bounds = Mapping[str, int]
"""Fields of ``spec.rebalancing``."""

EVERY_SECONDS = 600.0
"""How often the operator looks at the days before."""

_TYPES = {gpu.name: gpu for gpu in CATALOG}

_sample = lru_cache(maxsize=10_000)(engine_sample)


@dataclass(slots=True)
class Ours:
    """The live loop of one deployment in Auto mode. ``turn`` is its last one."""

    spec: InferenceDeploymentSpec
    standing: Standing
    tick_seconds: float = field(default_factory=lambda: Settings().signals_seconds)
    turn: LoopTurn | None = None
    looks_back: bool = True
    _season: tuple[float, Season | None] = (-math.inf, None)

    def __call__(self, view: View) -> Order:
        """Take one turn."""
        self.turn = take_turn(
            self.spec,
            self.standing,
            running_of(view),
            surroundings_of(view),
            replace(reading_of(view), season=self._season_at(view)),
            room_of(view, self.standing.target_replicas),
            now=view.now,
        )
        self.standing = self.turn.standing
        change, ends = self.turn.decision, self.turn.ends
        order = Order(self.standing.target_replicas, replaces=self.standing.replacement is not None, ends=ends)
        if not isinstance(change, Retune) or not self.turn.acted:
            return order
        return replace(
            order, max_num_seqs=change.limits.sequences or None, max_batched_tokens=change.limits.step_tokens or None
        )

    def _season_at(self, view: View) -> Season | None:
        """Return the season as the operator knows it: made anew every ten minutes."""
        startup = self.standing.memory.startup_seconds or 0.0
        if not self.looks_back or not view.has_metrics or startup < LEAST_STARTUP_SECONDS:
            return None
        if view.now - self._season[0] >= EVERY_SECONDS:
            past = Past().with_points((Point(at, rate) for at, rate in view.past), view.now)
            cooldown = self.spec.rebalancing.cooldown_seconds
            self._season = view.now, season_of(past, view.now, startup, startup + cooldown)
        return self._season[1]


def ours(scenario: Scenario) -> Policy:
    """Make the loop with the default bounds."""
    return _loop(scenario, {})


def ours_today(scenario: Scenario) -> Policy:
    """Make the loop without a look at the days before."""
    return replace(_loop(scenario, {}), looks_back=False)


def _loop(scenario: Scenario, bounds: Bounds) -> Ours:
    """Make the loop. Where the deployment ran before, it has seen the longest start."""
    spec = spec_of(scenario, bounds)
    longest = None if scenario.past is None else scenario.cold_start_seconds * scenario.cold_start_spread[1]
    memory = LoopMemory("pool", startup_seconds=longest)
    return Ours(spec, Standing(spec.replicas, spec.replicas, ChangeHistory(), memory=memory))


def spec_of(scenario: Scenario, bounds: Bounds) -> InferenceDeploymentSpec:
    """Return the spec as a user would write it."""
    shape = shape_of(scenario.engine, scenario.declared_concurrency)
    limits = {"mode": "Auto", "minReplicas": scenario.min_replicas, "maxReplicas": scenario.max_replicas}
    return InferenceDeploymentSpec.model_validate(
        {
            "model": {"name": MODEL},
            "contextLength": shape.context_tokens,
            "concurrency": shape.concurrency,
            "replicas": scenario.start_replicas,
            "rebalancing": {**limits, **bounds},
        }
    )


def shape_of(engine: EngineSpec, concurrency: int) -> ServingShape:
    """Return the largest declared load that a replica holds: the KV cache in equal parts."""
    return ServingShape(max(1, engine.kv_tokens // concurrency), concurrency)


def figures_of(engine: EngineSpec) -> MemoryEstimate:
    """Return an estimate for a placement that fits, so that no move is proposed. Only its KV cache is read."""
    return MemoryEstimate(
        terms=(),
        margin_bytes=0,
        outside_bytes=0,
        usable_bytes=0,
        budget_bytes=0,
        kv_bytes_per_token=0,
        kv_needed_tokens=0,
        kv_capacity_tokens=engine.kv_tokens,
    )


def _engine_of(view: View) -> EngineSpec:
    """Return the engine that the scenario of the view has."""
    return cast("EngineSpec", view.engine)


def running_of(view: View) -> Running:
    """Return the placement as the operator knows it: its model is the operator's own, and not the true speed."""
    engine = _engine_of(view)
    return Running(
        figures=figures_of(engine),
        model=ReplicaModel(
            kv_tokens=engine.kv_tokens,
            limits=StepLimits(engine.max_batched_tokens, engine.max_num_seqs),
            costs=costs_of(engine.model, engine.gpu_type, engine.tensor_parallel),
            slo=Slo(view.ttft_seconds, view.tpot_seconds),
        ),
        most_sequences=most_sequences(engine),
        steps=partial(steps_of, engine),
        pool="pool",
    )


def surroundings_of(view: View) -> Surroundings:
    """Return the pods as the operator reads them from the API server."""
    return Surroundings({"pool": tuple(_pod_facts(pod) for pod in view.pods)}, {})


def _pod_facts(pod: PodView) -> PodFacts:
    ready = pod.ready_since is not None
    startup = None if pod.ready_since is None else pod.ready_since - pod.created_at
    return PodFacts(
        pod.name,
        bound=True,
        ready=ready,
        ended=False,
        terminating=False,
        ready_since=pod.ready_since,
        startup_seconds=startup,
        bound_since=pod.created_at,
    )


def reading_of(view: View) -> Reading:
    """Return what the operator reads."""
    if not view.has_metrics:
        return Reading(state=SignalState.UNAVAILABLE, error="Prometheus does not answer")
    kv_tokens = view.engine.kv_tokens
    return Reading(
        {
            pod.name: PodSignals(pod.name, tuple(_sample(each, kv_tokens) for each in pod.samples))
            for pod in serving(view)
            if pod.samples
        }
    )


def room_of(view: View, replicas: int) -> WhatIf:
    """Return answers for a deployment that runs, where changes have a place while GPUs are free."""
    return room_for(_engine_of(view), replicas, None if view.free is None else len(view.pods) + view.free)


@cache
def room_for(engine: EngineSpec, replicas: int, most: int | None) -> WhatIf:
    """Return answers for a deployment that runs, where there is room for so many replicas; None: for any number."""
    return open_room(_request(engine, replicas), _choice(engine), most)


def _choice(engine: EngineSpec) -> Option:
    """Return a replica as it runs. Only its settings are read of it."""
    split = Split(engine.tensor_parallel)
    settings = EngineSettings(
        max_model_len=engine.kv_tokens,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_batched_tokens,
        gpu_memory_utilization_percent=92,
        dtype="bfloat16",
        quantization=None,
        kv_cache_dtype="auto",
        enforce_eager=False,
    )
    target = Target(engine.gpu_type, split, ("gpu", engine.gpu_type), "nvidia.com/gpu")
    return Option(_TYPES[engine.gpu_type], target, settings, figures_of(engine))


def _request(engine: EngineSpec, replicas: int) -> Request:
    model = load_model_facts(MODEL)
    if model is None:
        raise LookupError(MODEL)
    return Request(
        key=ObjectKey("default", "benchmark"),
        model=model,
        precision=Precision.BF16,
        kv_precision=KvPrecision.BF16,
        shape=shape_of(engine, 1),
        engine=EngineChoice(EngineVersion(0, 32)),
        replicas=replicas,
    )
