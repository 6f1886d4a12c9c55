"""A deployment's own requests once more, under each scaling law: what it would have served, cost and changed.

The live loop is the one of the simulator, :class:`~plimsoll.simulation.loop.Loop`. The other laws are those of
:mod:`plimsoll.simulation.peers`, and a fixed number of replicas is one of them. All see the same requests and the same
start-ups. Engines take many steps at once while nothing comes, so that a week of requests takes minutes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, inf
from typing import Final

from plimsoll.domain.errors import InvalidInput
from plimsoll.performance.slo import INTERACTIVE
from plimsoll.rebalance.signals.forecast import LEAST_STARTUP_SECONDS, STEP_SECONDS, Past, Point, Season, season_of
from plimsoll.rebalance.state.policy import RebalancePolicy, ScheduledMinimum
from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.draws import Draws, seed_for
from plimsoll.simulation.engine import StepTimes
from plimsoll.simulation.fleet import Replica, SimulatedFleet, Stage, SteadyRules
from plimsoll.simulation.gateway import Gateway
from plimsoll.simulation.loop import HISTORY_SECONDS, Loop, Scrapes
from plimsoll.simulation.peers import keda
from plimsoll.simulation.peers.dynamo_sla import dynamo_sla
from plimsoll.simulation.peers.kpa import kpa
from plimsoll.simulation.peers.static import static
from plimsoll.simulation.peers.view import Maker, Order, PodView, Policy, View
from plimsoll.simulation.peers.wva_v2 import wva_v2
from plimsoll.simulation.run import ReplicaKind
from plimsoll.simulation.values import Arrival, Fate, Routing, Sample, SimulatedRequest
from plimsoll.simulation.verdicts import Change, flips, keeps, real_changes

OURS: Final = "plimsoll"
PEERS: Final[dict[str, Maker]] = {
    "keda-running-24": keda.keda(keda.running, keda.RUNNING_TARGET),
    "wva-v2": wva_v2(),
    "dynamo-sla": dynamo_sla,
    "kpa": kpa,
}
"""One law of each other project, with its defaults: docs/rebalance-benchmark.md has all of them."""

ENOUGH_PERCENT: Final = 98.5
"""The goodput that the smallest static fleet must keep, as in docs/rebalance-benchmark.md."""

MOST_REQUESTS: Final = 1_000_000
"""The most requests of a replay. Each takes about 0.1 ms for each law."""

MOST_SECONDS: Final = 31 * 86_400.0
"""The longest time that is replayed: a month."""

DAYS_LOOK_SECONDS: Final = 600.0
"""How often the live loop looks at the days before."""

FOLD_SECONDS: Final = 600.0
"""How often requests that have ended are counted and forgotten."""

_HOUR: Final = 3600.0
_HIGH: Final = 0.95
_MIDDLE: Final = 0.5

Progress = Callable[[str, float], None]
"""Is called with the name of a law and the part of its run that is over, 0 to 1."""

Schedule = Callable[[float], Sequence[ScheduledMinimum]]
"""The scheduled minima at a moment, in seconds since the beginning; so are the times at which they begin."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The requests to serve once more, and what serves them.

    Attributes:
        kind: one replica.
        arrivals: the requests in the order of their arrival, in seconds since the beginning.
        seconds: how long the time is.
        policy: the bounds of every law.
        replicas: those that serve at the beginning, and the static fleet.
        startup_seconds: from the creation of a replica until it serves.
        patience_seconds: how long a client waits for its first token.
        scrape_seconds: the time between two scrapes, and between two turns of the live loop.
        drain_seconds: how long a removed replica may finish its requests.
        schedule: the schedule of the deployment; None: it has none.
        routing: how requests find their replicas.
        kept_tokens: the tokens of prompts that a replica keeps, those in host memory included; None: its KV cache's.
        seed: of routes, and of the moments of scrapes.
    """

    kind: ReplicaKind
    arrivals: Sequence[Arrival]
    seconds: float
    policy: RebalancePolicy
    replicas: int = 1
    startup_seconds: float = 300.0
    patience_seconds: float = 60.0
    scrape_seconds: float = 30.0
    drain_seconds: float = 90.0
    schedule: Schedule | None = None
    routing: Routing = Routing.LEAST_LOADED
    kept_tokens: int | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be replayed.

        Raises:
            InvalidInput: there is no request, there are too many, or the time is too long.
        """
        if not self.arrivals:
            raise InvalidInput("requests", 0, "Nothing came in this time. Name a time with requests.")
        if len(self.arrivals) > MOST_REQUESTS:
            fix = f"At most {MOST_REQUESTS:,} can be replayed. Name a shorter time."
            raise InvalidInput("requests", len(self.arrivals), fix)
        if not 0 < self.seconds <= MOST_SECONDS:
            raise InvalidInput("seconds", round(self.seconds), f"Use more than 0 and {MOST_SECONDS:,.0f} at most.")

    @property
    def ttft_seconds(self) -> float:
        """The promised time to the first token; that of people who read along if there is none."""
        return self.kind.model.slo.ttft_seconds or INTERACTIVE.ttft_seconds or 0.0

    @property
    def tpot_seconds(self) -> float:
        """The promised time of each later token, in the same way."""
        return self.kind.model.slo.tpot_seconds or INTERACTIVE.tpot_seconds or 0.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """The figures of one law.

    ``changes`` are changes of the number of replicas, and restarts of all engines with other settings. ``goodput`` is
    the per cent of requests that were served with both promises kept, and ``errors`` those whose client gave up or
    whose replica ended. ``found`` is the per cent of the tokens of prompts that were in a prefix cache.
    ``usd`` is None if the GPU type has no price. ``flips`` are explained at
    :func:`~plimsoll.simulation.verdicts.flips`. ``ttft_p95_seconds`` is None if nobody got a token.
    """

    law: str
    requests: int
    goodput: float
    errors: float
    gpu_hours: float
    usd: float | None
    changes: int
    flips: int
    fewest: int
    most: int
    ttft_p95_seconds: float | None
    ttft_p50_seconds: float | None
    found: float


