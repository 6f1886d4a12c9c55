"""The situations that break laws, each with a goal: Qwen3-32B in BF16 on two H100, unless it says otherwise.

Replicas are not alike, do not serve or do not help, signals are silent or slow, or demand is of a kind that no law can
follow. Each goal compares with a run of the same seed, mostly of the same law without what disturbs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks.rebalance.arrivals import Lengths, Stream, drawn
from benchmarks.rebalance.demand import constant, ramps, steps, turns
from benchmarks.rebalance.engines import sustained_rate
from benchmarks.rebalance.scenarios.situation import Goal, Group, Situation
from benchmarks.rebalance.scenarios.tuning import CHAT, DOCUMENTS, ENGINE, LONG, USUAL
from benchmarks.rebalance.scenarios.validation import ASSISTANT, SMALL
from benchmarks.rebalance.values import EngineSpec, Scenario
from plimsoll.simulation.values import FaultKind, InjectedFault, Routing

MINUTE = 60.0
HOUR = 3600.0
FAULT_AT = 10 * MINUTE
"""When a fault begins: by then each law has seen the load."""

_scenario = partial(Scenario, engine=ENGINE, declared_concurrency=64)
_situation = partial(Situation, group=Group.FAULTS)


def load_of(replicas: float, lengths: Lengths = USUAL, engine: EngineSpec = ENGINE) -> float:
    """Return the requests a second that so many replicas sustain, by the operator's performance model."""
    return replicas * sustained_rate(engine, lengths.prompt, lengths.output)


def faults() -> Iterator[Situation]:
    """Yield the situations."""
    yield from _of_one_pod()
    yield from _in_vain()
    yield from _of_signals_and_starts()
    yield from _of_demand()
    yield _last_gpus()


def _disturbed(scenario: Scenario, kind: FaultKind, replicas: int | None = None, amount: float = 1.0) -> Scenario:
    """Return a scenario with a fault from :data:`FAULT_AT` to its end."""
    fault = InjectedFault(kind, FAULT_AT, scenario.seconds - FAULT_AT, replicas, amount)
    return replace(scenario, faults=(fault,))


def _steady(name: str, seconds: float = 50 * MINUTE, routing: Routing = Routing.LEAST_LOADED) -> Scenario:
    """Return three replicas with a load that three keep with room for chance."""
    demand = constant(load_of(2.1), seconds)
    return _scenario(
        name=name, seconds=seconds, start_replicas=3, routing=routing, arrivals=drawn(Stream(demand, USUAL))
    )


def _of_one_pod() -> Iterator[Situation]:
    """Yield one pod of three that is slow, or that gets too much.

    A router that sends the same to each pod gives the slow one a third, until it is replaced.
    """
    for factor in (10.0, 2.5):
        for routing, points in ((Routing.LEAST_LOADED, 2.0), (Routing.TWO_CHOICES, 4.0), (Routing.RANDOM, 5.0)):
            even = _steady(f"SLOW{factor:g}-{routing.split('-')[0]}", routing=routing)
            yield _situation(
                _disturbed(even, FaultKind.SLOW_POD, replicas=1, amount=factor),
                f"each step of one of three pods takes {factor:g} times as long; the router is {routing.value}",
                goal=Goal(even, "if all are alike", points=points),
            )
    even = _steady("STICKY")
    yield _situation(
        _disturbed(even, FaultKind.STICKY, amount=0.5),
        "half of the requests stick to one of three pods: no number of replicas is the remedy",
        goal=Goal(even, "if the router decides", points=None),
    )


def _in_vain() -> Iterator[Situation]:
    """Yield additions that never serve, and additions that change nothing."""
    jump = steps(((0, load_of(1.4)), (FAULT_AT, load_of(2.6))), HOUR)
    step = _scenario(name="NEVERREADY", seconds=HOUR, start_replicas=2, arrivals=drawn(Stream(jump, USUAL)))
    yield _situation(
        replace(step, faults=(InjectedFault(FaultKind.STUCK_STARTS, 0, HOUR),)),
        "a step that needs more replicas, and no new pod ever gets ready: how many are started in vain?",
        rises=(FAULT_AT,),
        goal=Goal(step, "if they get ready", points=None),
    )
    quiet = _scenario(
        name="NOHELP",
        seconds=HOUR,
        start_replicas=2,
        arrivals=drawn(Stream(steps(((0, load_of(0.8)), (FAULT_AT, 0)), HOUR), USUAL)),
    )
    yield _situation(
        _disturbed(quiet, FaultKind.FULL_CACHE, amount=0.97),
        "every pod reports 97 % of its KV cache as used, and nothing arrives: replicas change nothing",
        goal=Goal(quiet, "if the cache is reported as it is"),
    )


