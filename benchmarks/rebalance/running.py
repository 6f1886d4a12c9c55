"""One run: a policy decides, tick by tick, how many replicas serve a scenario's requests."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from random import Random

from benchmarks.rebalance.engines import with_sequences, with_step
from benchmarks.rebalance.fitting import fitting
from benchmarks.rebalance.scraping import Scraping
from benchmarks.rebalance.step_seconds import times_of
from benchmarks.rebalance.values import Maker, Outcome, Scenario
from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.fleet import Replica, SimulatedFleet, Stock, lasts
from plimsoll.simulation.gateway import Gateway
from plimsoll.simulation.peers.view import Order, Policy, View
from plimsoll.simulation.values import FaultKind
from plimsoll.simulation.verdicts import Change


def run(scenario: Scenario, maker: Maker, policy_name: str, seed: int) -> Outcome:
    """Run a scenario under a fresh policy. The same seed gives the same outcome.

    Requests that arrive after the measured time are left out, and those that the engine cannot hold are cut. After the
    measured time, the policy is asked no more, and what is under way is served to its end.

    Raises:
        ValueError: the catalogue does not have the model or the GPU type, or a request has no token.
    """
    agenda, stock = Agenda(), None if scenario.stock is None else Stock(scenario.stock)
    runs = [_Run(each, maker(each), seed, agenda, stock) for each in (scenario, scenario.neighbour) if each is not None]
    for each in runs:
        each.begin()
    agenda.run()
    first, *others = [each.outcome(policy_name) for each in runs]
    return replace(first, neighbour=others[0] if others else None)


class _Run:
    """All parts of the run of one deployment, wired to each other."""

    def __init__(self, scenario: Scenario, policy: Policy, seed: int, agenda: Agenda, stock: Stock | None) -> None:
        self._scenario, self._policy, self._seed = scenario, policy, seed
        self._agenda, self._stock = agenda, stock
        times = times_of(scenario.engine).times(speed_factor(scenario, seed))
        self._scraping = Scraping(scenario, self._agenda, _chance(seed, "scrapes"))
        self._fleet = SimulatedFleet(scenario, times, self._agenda, _chance(seed, "starts"), self._on_ready, stock)
        patience = scenario.patience_seconds - times.request_seconds
        routing, chance = scenario.routing, _chance(seed, "routing")
        self._gateway = Gateway(
            self._agenda, self._fleet.ready, routing, patience, chance, scenario.faults, scenario.tries
        )
        self._wanted = scenario.start_replicas
        self._pods = self._wanted
        self._changes: list[Change] = []

    def begin(self) -> None:
        """Plan everything that comes from outside."""
        scenario, tick = self._scenario, self._policy.tick_seconds
        self._fleet.begin()
        self._scraping.strike_at_their_times(self._fleet)
        arrivals = (each for each in scenario.arrivals(self._seed) if each.at < scenario.seconds)
        self._gateway.expect([fitting(each, scenario.engine) for each in arrivals])
        self._agenda.every(tick, tick, scenario.seconds, self._tick)

    def outcome(self, policy_name: str) -> Outcome:
        """Return what came of it, after its end."""
        scenario = self._scenario
        return Outcome(
            scenario=scenario,
            policy=policy_name,
            seed=self._seed,
            answered=tuple(request.answered for request in self._gateway.requests),
            changes=tuple(self._changes),
            replica_seconds=self._fleet.replica_seconds(scenario.seconds),
        )

    def _on_ready(self, replica: Replica) -> None:
        self._scraping.watch(replica)
        self._gateway.send_held()

    def _tick(self) -> None:
        answer = self._policy(self._view())
        order = answer if isinstance(answer, Order) else Order(answer)
        if order.max_num_seqs is not None:
            self._fleet.update(with_sequences(self._fleet.engine, order.max_num_seqs))
        if order.max_batched_tokens is not None:
            self._fleet.update(with_step(self._fleet.engine, order.max_batched_tokens))
        wanted = min(max(order.replicas, self._scenario.min_replicas), self._scenario.max_replicas)
        if wanted != self._wanted:
            self._changes.append(Change(self._agenda.now, self._wanted, wanted))
        self._fleet.end(order.ends)
        pods = wanted + (order.replaces and not order.ends)
        if (wanted, pods) != (self._wanted, self._pods):
            self._fleet.resize(pods)
        self._wanted, self._pods = wanted, pods

    def _view(self) -> View:
        scenario, now = self._scenario, self._agenda.now
        has_metrics = not any(each.kind is FaultKind.NO_METRICS and lasts(each, now) for each in scenario.faults)
        return View(
            now=now,
            wanted=self._wanted,
            pods=tuple(self._scraping.view(replica, has_metrics=has_metrics) for replica in self._fleet.shown),
            has_metrics=has_metrics,
            engine=self._fleet.engine,
            min_replicas=scenario.min_replicas,
            max_replicas=scenario.max_replicas,
            declared_concurrency=scenario.declared_concurrency,
            ttft_seconds=scenario.ttft_seconds,
            tpot_seconds=scenario.tpot_seconds,
            held=self._gateway.held,
            past=self._scraping.past(self._seed),
            free=None if self._stock is None else self._stock.free,
        )


def speed_factor(scenario: Scenario, seed: int) -> float:
    """Return how many times as long as in the performance model each step takes. Its median over seeds is 1."""
    return exp(_chance(seed, f"speed of {scenario.name}").gauss(0, scenario.speed_error))


def _chance(seed: int, purpose: str) -> Random:
    """Return random numbers of their own for each purpose, so that one decision does not shift the others."""
    return Random(f"{seed}/{purpose}")  # noqa: S311 - it simulates, and keeps no secret