@dataclass(frozen=True, slots=True)
class Routed:
    """The figures of a way of routing: of the replicas that are asked about, and the fewest that suffice, if any do."""

    routing: Routing
    asked: Replayed
    fewest: int | None


def routed(replay: Replay, ways: Sequence[Routing], progress: Progress | None = None) -> Iterator[Routed]:
    """Yield the figures of each way of routing, with the number of replicas that the spec asks for."""
    for way in ways:
        tried = replace(replay, routing=way)
        asked = served(tried, replay.replicas, progress)
        smallest = _smallest(tried, asked, progress)
        yield Routed(way, asked, None if smallest is None else smallest.most)


def served(replay: Replay, replicas: int, progress: Progress | None = None) -> Replayed:
    """Return the figures of a fixed number of replicas."""
    return _governed(replay, _fixed(replicas), progress)


def replayed(replay: Replay, progress: Progress | None = None) -> Iterator[Replayed]:
    """Yield the figures of the live loop, of static fleets, and of the other laws.

    The static fleets are that of the spec, and the smallest that keeps :data:`ENOUGH_PERCENT`, if one does.
    """
    yield _governed(replay, _Law(OURS), progress)
    own = served(replay, replay.replicas, progress)
    yield own
    smallest = _smallest(replay, own, progress)
    if smallest is not None and smallest.most != own.most:
        yield smallest
    for name, maker in PEERS.items():
        yield _governed(replay, _Law(name, maker), progress)


def _smallest(replay: Replay, known: Replayed, progress: Progress | None) -> Replayed | None:
    """Return the smallest static fleet that suffices, by halving; None if the largest does not."""
    found = known if known.goodput >= ENOUGH_PERCENT else None
    low, high = (1, known.most - 1) if found else (known.most + 1, replay.policy.max_replicas)
    while low <= high:
        middle = (low + high) // 2
        tried = served(replay, middle, progress)
        if tried.goodput >= ENOUGH_PERCENT:
            found, high = tried, middle - 1
        else:
            low = middle + 1
    return found


@dataclass(frozen=True, slots=True)
class _Law:
    """The law that decides. Without a maker the live loop does; ``fixed`` is a number that no bound changes."""

    name: str
    maker: Maker | None = None
    fixed: int | None = None


def _fixed(replicas: int) -> _Law:
    return _Law(f"static {replicas}", static(replicas), replicas)


def _governed(replay: Replay, law: _Law, progress: Progress | None) -> Replayed:
    return _Run(replay, law, progress or (lambda _law, _part: None)).result()