def _of_signals_and_starts() -> Iterator[Situation]:
    fall = steps(((0, load_of(3.2)), (20 * MINUTE, load_of(0.8))), 2 * HOUR)
    known = _scenario(name="SILENTPOD", seconds=2 * HOUR, start_replicas=5, arrivals=drawn(Stream(fall, USUAL)))
    yield _situation(
        _disturbed(known, FaultKind.STALE_POD),
        "one of five ready pods has no metrics, and the load falls to a quarter: may four of them go?",
        goal=Goal(known, "if it has metrics", points=1.0, hours=1.3),
    )
    jump = steps(((0, load_of(1.6)), (FAULT_AT, load_of(4.4))), 75 * MINUTE)
    start = _scenario(name="START520", seconds=75 * MINUTE, start_replicas=2, arrivals=drawn(Stream(jump, USUAL)))
    yield _situation(
        replace(start, cold_start_seconds=520.0),
        "the first start takes 520 s, and nobody has seen one before: is it called stuck, and another one ordered?",
        rises=(FAULT_AT,),
        goal=Goal(start, "if a start takes 100 s", points=round(100 * (520 * 1.3 - 100 + 2 * MINUTE) / HOUR)),
    )
    crowd = steps(((0, load_of(1.4)), (FAULT_AT, load_of(3.6)), (2 * FAULT_AT, load_of(1.4))), 1.5 * HOUR)
    quick = _scenario(name="SCRAPE60-learn", seconds=1.5 * HOUR, start_replicas=2, arrivals=drawn(Stream(crowd, USUAL)))
    yield _situation(
        replace(quick, scrape_seconds=60.0),
        "a scrape a minute and ten minutes of overload: does what it taught about a replica hold for ever?",
        rises=(FAULT_AT,),
        goal=Goal(quick, "if a scrape takes 15 s", points=3.0, hours=1.1),
    )


def _of_demand() -> Iterator[Situation]:
    """Yield demand that a law follows badly, or not at all. The comparisons are mostly with a fleet of one size."""
    phases = [bool(index % 2) for index in range(4)]
    chats, documents = (
        turns(load_of(1.6, CHAT), 25 * MINUTE, phases),
        turns(load_of(3.2, DOCUMENTS), 25 * MINUTE, [not each for each in phases]),
    )
    flip = _scenario(
        name="FLIP",
        seconds=100 * MINUTE,
        start_replicas=4,
        arrivals=drawn(Stream(documents, DOCUMENTS), Stream(chats, CHAT)),
    )
    yield _situation(
        flip,
        "documents and chats take turns every 25 minutes: what limits a replica changes each time",
        goal=Goal(replace(flip, start_replicas=5), "five replicas", by_fleet=True, points=2.0, hours=1.0),
    )
    over = steps(((0, load_of(2.4)), (FAULT_AT, load_of(7)), (4 * FAULT_AT, load_of(2.4))), 1.5 * HOUR)
    most = _scenario(
        name="OVERLOAD", seconds=1.5 * HOUR, start_replicas=3, max_replicas=5, arrivals=drawn(Stream(over, USUAL))
    )
    yield _situation(
        most,
        "half an hour of more than the most replicas serve: do all of them serve, and what is learned from it?",
        rises=(FAULT_AT,),
        goal=Goal(replace(most, start_replicas=5), "five replicas", by_fleet=True, replicas=0, points=5.0, hours=1.0),
    )
    even = constant(load_of(1.2, ASSISTANT, SMALL), HOUR)
    calm = Scenario(
        name="FLASH20",
        engine=SMALL,
        declared_concurrency=48,
        seconds=even.seconds,
        start_replicas=2,
        max_replicas=12,
        arrivals=drawn(Stream(even, ASSISTANT)),
    )
    crowd = steps(((0, 0.0), (FAULT_AT, load_of(20, ASSISTANT, SMALL)), (FAULT_AT + 20, 0.0)), even.seconds)
    yield _situation(
        replace(calm, arrivals=drawn(Stream(even, ASSISTANT), Stream(crowd, ASSISTANT))),
        "twenty replicas' load for twenty seconds, over before any start ends: what does it cost?",
        goal=Goal(calm, "without the crowd", points=8.0, replicas=None, hours=1.5),
    )
    decay = _scenario(
        name="DECAY6H",
        seconds=6 * HOUR,
        start_replicas=6,
        arrivals=drawn(Stream(ramps(((0, load_of(5, LONG)), (6 * HOUR, load_of(0.5, LONG)))), LONG)),
    )
    yield _situation(
        decay,
        "demand for six replicas falls to nearly nothing in six hours: is each replica given back in time?",
        goal=Goal(replace(decay, start_replicas=6), "six replicas", by_fleet=True, replicas=0, points=1.0, hours=0.75),
    )
    jump = steps(((0, load_of(1.6)), (FAULT_AT, load_of(4.4))), HOUR)
    once = _scenario(name="RETRIES", seconds=HOUR, start_replicas=2, arrivals=drawn(Stream(jump, USUAL)))
    yield _situation(
        replace(once, tries=3),
        "clients that give up send their request again, twice: is a storm of them taken for demand?",
        rises=(FAULT_AT,),
        goal=Goal(once, "if they do not", points=10.0),
    )


def _last_gpus() -> Situation:
    """Return two deployments whose peaks do not fit together on the GPUs that there are."""
    seconds = 1.5 * HOUR
    early = steps(((0, load_of(1.4)), (FAULT_AT, load_of(3.2)), (45 * MINUTE, load_of(1.4))), seconds)
    late = steps(((0, load_of(1.4)), (FAULT_AT + MINUTE, load_of(3.2)), (70 * MINUTE, load_of(1.4))), seconds)
    other = _scenario(name="LASTGPUS", seconds=seconds, start_replicas=2, arrivals=drawn(Stream(late, USUAL)))
    both = replace(other, arrivals=drawn(Stream(early, USUAL)), neighbour=other, stock=7)
    fixed = replace(other, start_replicas=4)
    return _situation(
        both,
        "two deployments want more than the last GPUs, a minute after each other: does anything thrash?",
        rises=(FAULT_AT,),
        goal=Goal(
            replace(both, start_replicas=3, neighbour=fixed),
            "three and four replicas for ever",
            by_fleet=True,
            replicas=0,
            points=12.0,
            hours=1.0,
            flips=1,
        ),
    )
