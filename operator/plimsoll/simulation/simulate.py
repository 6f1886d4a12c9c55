"""One run on a virtual clock: requests come, engines serve them, and the live loop decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.decide import LoopResult
from plimsoll.rebalance.state.situation import Situation
from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.draws import Draws, seed_for
from plimsoll.simulation.engine import StepTimes
from plimsoll.simulation.fleet import Replica, SimulatedFleet, SteadyRules
from plimsoll.simulation.gateway import Gateway
from plimsoll.simulation.loop import Loop, Scrapes
from plimsoll.simulation.result import Happening, Moment, SimulationResult, summary_of
from plimsoll.simulation.run import SimulationRun
from plimsoll.simulation.values import Routing
from plimsoll.simulation.watching import Log, Watching
from plimsoll.simulation.workload import arrivals

MOST_ACTIONS: Final = 400_000
"""The most steps and arrivals of a run, so that it ends in any case. 20,000 requests usually take about 150,000."""

LOOK_SECONDS: Final = 5.0
"""The time between two looks at what fills."""

_SLICE_SECONDS: Final = 60.0

Witness = Callable[[Situation, LoopResult], None]
"""Sees every turn of the live loop."""


def simulate(simulation_run: SimulationRun, witness: Witness | None = None) -> SimulationResult:
    """Simulate. The same run always gives the same result.

    Raises:
        InvalidInput: the run takes too many steps.
    """
    return _Run(simulation_run, witness).result()


class _Run:
    """All parts of one run, wired to each other."""

    def __init__(self, simulation_run: SimulationRun, witness: Witness | None) -> None:
        self._simulation_run, self._witness, self._agenda, self._log = simulation_run, witness, Agenda(), Log()
        costs, seed = simulation_run.kind.model.costs, simulation_run.seed
        rules = SteadyRules(
            simulation_run.kind.limits,
            simulation_run.replicas,
            simulation_run.startup_seconds,
            simulation_run.drain_seconds,
        )
        starts, routes, phases = (Draws(seed_for(seed, each)) for each in ("starts", "routing", "scrapes"))
        self._fleet = SimulatedFleet(rules, StepTimes(costs), self._agenda, starts, self._on_ready)
        self._scrapes = Scrapes(self._agenda, phases, simulation_run.scrape_seconds, simulation_run.workload.seconds)
        patience = max(0.0, simulation_run.patience_seconds - costs.request_seconds)
        self._gateway = Gateway(self._agenda, self._fleet.ready, Routing.LEAST_LOADED, patience, routes)
        self._loop = Loop(
            simulation_run.kind, simulation_run.policy, simulation_run.replicas, simulation_run.startup_seconds
        )
        self._watching = Watching(self._fleet, self._gateway)
        self._moments: list[Moment] = []

    def result(self) -> SimulationResult:
        """Run to the end, and return what was seen."""
        simulation_run, seconds = self._simulation_run, self._simulation_run.workload.seconds
        self._fleet.begin()
        self._gateway.expect(arrivals(simulation_run.workload, simulation_run.kind.room_tokens, simulation_run.seed))
        self._agenda.every(LOOK_SECONDS, LOOK_SECONDS, seconds, self._look)
        self._agenda.every(simulation_run.scrape_seconds, simulation_run.scrape_seconds, seconds, self._turn)
        self._agenda.every(0.0, simulation_run.sample_seconds, seconds, self._note)
        self._go_on(seconds)
        self._agenda.now = seconds
        self._note()
        totals, moments, events = self._watching.totals(seconds), tuple(self._moments), tuple(self._log.events)
        return SimulationResult(summary_of(simulation_run.workload, moments, events, totals), moments, events, totals)

    def _go_on(self, seconds: float) -> None:
        until = 0.0
        while until < seconds:
            until = min(seconds, until + _SLICE_SECONDS)
            self._agenda.run(until)
            if self._agenda.done > MOST_ACTIONS:
                rate = self._simulation_run.workload.requests_per_second
                fix = f"{MOST_ACTIONS:,} steps end after {until / 60:.0f} min. Use fewer requests, or fewer minutes."
                raise InvalidInput("requests-per-second", rate, fix)

    def _on_ready(self, replica: Replica) -> None:
        now = self._agenda.now
        self._scrapes.watch(replica, self._loop.kind.limits.kv_tokens)
        self._gateway.send_held()
        if now > 0:
            self._log.serves(now, replica, len(self._fleet.ready()), self._loop.wanted)

    def _look(self) -> None:
        for obstacle, replica in self._watching.obstacles().items():
            self._log.obstacle(self._agenda.now, obstacle, replica)

    def _turn(self) -> None:
        now, kind, wanted = self._agenda.now, self._loop.kind, self._loop.wanted
        situation = self._loop.situation(self._fleet.shown, self._scrapes.signals(), now)
        decided = self._loop.turn(situation)
        self._log.decided(now, decided, is_made=self._loop.acts_on(decided))
        if self._witness is not None:
            self._witness(situation, decided)
        if self._loop.kind != kind:
            self._fleet.update(self._loop.kind.limits)
        if self._loop.wanted != wanted:
            self._fleet.resize(self._loop.wanted)

    def _note(self) -> None:
        moment = self._watching.moment(self._agenda.now, self._loop.wanted)
        self._moments.append(moment)
        self._log.preempted(moment.at, moment.preemptions)
        self._log.gave_up(moment.at, moment.gave_up, self._simulation_run.patience_seconds)
        if self._watching.lost:
            words = f"A removed replica ended before {self._watching.lost:,} of its requests were done."
            self._log.state(moment.at, Happening.LOST, words)
