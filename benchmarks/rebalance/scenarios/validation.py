"""The situations that judge a law: real requests, and other models on other GPUs under other demand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.rebalance.arrivals import Lengths, Stream, drawn
from benchmarks.rebalance.demand import constant, noisy, ramps, sine, steps, turns
from benchmarks.rebalance.engines import engine_spec, sustained_rate
from benchmarks.rebalance.scenarios.situation import Group, Situation
from benchmarks.rebalance.traces import Replay
from benchmarks.rebalance.values import EngineSpec, Scenario
from plimsoll.simulation.values import FaultKind, InjectedFault, Routing

TRACE_ENGINE = engine_spec("Qwen/Qwen3-32B", "h100-sxm-80gb", 2)
SMALL = engine_spec("meta-llama/Llama-3.1-8B-Instruct", "l40s-48gb", 1)
_LARGE_MODEL = ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "h200-sxm-141gb", 2)
LARGE = engine_spec(*_LARGE_MODEL)
EXPERTS = engine_spec("Qwen/Qwen3-30B-A3B", "a100-sxm-80gb", 1)
OPEN = engine_spec("openai/gpt-oss-20b", "l40s-48gb", 1)
LARGE_LONG = engine_spec(*_LARGE_MODEL, context=131_072)

ASSISTANT = Lengths(1500, 350, spread=0.8)
WRITER = Lengths(700, 2500, spread=0.7)
REASONER = Lengths(300, 1800, spread=0.7)
ANALYST = Lengths(3500, 1000, spread=0.6)
SEARCH = Lengths(3500, 150, spread=0.6, cached=0.2)
_BOTH = (ASSISTANT, WRITER)

HOUR = 3600.0
TRACE_SECONDS = 3480.0
"""The Azure traces end soon after."""

_situation = partial(Situation, group=Group.VALIDATION)
_small = partial(Scenario, engine=SMALL, declared_concurrency=48, max_replicas=12)
_experts = partial(Scenario, engine=EXPERTS, declared_concurrency=32, max_replicas=12, cold_start_seconds=120)
_large = partial(Scenario, engine=LARGE, declared_concurrency=64, max_replicas=8, cold_start_seconds=180)


def validation() -> Iterator[Situation]:
    """Yield the situations."""
    yield from _traces()
    yield from _of_the_small_model()
    yield from _of_the_large_model()
    yield from _of_mixtures_of_experts()


def load_of(engine: EngineSpec, replicas: float, lengths: Lengths) -> float:
    """Return the requests a second that so many replicas sustain, by the operator's performance model."""
    return replicas * sustained_rate(engine, lengths.prompt, lengths.output)


def _traces() -> Iterator[Situation]:
    traced = partial(Scenario, engine=TRACE_ENGINE, seconds=TRACE_SECONDS, declared_concurrency=64)
    yield _situation(
        traced(name="azure-conv", start_replicas=2, arrivals=Replay("azure-conv-2023", 6, TRACE_SECONDS)),
        "real conversations at six times their rate: demand of minutes and hours, lengths of all kinds",
    )
    yield _situation(
        traced(
            name="azure-code", start_replicas=4, max_replicas=16, arrivals=Replay("azure-code-2023", 6, TRACE_SECONDS)
        ),
        "real code completion at six times its rate: silent minutes, and bursts for more than ten replicas",
    )
    yield _situation(
        Scenario(
            name="mooncake",
            engine=LARGE_LONG,
            seconds=1020,
            start_replicas=3,
            max_replicas=12,
            ttft_seconds=15,
            tpot_seconds=0.2,
            declared_concurrency=16,
            arrivals=Replay("mooncake-synthetic-2025", 1.5, 1020),
        ),
        "prompts of 15,000 tokens on average and up to 131,000, of which most may be in a prefix cache",
    )


