"""The live loop of a simulated deployment: the same :func:`~plimsoll.rebalance.decide.decide` as in a cluster.

In a cluster, ``decision/turns.py`` collects the situation from the API server and Prometheus. Here it comes from
the simulated replicas, and every change has a place.

The scrapes of simulated engines, each at its own phase, as far back as the live loop reads them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Final

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant, as_it_is, pool_name
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.engine_limits import other_steps
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.signals.load import LoadSummary, summarize
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.state.decisions import AddReplica, Move, RemoveReplica, ReplaceReplica, Retune
from plimsoll.rebalance.state.history import ENDINGS, ChangeHistory
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import RebalancePolicy
from plimsoll.rebalance.state.situation import DeclaredNeed, Newcomer, PlacementState, Serving, Situation
from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.draws import Chance
from plimsoll.simulation.fleet import Replica, Stage
from plimsoll.simulation.run import ReplicaKind
from plimsoll.simulation.values import Sample

_NOTHING = Ledger.of(Fleet())


_POOL: Final = "pool"


@dataclass(slots=True)
class Loop:
    """The loop's state between its turns: it wants ``wanted`` replicas of a ``kind``."""

    kind: ReplicaKind
    policy: RebalancePolicy
    wanted: int
    startup_seconds: float
    memory: LoopMemory = field(init=False)
    history: ChangeHistory = field(default_factory=ChangeHistory, init=False)
    _declared: ReplicaKind = field(init=False)
    _memo: Memo = field(default_factory=Memo, init=False)

    def __post_init__(self) -> None:
        """Begin as a deployment that has seen its first replicas start."""
        self.memory = LoopMemory(_POOL, startup_seconds=self.startup_seconds)
        self._declared = self.kind

    def situation(self, replicas: Sequence[Replica], signals: Sequence[PodSignals], now: float) -> Situation:
        """Return the facts of a decision. ``replicas`` start or serve."""
        figures = self.kind.place.figures
        return Situation(
            DeclaredNeed(figures.kv_needed_tokens, figures.expected_bytes),
            self._placement(replicas),
            self._load(replicas, signals, now),
            self.history,
            now,
            self.policy,
            self.memory.about(_POOL),
        )

    def turn(self, situation: Situation) -> LoopResult:
        """Decide once, and take the change up if the policy carries it out."""
        request = self.kind.request.with_replicas(self.wanted)
        decided = decide(situation, open_room(request, self.kind.option))
        self.memory, self.history = decided.memory, decided.history
        if self.acts_on(decided):
            self._take_up(decided, situation.now)
        return decided

    def acts_on(self, decided: LoopResult) -> bool:
        """Whether a decision is a change that is carried out. No replica is replaced: nothing makes one slow here."""
        is_known = not isinstance(decided.decision, ReplaceReplica)
        return is_known and decided.answer is not None and self.policy.carries_out(decided.decision)

    def _take_up(self, decided: LoopResult, now: float) -> None:
        change, answer = decided.decision, decided.answer
        if not isinstance(change, AddReplica | RemoveReplica | Retune | Move) or answer is None:
            return
        if isinstance(change, Retune):
            self.kind = self.kind.with_limits(change.limits) or self.kind
            self.memory = self.memory.after_retune()
        self.wanted = answer.tenant.request.replicas
        self.history = decided.recorded(now, self.wanted)

    def _placement(self, replicas: Sequence[Replica]) -> PlacementState:
        kind, place = self.kind, self.kind.place
        request, figures = self._declared.request, place.figures
        ready = [each.ready_since for each in replicas if each.ready_since is not None]
        starting = tuple(each.created_at for each in replicas if each.stage is Stage.STARTING)
        steps = partial(
            other_steps, request, kind.request, place.gpu, place.split, figures.kv_capacity_tokens, self._memo
        )
        return PlacementState(
            replicas=self.wanted,
            ready=len(ready),
            kv_capacity_tokens=figures.kv_capacity_tokens,
            budget_bytes_per_gpu=figures.budget_bytes,
            model=kind.model,
            most_sequences=engine_of(request.engine.name).most_sequences(kind.request, place.gpu),
            steps=steps,
            starting_since=starting,
            newcomers=tuple(map(Newcomer, starting)),
            serving=tuple(
                Serving(each.name, "", each.ready_since, each.created_at)
                for each in replicas
                if each.ready_since is not None
            ),
            settled_since=max(ready, default=None),
            startup_seconds=self.startup_seconds,
            has_states=figures.max_sequences is not None,
            updating=len(replicas) > self.wanted,
        )

    def _load(self, replicas: Sequence[Replica], signals: Sequence[PodSignals], now: float) -> LoadSummary:
        since = {each.name: each.ready_since for each in replicas if each.ready_since is not None}
        return summarize(
            signals,
            list(since),
            now,
            window_seconds=self.policy.window_seconds,
            capacity_tokens=self.kind.limits.kv_tokens,
            ready_since=since,
            removed_at=self.history.last(*ENDINGS),
        )