@dataclass(slots=True)
class _Tally:
    """The fates of the requests that have ended."""

    replay: Replay
    ended: int = 0
    kept: int = 0
    failed: int = 0
    first: list[float] = field(default_factory=list)

    def count(self, request: SimulatedRequest) -> None:
        """Count a request that has ended."""
        answered = request.answered
        self.ended += 1
        self.kept += keeps(answered, self.replay)
        self.failed += answered.fate is not Fate.SERVED
        if answered.ttft_seconds is not None:
            self.first.append(answered.ttft_seconds)


@dataclass(slots=True)
class _Days:
    """The days before, as the live loop knows them: what came in each step, looked at every ten minutes."""

    replay: Replay
    _past: Past = field(default_factory=Past)
    _came: Counter[int] = field(default_factory=Counter)
    _known: tuple[float, Season | None] = (-inf, None)

    def count(self, arrival: Arrival) -> None:
        """Count a request in the step in which it comes. A step is known by its end."""
        self._came[int(arrival.at // STEP_SECONDS) + 1] += 1

    def season(self, now: float) -> Season | None:
        """Return the usual course of the arrivals; None if start-ups are too short for it to matter."""
        startup = self.replay.startup_seconds
        if startup < LEAST_STARTUP_SECONDS:
            return None
        if now - self._known[0] >= DAYS_LOOK_SECONDS:
            last, ended = max(0.0, self._known[0]), int(now // STEP_SECONDS)
            steps = range(int(last // STEP_SECONDS) + 1, ended + 1)
            points = [Point(step * STEP_SECONDS, self._came.pop(step, 0) / STEP_SECONDS) for step in steps]
            self._past = self._past.with_points(points, now)
            later = startup + self.replay.policy.cooldown_seconds
            self._known = now, season_of(self._past, now, startup, later)
        return self._known[1]


class _Run:
    """The run of one law, wired to its replicas."""

    def __init__(self, replay: Replay, law: _Law, progress: Progress) -> None:
        self._replay, self._law, self._progress, self._agenda = replay, law, progress, Agenda()
        costs, begin = replay.kind.model.costs, replay.replicas if law.fixed is None else law.fixed
        rules = SteadyRules(replay.kind.limits, begin, replay.startup_seconds, replay.drain_seconds)
        starts, routes, phases = (Draws(seed_for(replay.seed, each)) for each in ("starts", "routing", "scrapes"))
        self._fleet = SimulatedFleet(
            rules, StepTimes(costs), self._agenda, starts, self._on_ready, kept_tokens=replay.kept_tokens
        )
        patience = max(0.0, replay.patience_seconds - costs.request_seconds)
        self._gateway = Gateway(self._agenda, self._fleet.ready, replay.routing, patience, routes)
        self._phases, self._wanted, self._changes = phases, begin, list[Change]()
        self._policy: Policy | None = None if law.maker is None else law.maker(rules)
        self._loop = Loop(replay.kind, replay.policy, begin, replay.startup_seconds)
        self._scrapes = Scrapes(self._agenda, phases, replay.scrape_seconds, replay.seconds)
        self._samples: dict[Replica, deque[Sample]] = {}
        self._tally, self._coming, self._retunes = _Tally(replay), iter(replay.arrivals), 0
        self._days = _Days(replay)

    def result(self) -> Replayed:
        """Run to the end, and return the figures."""
        replay, agenda = self._replay, self._agenda
        self._fleet.begin()
        self._feed()
        tick = replay.scrape_seconds if self._policy is None else self._policy.tick_seconds
        agenda.every(tick, tick, replay.seconds, self._turn if self._policy is None else self._tick)
        agenda.every(FOLD_SECONDS, FOLD_SECONDS, replay.seconds, self._fold)
        agenda.run()
        self._fold()
        self._progress(self._law.name, 1.0)
        hours = self._fleet.replica_seconds(replay.seconds) / _HOUR
        price = replay.kind.option.hourly_price
        sizes, tally = [self._first_wanted, *(each.after for each in self._changes)], self._tally
        return Replayed(
            law=self._law.name,
            requests=tally.ended,
            goodput=100 * tally.kept / tally.ended,
            errors=100 * tally.failed / tally.ended,
            gpu_hours=hours * replay.kind.place.split.gpus,
            usd=None if price is None else hours * float(price),
            changes=len(real_changes(self._changes)) + self._retunes,
            flips=flips(self._changes),
            fewest=min(sizes),
            most=max(sizes),
            ttft_p95_seconds=_quantile(tally.first, _HIGH),
            ttft_p50_seconds=_quantile(tally.first, _MIDDLE),
            found=100 * self._found,
        )

    @property
    def _found(self) -> float:
        """The share of the tokens of prompts that were in the cache of their replica."""
        totals = [each.engine.totals for each in self._fleet.replicas]
        looked_up = sum(each.prefix_queried_tokens for each in totals)
        return sum(each.prefix_hit_tokens for each in totals) / max(1, looked_up)

    @property
    def _first_wanted(self) -> int:
        return self._changes[0].before if self._changes else self._wanted

    def _feed(self) -> None:
        """Let the next request come, and then the one after it: so few wait in the agenda."""
        arrival = next(self._coming, None)
        if arrival is not None:
            self._gateway.expect((arrival,))
            self._days.count(arrival)
            self._agenda.at(arrival.at, self._feed)

    def _fold(self) -> None:
        """Count the requests that have ended, and forget them."""
        still = list[SimulatedRequest]()
        for request in self._gateway.requests:
            if request.fate is None:
                still.append(request)
            else:
                self._tally.count(request)
        self._gateway.requests[:] = still
        self._progress(self._law.name, min(1.0, self._agenda.now / self._replay.seconds))

    def _on_ready(self, replica: Replica) -> None:
        if self._policy is None:
            self._scrapes.watch(replica, self._loop.kind.limits.kv_tokens)
        else:
            self._samples[replica] = deque()
            every = self._replay.scrape_seconds
            first = self._agenda.now + self._phases.uniform(0, every)
            self._agenda.every(first, every, self._replay.seconds, partial(self._scrape, replica))
        self._gateway.send_held()

    def _scrape(self, replica: Replica) -> None:
        if replica.stage is Stage.READY:
            self._samples[replica].append(replica.engine.sample(self._agenda.now))

    def _turn(self) -> None:
        """Take a turn of the live loop."""
        now, loop, kind = self._agenda.now, self._loop, self._loop.kind
        if self._replay.schedule is not None:
            startup = loop.memory.expected_startup_seconds
            loop.policy = self._replay.policy.with_schedule(self._replay.schedule(now), now, startup)
        situation = loop.situation(self._fleet.shown, self._scrapes.signals(), now)
        loop.turn(replace(situation, load=replace(situation.load, season=self._days.season(now))))
        if loop.kind != kind:
            self._retunes += 1
            self._fleet.update(loop.kind.limits)
        self._resize(loop.wanted)

    def _tick(self) -> None:
        """Ask another law."""
        if self._policy is None:
            return
        answer = self._policy(self._view())
        wanted, policy = answer.replicas if isinstance(answer, Order) else answer, self._replay.policy
        if self._law.fixed is None:
            self._resize(min(max(wanted, policy.min_replicas), policy.max_replicas))

    def _resize(self, wanted: int) -> None:
        if wanted != self._wanted:
            self._changes.append(Change(self._agenda.now, self._wanted, wanted))
            self._wanted = wanted
            self._fleet.resize(wanted)

    def _view(self) -> View:
        now, replay = self._agenda.now, self._replay
        pods = (PodView(each.name, each.created_at, each.ready_since, self._recent(each)) for each in self._fleet.shown)
        return View(
            now=now,
            wanted=self._wanted,
            pods=tuple(pods),
            has_metrics=True,
            engine=self._fleet.engine,
            min_replicas=replay.policy.min_replicas,
            max_replicas=replay.policy.max_replicas,
            declared_concurrency=replay.kind.request.shape.concurrency,
            ttft_seconds=replay.ttft_seconds,
            tpot_seconds=replay.tpot_seconds,
            held=self._gateway.held,
        )

    def _recent(self, replica: Replica) -> tuple[Sample, ...]:
        samples = self._samples.get(replica, deque())
        while samples and samples[0].at < self._agenda.now - HISTORY_SECONDS:
            samples.popleft()
        return tuple(samples)


def _quantile(times: Sequence[float], share: float) -> float | None:
    ordered = sorted(times)
    return ordered[ceil(share * len(ordered)) - 1] if ordered else None


def cut(arrival: Arrival, room_tokens: int) -> Arrival:
    """Return a request that a replica can hold: the answer is cut first, and the prompt if one token is left of it."""
    if arrival.prompt_tokens + arrival.output_tokens <= room_tokens:
        return arrival
    prompt = min(arrival.prompt_tokens, room_tokens - 1)
    return replace(
        arrival,
        prompt_tokens=prompt,
        output_tokens=min(arrival.output_tokens, room_tokens - prompt),
        cached_tokens=min(arrival.cached_tokens, prompt - 1),
    )