def _of_the_small_model() -> Iterator[Situation]:
    even = constant(load_of(SMALL, 3.4, ASSISTANT), HOUR)
    yield _situation(
        _small(
            name="V-BURSTY",
            seconds=HOUR,
            start_replicas=4,
            routing=Routing.TWO_CHOICES,
            arrivals=drawn(Stream(even, ASSISTANT, burstiness=0.3)),
        ),
        "the mean demand never changes, but requests come in bursts of seconds: is noise taken for demand?",
    )
    jump = steps(((0, load_of(SMALL, 2.5, SEARCH)), (1200, load_of(SMALL, 7.5, SEARCH))), HOUR)
    yield _situation(
        _small(
            name="V-STEP",
            seconds=HOUR,
            start_replicas=3,
            cold_start_seconds=60,
            scrape_seconds=30,
            arrivals=drawn(Stream(jump, SEARCH)),
        ),
        "prompts with a shared beginning, and a step from three replicas to eight",
        rises=(1200,),
    )
    day = {each: sine(load_of(SMALL, 0.7, each), load_of(SMALL, 4, each), 4 * HOUR, periods=2) for each in _BOTH}
    yield _situation(
        _small(
            name="V-DAY",
            seconds=4 * HOUR,
            start_replicas=2,
            routing=Routing.RANDOM,
            arrivals=drawn(*(Stream(day[each], each, burstiness=0.6) for each in _BOTH)),
        ),
        "two days in four hours, long and short answers together, and requests that are routed at random",
    )
    phases = (True, False, True, False, True)
    yield _situation(
        _small(
            name="V-MIX",
            seconds=2.5 * HOUR,
            start_replicas=3,
            arrivals=drawn(
                Stream(turns(load_of(SMALL, 2.5, WRITER), HOUR / 2, phases), WRITER),
                Stream(turns(load_of(SMALL, 5.5, SEARCH), HOUR / 2, [not each for each in phases]), SEARCH),
            ),
        ),
        "long answers for three replicas and short ones for six take turns every half hour",
        rises=(HOUR / 2, 1.5 * HOUR),
    )


def _of_the_large_model() -> Iterator[Situation]:
    climb = ramps(((0, 0.3), (600, 0.3), (1500, load_of(LARGE, 5, WRITER)), (3600, load_of(LARGE, 5, WRITER))))
    yield _situation(
        _large(name="V-LONG", seconds=HOUR, arrivals=drawn(Stream(climb, WRITER))),
        "long answers and a climb from nearly nothing, with starts of 180 s",
    )
    peaks = steps(
        tuple(
            (1200.0 * index + later, load_of(LARGE, replicas, ASSISTANT))
            for index in range(6)
            for later, replicas in ((0, 1.4), (900, 3.4))
        ),
        2 * HOUR,
    )
    yield _situation(
        _large(name="V-PEAKS", seconds=2 * HOUR, start_replicas=2, arrivals=drawn(Stream(peaks, ASSISTANT))),
        "a peak of five minutes every twenty: does the law hold replicas, or start them too late each time?",
        rises=tuple(1200.0 * index + 900 for index in range(6)),
    )
    steady = steps(((0, load_of(LARGE, 2.5, ASSISTANT)), (2700, load_of(LARGE, 4.2, ASSISTANT))), 1.5 * HOUR)
    yield _situation(
        _large(
            name="V-FAULTS",
            seconds=1.5 * HOUR,
            start_replicas=3,
            arrivals=drawn(Stream(steady, ASSISTANT)),
            faults=(
                InjectedFault(FaultKind.NOT_A_NUMBER, 500, 400),
                InjectedFault(FaultKind.NO_METRICS, 1400, 600),
                InjectedFault(FaultKind.STUCK_STARTS, 2700, 2700, replicas=1),
            ),
        ),
        "NaN, then ten minutes without Prometheus, then a step for which the first new replica never gets ready",
        rises=(2700,),
    )


def _of_mixtures_of_experts() -> Iterator[Situation]:
    noise = noisy(sine(load_of(EXPERTS, 0.9, ANALYST), load_of(EXPERTS, 7.2, ANALYST), 3 * HOUR), 0.35, 120)
    yield _situation(
        _experts(name="V-NOISE", seconds=3 * HOUR, arrivals=drawn(Stream(noise, ANALYST, burstiness=0.7))),
        "a mixture of experts and a day in three hours: the peak is eight times the trough, with noise of a third",
    )
    on_and_off = steps(
        [(900.0 * index, load_of(EXPERTS, 5 if index % 2 else 0.3, ANALYST)) for index in range(8)], 2 * HOUR
    )
    yield _situation(
        _experts(name="V-ONOFF", seconds=2 * HOUR, arrivals=drawn(Stream(on_and_off, ANALYST))),
        "demand for five replicas is on for 15 minutes and off for 15: is what was given back missed?",
        rises=tuple(900.0 * index for index in (1, 3, 5, 7)),
    )
    climb = ramps(
        (
            (0, load_of(OPEN, 1.2, REASONER)),
            (900, load_of(OPEN, 1.2, REASONER)),
            (2700, load_of(OPEN, 4, REASONER)),
            (4500, load_of(OPEN, 1.2, REASONER)),
        )
    )
    yield _situation(
        Scenario(
            name="V-DECODE",
            engine=OPEN,
            seconds=4500,
            start_replicas=2,
            max_replicas=8,
            declared_concurrency=64,
            arrivals=drawn(Stream(climb, REASONER)),
        ),
        "short prompts and answers six times as long on a cheap card, which climb and fall: only tokens count",
    )