def open_room(request: Request, option: Option, most: int | None = None) -> WhatIf:
    """Return what answers hypotheses about a deployment whose replicas all are like the option.

    There is room for ``most`` replicas; None: for any number. Nothing is known of other places, so no move is ever
    proposed.
    """
    runs = Tenant(request, 1, (_pool(option, request.replicas),))
    return WhatIf(
        runs,
        _decision(runs, option, most),
        lambda changed: Answer(changed, _decision(changed, option, most), _NOTHING, _NOTHING),
    )


def _decision(tenant: Tenant, option: Option, most: int | None) -> Decision:
    wanted = tenant.request.replicas
    own, pool = tenant.pools[0], _pool(option, wanted)
    choice = replace(option, settings=option.settings.limited(own.limits))
    missing = 0 if most is None else max(0, wanted - most)
    return Decision(tenant.request, (replace(as_it_is(pool), surge=True, choice=choice),), missing)


def _pool(option: Option, replicas: int) -> Pool:
    target = option.target
    name = pool_name(target.gpu_type, target.split)
    return Pool(name, target, PoolState.ACTIVE, 1, replicas, bound=replicas, ready=replicas)


HISTORY_SECONDS: Final = 600.0
"""How far back the live loop reads."""


@dataclass(slots=True)
class Scrapes:
    """The samples of all replicas that serve, the oldest first.

    They are taken ``every_seconds`` until ``ends_at``, in seconds since the beginning of the run.
    """

    agenda: Agenda
    chance: Chance
    every_seconds: float
    ends_at: float
    _samples: dict[str, deque[EngineSample]] = field(default_factory=dict, init=False)

    def watch(self, replica: Replica, kv_tokens: int) -> None:
        """Scrape a replica with a KV cache of so many tokens from now on, first at a random part of the interval."""
        self._samples[replica.name] = deque()
        first = self.agenda.now + self.chance.uniform(0, self.every_seconds)
        self.agenda.every(first, self.every_seconds, self.ends_at, partial(self._scrape, replica, kv_tokens))

    def signals(self) -> tuple[PodSignals, ...]:
        """Return what the live loop reads now: the samples of ten minutes of all replicas that had any."""
        oldest = self.agenda.now - HISTORY_SECONDS
        for samples in self._samples.values():
            while samples and samples[0].at < oldest:
                samples.popleft()
        return tuple(PodSignals(name, tuple(samples)) for name, samples in self._samples.items() if samples)

    def _scrape(self, replica: Replica, kv_tokens: int) -> None:
        if replica.stage is Stage.READY:
            self._samples[replica.name].append(engine_sample(replica.engine.sample(self.agenda.now), kv_tokens))


_READ: Final = tuple(each.name for each in fields(Sample) if each.name not in ("queue_seconds_total", "dequeued_total"))
"""The metrics that the live loop reads, which have the same names there."""


def engine_sample(sample: Sample, kv_tokens: int) -> EngineSample:
    """Return a sample as the live loop reads it, of an engine with a KV cache of so many tokens."""
    return EngineSample(kv_capacity_tokens=kv_tokens, **{name: getattr(sample, name) for name in _READ})
