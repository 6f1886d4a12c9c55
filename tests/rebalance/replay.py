"""A day of a deployment in a moment: toy engines, a scraper, and the live loop acting on what was scraped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from plimsoll.rebalance.decide import ceiling_of, decide
from plimsoll.rebalance.decisions import AddReplica, LoopDecision, RemoveReplica
from plimsoll.rebalance.history import ChangeHistory
from plimsoll.rebalance.load import summarize
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import EngineSample, PodSignals
from plimsoll.rebalance.situation import DeclaredNeed, PlacementState, Situation
from tests.support.hypotheses import room_for_all

CAPACITY = 100_000
REQUEST_TOKENS = 1_000
SCRAPE_SECONDS = 15
START = 1_700_000_000.0


@dataclass(frozen=True)
class EngineLoad:
    """What one of the ready replicas does right now."""

    usage: float
    waiting: float = 0.0
    running: float = 0.0
    prompt_rate: float = 0.0
    generation_rate: float = 0.0


Engine = Callable[[float, int], EngineLoad]
"""Seconds since the start, and the number of ready replicas over which the load is spread evenly."""


def memory_bound(demand: Callable[[float], float]) -> Engine:
    """Requests that hold ``demand(t)`` tokens in all, and queue for what does not fit."""

    def load(t: float, ready: int) -> EngineLoad:
        share = demand(t) / ready
        used = min(share, CAPACITY)
        rate = used / 60
        return EngineLoad(used / CAPACITY, (share - used) / REQUEST_TOKENS, used / REQUEST_TOKENS, rate, rate)

    return load


def compute_bound(arrival_rate: float, replica_rate: float) -> Engine:
    """Tokens arrive at a steady rate; a replica that gets too many of them queues, with its KV cache nearly empty."""

    def load(_t: float, ready: int) -> EngineLoad:
        share = arrival_rate / ready
        done = min(share, replica_rate)
        return EngineLoad(0.15 if share > done else 0.08, 15.0 if share > done else 0.0, 8.0, done, done / 10)

    return load


def _untouched(_t: float, sample: EngineSample) -> EngineSample | None:
    return sample


@dataclass
class _Pod:
    name: str
    ready_at: float
    samples: list[EngineSample] = field(default_factory=list)
    prompt: float = 0.0
    generation: float = 0.0


@dataclass
class Replay:
    """One run. ``exporter`` may spoil or drop a sample; ``outage`` says when Prometheus is away."""

    policy: RebalancePolicy
    engine: Engine
    replicas: int = 1
    startup_seconds: float = 100.0
    exporter: Callable[[float, EngineSample], EngineSample | None] = _untouched
    outage: Callable[[float], bool] = lambda _t: False
    remember: Callable[[ChangeHistory], ChangeHistory] = lambda history: history

    def run(self, seconds: int) -> Replay:
        """Scrape and decide every 15 s, and carry out what is decided."""
        self.decisions: list[tuple[float, LoopDecision]] = []
        self.changes: list[tuple[float, LoopDecision]] = []
        self.counts: list[int] = []
        self._made = 0
        self._pods = [self._pod(-float(self.policy.window_seconds)) for _ in range(self.replicas)]
        history = ChangeHistory()
        for t in range(-self.policy.window_seconds, seconds, SCRAPE_SECONDS):
            self._scrape(t)
            if t < 0:
                continue
            history = self._decide(t, self.remember(history))
            self.counts.append(len(self._pods))
        return self

    def _pod(self, ready_at: float) -> _Pod:
        self._made += 1
        return _Pod(f"engine-{self._made}", ready_at)

    def _ready(self, t: float) -> list[_Pod]:
        return [pod for pod in self._pods if pod.ready_at <= t]

    def _scrape(self, t: float) -> None:
        ready = self._ready(t)
        for pod in ready:
            load = self.engine(t, len(ready))
            pod.prompt += load.prompt_rate * SCRAPE_SECONDS
            pod.generation += load.generation_rate * SCRAPE_SECONDS
            sample = self.exporter(
                t,
                EngineSample(
                    at=START + t,
                    kv_usage=load.usage,
                    waiting=load.waiting,
                    running=load.running,
                    preemptions_total=0.0,
                    kv_capacity_tokens=CAPACITY,
                    prompt_tokens_total=pod.prompt,
                    generation_tokens_total=pod.generation,
                ),
            )
            if sample is not None:
                pod.samples.append(sample)

    def _decide(self, t: float, history: ChangeHistory) -> ChangeHistory:
        now = START + t
        ready = self._ready(t)
        load = summarize(
            [PodSignals(pod.name, tuple(pod.samples[-40:])) for pod in ready],
            [pod.name for pod in ready],
            now,
            self.policy,
            request_tokens=REQUEST_TOKENS,
            available=not self.outage(t),
        )
        placement = PlacementState(
            replicas=len(self._pods),
            ready=len(ready),
            kv_capacity_tokens=CAPACITY,
            budget_bytes_per_gpu=80,
            startup_seconds=self.startup_seconds,
        )
        need = DeclaredNeed(kv_tokens=CAPACITY // 2, bytes_per_gpu=60)
        situation = Situation(need, placement, load, history, now, self.policy)
        decision = decide(situation, room_for_all(placement.replicas)).decision
        self.decisions.append((t, decision))
        if isinstance(decision, AddReplica):
            self._pods.append(self._pod(t + self.startup_seconds))
        elif isinstance(decision, RemoveReplica):
            self._pods.remove(max(self._pods, key=lambda pod: pod.ready_at))
        else:
            return history
        self.changes.append((t, decision))
        return history.recorded(now, ceiling_of(decision, placement, load, now))


def spoiled(sample: EngineSample, usage: float) -> EngineSample:
    """The sample with another KV use."""
    return replace(sample, kv_usage=usage)
