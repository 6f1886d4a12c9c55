"""A situation of a user's own: a trace from a file, and the replica that shall serve it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.placement.fleets import CATALOG
from benchmarks.rebalance.engines import CONTEXT_TOKENS, engine_spec
from benchmarks.rebalance.fitting import fitting, room_of
from benchmarks.rebalance.scenarios.situation import Group, Situation
from benchmarks.rebalance.traces import replayed
from benchmarks.rebalance.values import EngineSpec, Scenario
from plimsoll.adapters.catalog import load_model_facts
from plimsoll.cli.reading.traces import read_trace
from plimsoll.simulation.values import Arrival


@dataclass(frozen=True, slots=True)
class Own:
    """A trace and all else that a run needs. Times are in seconds, the units are those of :class:`Scenario`."""

    trace: Path
    model: str = "Qwen/Qwen3-32B"
    gpu: str = "h100-sxm-80gb"
    tp: int = 2
    context_length: int = CONTEXT_TOKENS
    concurrency: int = 64
    rate_factor: float = 1.0
    cold_start: float = 100.0
    scrape: float = 15.0
    start_replicas: int = 1
    max_replicas: int = 10
    ttft: float = 2.0
    tpot: float = 0.1


@dataclass(frozen=True, slots=True)
class OwnReplay:
    """A trace of a file at a multiple of its rate, before a time in seconds."""

    trace: Path
    factor: float
    seconds: float

    def __call__(self, seed: int) -> tuple[Arrival, ...]:
        """Return the requests in the order of their arrival.

        Raises:
            ValueError: the file is wrong.
        """
        return replayed(read_trace(self.trace), self.factor, self.seconds, Random(f"own/{seed}"))  # noqa: S311


def own_situation(own: Own) -> Situation:
    """Return the situation of a user's own trace. It is measured until its last request has arrived.

    Raises:
        ValueError: the file, the model or the GPU type is wrong, or the model does not fit.
    """
    if own.start_replicas > own.max_replicas:
        raise ValueError(f"--start-replicas: {own.start_replicas} is more than --max-replicas, {own.max_replicas}")
    seconds = math.floor(read_trace(own.trace)[-1].at) + 1.0
    scenario = Scenario(
        name=own.trace.name.split(".")[0],
        engine=_engine(own),
        seconds=seconds,
        arrivals=OwnReplay(own.trace, own.rate_factor, seconds),
        start_replicas=own.start_replicas,
        max_replicas=own.max_replicas,
        cold_start_seconds=own.cold_start,
        scrape_seconds=own.scrape,
        ttft_seconds=own.ttft,
        tpot_seconds=own.tpot,
        declared_concurrency=own.concurrency,
    )
    return Situation(scenario, f"{own.trace} at {own.rate_factor:g} times its rate{_cuts(scenario, own)}", Group.OWN)


def _cuts(scenario: Scenario, own: Own) -> str:
    """Return words on the requests that the engine cannot hold as they are; nothing where there is none."""
    requests = read_trace(own.trace)
    count = sum(fitting(each, scenario.engine) is not each for each in requests)
    room = room_of(scenario.engine)
    return f"; {count} of {len(requests)} requests are longer than {room} tokens, and cut" if count else ""


def _engine(own: Own) -> EngineSpec:
    if load_model_facts(own.model) is None:
        raise ValueError(f"--model: {own.model!r} is not in the catalogue; see `plimsoll models`")
    if own.gpu not in {gpu.name for gpu in CATALOG}:
        raise ValueError(f"--gpu: {own.gpu!r} is not in the catalogue; see `plimsoll gpus`")
    return engine_spec(own.model, own.gpu, own.tp, context=own.context_length)
