"""The situations that a law may be tuned on: Qwen3-32B in BF16, usually on two H100, with requests drawn at random."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.rebalance.arrivals import Lengths, Stream, drawn
from benchmarks.rebalance.demand import Demand, constant, ramps, sine, steps, turns
from benchmarks.rebalance.engines import engine_spec, rate_with_kv, sustained_rate
from benchmarks.rebalance.scenarios.situation import Group, Situation
from benchmarks.rebalance.values import EngineSpec, Scenario
from plimsoll.simulation.values import FaultKind, InjectedFault

MODEL = ("Qwen/Qwen3-32B", "h100-sxm-80gb", 2)
ENGINE = engine_spec(*MODEL)
CHEAP_ENGINE = engine_spec("Qwen/Qwen3-32B", "a100-sxm-80gb", 2)

LONG = Lengths(4000, 1000)
DECODE = Lengths(1000, 4000)
PROMPTS = Lengths(6000, 2)
SHORT = Lengths(1000, 250)
EVEN = Lengths(2000, 2000)
USUAL = Lengths(2000, 500)
CHAT = Lengths(600, 400)
DOCUMENTS = Lengths(6000, 100)

NO_RHYTHM = 60.0
"""A promise per token that always holds, in seconds: where an answer is two tokens, only the first one matters."""

HOUR = 3600.0
MINUTE = 60.0

_scenario = partial(Scenario, engine=ENGINE, declared_concurrency=64)
_situation = partial(Situation, group=Group.TUNING)


def tuning() -> Iterator[Situation]:
    """Yield the situations."""
    yield from _constant()
    yield from _changing()
    yield from _of_others()
    yield from _faulty()
    yield from _declared()
    yield from _starting()


def load_of(replicas: float, lengths: Lengths, engine: EngineSpec = ENGINE) -> float:
    """Return the requests a second that so many replicas sustain, by the operator's performance model."""
    return replicas * sustained_rate(engine, lengths.prompt, lengths.output)


def _constant() -> Iterator[Situation]:
    """Yield constant demand from the start, on one replica at first."""
    half_hour = partial(_scenario, seconds=HOUR / 2)
    alone = partial(_situation, rises=(0.0,))
    yield alone(
        half_hour(name="S1", arrivals=drawn(Stream(constant(8, HOUR / 2), LONG))),
        "one replica meets a load for six at once: does the law add them in time, and how many at a time?",
    )
    yield alone(
        _scenario(name="S2", seconds=HOUR, arrivals=drawn(Stream(constant(4, HOUR), DECODE))),
        "answers are long, so that the KV cache fills for minutes after requests were let in",
    )
    yield alone(
        half_hour(name="S3", arrivals=drawn(Stream(constant(8, HOUR / 2), PROMPTS)), tpot_seconds=NO_RHYTHM),
        "only prompts count, and the KV cache stays nearly empty under overload",
    )
    yield alone(
        half_hour(name="S3b", arrivals=drawn(Stream(constant(30, HOUR / 2), SHORT))),
        "many short requests: the time per token breaks before the KV cache fills",
    )
    steady = 2 * rate_with_kv(ENGINE, EVEN.prompt, EVEN.output, 0.7)
    yield _situation(
        _scenario(
            name="S5", seconds=2 * HOUR, start_replicas=2, arrivals=drawn(Stream(constant(steady, 2 * HOUR), EVEN))
        ),
        "two replicas hold 70 % of their KV cache for ever: does the law leave them alone?",
    )


def _changing() -> Iterator[Situation]:
    """Yield demand that changes."""
    burst = steps(((0, 0.01), (900, load_of(5.5, USUAL)), (1800, 0.01)), 2700)
    yield _situation(
        _scenario(name="S9", seconds=2700, arrivals=drawn(Stream(burst, USUAL))),
        "nearly idle on one replica, then a burst of 15 minutes for six, with starts of 100 s",
        rises=(900,),
    )
    jump = steps(((0, load_of(1.6, USUAL)), (600, load_of(6.4, USUAL))), 2700)
    yield _situation(
        _scenario(name="B5", seconds=2700, start_replicas=2, arrivals=drawn(Stream(jump, USUAL))),
        "steady on two replicas, then a step that needs seven",
        rises=(600,),
    )
    day = sine(load_of(0.8, LONG), load_of(6.5, LONG), 6 * HOUR)
    yield _situation(
        _scenario(name="DAY", seconds=6 * HOUR, arrivals=drawn(Stream(day, LONG))),
        "a day in six hours, from one replica to seven and back: what does following it cost?",
    )
    yield _situation(
        _scenario(name="MIX", seconds=3 * HOUR, start_replicas=4, arrivals=drawn(*_mix())),
        "documents for five replicas and chats for two take turns every 45 minutes: what was learned must be unlearned",
        rises=(90 * MINUTE,),
    )


def _mix() -> tuple[Stream, Stream]:
    phases, phase = (True, False, True, False), 45 * MINUTE
    documents = turns(load_of(4.5, DOCUMENTS), phase, phases)
    chats = turns(load_of(1.6, CHAT), phase, [not each for each in phases])
    return Stream(documents, DOCUMENTS), Stream(chats, CHAT)


