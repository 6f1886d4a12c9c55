"""A day of a deployment in a moment: toy engines, a scraper, and the live loop acting on what was scraped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.rebalance.decide import decide, kind_of
from plimsoll.rebalance.law.capacity import capacity_of, times_of
from plimsoll.rebalance.signals.load import summarize
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.traffic import Lengths
from plimsoll.rebalance.state.decisions import AddReplica, LoopDecision, RemoveReplica
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import RebalancePolicy
from plimsoll.rebalance.state.situation import DeclaredNeed, PlacementState, Situation
from tests.support.engine_loads import replica_model
from tests.support.hypotheses import room_for_all

KV_TOKENS = 400_000
PROMPT, OUTPUT = 1_000, 200
LENGTHS = Lengths(PROMPT, OUTPUT, 0.0, PROMPT + OUTPUT / 2)
MODEL = replica_model(max_sequences=64)
MOST = capacity_of(MODEL.limited(StepLimits(sequences=80)), LENGTHS, promised=False).per_second
"""Requests a second that a toy engine serves at the most; others wait."""
STEP_SECONDS = SCRAPE_SECONDS = 15
BEFORE = 300
"""Seconds before the first turn."""
START = 1_700_000_000.0

Rate = Callable[[float], float]
"""Requests a second to all replicas, at so many seconds since the start."""


def _untouched(_t: float, sample: EngineSample) -> EngineSample | None:
    return sample


@dataclass
class _Pod:
    name: str
    ready_at: float
    served: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    busy_seconds: float = 0.0
    samples: list[EngineSample] = field(default_factory=list)

    def serve(self, came: float) -> None:
        """Serve for one step, as much as an engine can; as fast as the model says."""
        done = min(self.waiting + came, MOST * STEP_SECONDS)
        self.waiting += came - done
        self.served += done
        self.running = 64 * done / STEP_SECONDS / MOST
        self.busy_seconds += done * (OUTPUT - 1) * times_of(MODEL, LENGTHS, self.running).token

    def sample(self, at: float) -> EngineSample:
        """Return what the engine exports: gauges, counters, and the sums and counts of its histograms."""
        held = self.running * (PROMPT + OUTPUT / 2)
        return EngineSample(
            at=at,
            kv_usage=min(1.0, held / KV_TOKENS),
            waiting=self.waiting,
            running=self.running,
            preemptions_total=0.0,
            kv_capacity_tokens=KV_TOKENS,
            prompt_tokens_total=self.served * PROMPT,
            generation_tokens_total=self.served * OUTPUT,
            finished_total=self.served,
            finished_prompt_tokens_total=self.served * PROMPT,
            finished_output_tokens_total=self.served * OUTPUT,
            ttft_seconds_total=self.served * 0.1,
            first_tokens_total=self.served,
            token_gap_seconds_total=self.busy_seconds,
            token_gaps_total=self.served * (OUTPUT - 1),
        )


@dataclass
class Replay:
    """One run. ``exporter`` may spoil or drop a sample; ``outage`` says when Prometheus is away.

    ``restarts`` says when the operator has restarted: it keeps the history as ``remember`` returns it, and no more.
    """

    policy: RebalancePolicy
    rate: Rate
    replicas: int = 1
    startup_seconds: float = 100.0
    exporter: Callable[[float, EngineSample], EngineSample | None] = _untouched
    outage: Callable[[float], bool] = lambda _t: False
    restarts: Callable[[float], bool] = lambda _t: False
    remember: Callable[[ChangeHistory], ChangeHistory] = lambda history: history

    def run(self, seconds: int) -> Replay:
        """Serve, scrape and decide every 15 s, and carry out what is decided."""
        self.decisions: list[tuple[float, LoopDecision]] = []
        self.changes: list[tuple[float, LoopDecision]] = []
        self.counts: list[int] = []
        self.history, self.memory = ChangeHistory(), LoopMemory()
        self._made = 0
        self._pods = [self._pod(-9999.0) for _ in range(self.replicas)]
        for t in range(-BEFORE, seconds, STEP_SECONDS):
            self._serve(t)
            self._scrape(t)
            if t >= 0:
                self._turn(t)
                self.counts.append(len(self._pods))
        return self

    def _pod(self, ready_at: float) -> _Pod:
        self._made += 1
        return _Pod(f"engine-{self._made}", ready_at)

    def _ready(self, t: float) -> list[_Pod]:
        return [pod for pod in self._pods if pod.ready_at <= t]

    def _serve(self, t: float) -> None:
        ready = self._ready(t)
        for pod in ready:
            pod.serve(self.rate(t) * STEP_SECONDS / len(ready))

    def _scrape(self, t: float) -> None:
        for pod in self._ready(t):
            sample = self.exporter(t, pod.sample(START + t))
            if sample is not None:
                pod.samples.append(sample)

    def _turn(self, t: float) -> None:
        if self.restarts(t):
            self.history, self.memory = self.remember(self.history), LoopMemory()
        where = self._situation(t)
        decided = decide(where, room_for_all(where.placement.replicas))
        self.memory = decided.memory
        self.decisions.append((t, decided.decision))
        if isinstance(decided.decision, AddReplica | RemoveReplica):
            self._carry_out(t, decided.decision)

    def _carry_out(self, t: float, change: AddReplica | RemoveReplica) -> None:
        for _ in range(change.count):
            if isinstance(change, AddReplica):
                self._pods.append(self._pod(t + self.startup_seconds))
            else:
                self._pods.remove(max(self._pods, key=lambda pod: pod.ready_at))
        self.changes.append((t, change))
        self.history = self.history.recorded(
            ChangeRecord(START + t, kind_of(change), change.reason.value, len(self._pods))
        )

    def _situation(self, t: float) -> Situation:
        now, ready = START + t, self._ready(t)
        load = summarize(
            [PodSignals(pod.name, tuple(pod.samples[-45:])) for pod in ready],
            [pod.name for pod in ready],
            now,
            window_seconds=self.policy.window_seconds,
            capacity_tokens=KV_TOKENS,
            ready_since={pod.name: START + pod.ready_at for pod in ready},
            removed_at=self.history.last(ChangeKind.REMOVE),
            available=not self.outage(t),
        )
        placement = PlacementState(
            replicas=len(self._pods),
            ready=len(ready),
            kv_capacity_tokens=KV_TOKENS,
            budget_bytes_per_gpu=80,
            model=MODEL,
            starting_since=tuple(START + pod.ready_at - self.startup_seconds for pod in self._pods if pod.ready_at > t),
            settled_since=max((START + pod.ready_at for pod in ready), default=None),
            startup_seconds=self.startup_seconds if len(ready) > self.replicas else None,
        )
        need = DeclaredNeed(kv_tokens=KV_TOKENS // 2, bytes_per_gpu=60)
        return Situation(need, placement, load, self.history, now, self.policy, self.memory)


def spoiled(sample: EngineSample, usage: float) -> EngineSample:
    """The sample with another KV use."""
    return replace(sample, kv_usage=usage)