def _of_others() -> Iterator[Situation]:
    """Yield what one model sees of other GPU types and other models."""
    first = steps(((0, 0), (600, load_of(3.5, USUAL, CHEAP_ENGINE))), 2700)
    yield _situation(
        _scenario(name="S4", engine=CHEAP_ENGINE, seconds=2700, arrivals=drawn(Stream(first, USUAL))),
        "a GPU type at half the price on which nothing ran before: what one replica holds is unknown when demand comes",
        rises=(600,),
    )
    bursts = steps(
        (
            (0, load_of(1.5, USUAL)),
            (600, load_of(4.5, USUAL)),
            (1500, load_of(1.5, USUAL)),
            (2400, load_of(4.5, USUAL)),
        ),
        HOUR,
    )
    yield _situation(
        _scenario(
            name="S6",
            seconds=HOUR,
            start_replicas=2,
            arrivals=drawn(Stream(bursts, USUAL)),
            faults=(InjectedFault(FaultKind.NO_ROOM, 1500, 1200),),
        ),
        "two bursts; another model has taken all GPUs that were given back when the second one comes, for five minutes",
        rises=(600, 2400),
    )


def _faulty() -> Iterator[Situation]:
    """Yield situations in which something breaks."""
    shortage = steps(((0, load_of(1.6, USUAL)), (300, load_of(5, USUAL)), (1200, load_of(1.2, USUAL))), HOUR)
    yield _situation(
        _scenario(
            name="S7",
            seconds=HOUR,
            start_replicas=2,
            arrivals=drawn(Stream(shortage, USUAL)),
            faults=(InjectedFault(FaultKind.NO_ROOM, 240, 1260),),
        ),
        "no GPU is free while demand is high, then demand drops: are the pending replicas taken back?",
    )
    climb = ramps(((0, load_of(1.6, USUAL)), (600, load_of(1.6, USUAL)), (1200, load_of(3.5, USUAL)), (2400, 0)))
    yield _situation(
        _scenario(
            name="S8",
            seconds=2400,
            start_replicas=2,
            arrivals=drawn(Stream(climb, USUAL)),
            faults=(InjectedFault(FaultKind.NO_METRICS, 700, 300),),
        ),
        "Prometheus is silent for five minutes while demand rises",
    )
    zero = steps(((0, load_of(2.4, USUAL)), (3000, 0), (3900, load_of(2.4, USUAL))), 4800)
    yield _situation(
        _scenario(
            name="S8n",
            seconds=4800,
            start_replicas=3,
            arrivals=drawn(Stream(zero, USUAL)),
            faults=(InjectedFault(FaultKind.STALE_POD, 600, 600), InjectedFault(FaultKind.NOT_A_NUMBER, 1800, 600)),
        ),
        "the samples of one pod stop, then they are NaN, then there is no traffic for 15 minutes",
        rises=(3900,),
    )
    stuck = steps(((0, load_of(1.6, USUAL)), (300, load_of(4.4, USUAL))), HOUR)
    yield _situation(
        _scenario(
            name="STUCK",
            seconds=HOUR,
            start_replicas=2,
            arrivals=drawn(Stream(stuck, USUAL)),
            faults=(InjectedFault(FaultKind.STUCK_STARTS, 0, HOUR, replicas=1),),
        ),
        "the first replica that is added never gets ready: are the others added?",
        rises=(300,),
    )


def _declared() -> Iterator[Situation]:
    """Yield the same load with other declared concurrencies, which are the engine's limit too."""
    for number in (16, 44, 256):
        yield _situation(
            _scenario(
                name=f"CONC{number}",
                engine=engine_spec(*MODEL, sequences=number),
                seconds=HOUR,
                start_replicas=2,
                arrivals=drawn(Stream(constant(4, HOUR), LONG)),
                declared_concurrency=number,
            ),
            f"an engine that runs {number} requests at the same time, as declared: is the limit that binds seen?",
            rises=(0.0,),
        )


def _starting() -> Iterator[Situation]:
    """Yield slow scrapes and slow starts."""
    jump = steps(((0, load_of(1.6, USUAL)), (600, load_of(5.4, USUAL))), 2700)
    yield _situation(
        _scenario(
            name="SCRAPE60", seconds=2700, start_replicas=2, scrape_seconds=60, arrivals=drawn(Stream(jump, USUAL))
        ),
        "a scrape a minute: does the law still decide, and in time?",
        rises=(600,),
    )
    for seconds in (60, 100, 300, 600):
        yield _situation(
            _scenario(
                name=f"START{seconds}",
                seconds=2 * HOUR,
                start_replicas=2,
                cold_start_seconds=seconds,
                arrivals=drawn(Stream(_hill(), LONG)),
            ),
            f"demand climbs from two replicas to six in 40 minutes and back, and a start takes {seconds} s",
        )


def _hill() -> Demand:
    low, high = load_of(1.6, LONG), load_of(5.5, LONG)
    points = ((0, low), (600, low), (3000, high), (4200, high), (6600, low), (7200, low))
    return ramps(points)
