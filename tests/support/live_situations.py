"""Situations of the live loop, made of the loads of a deployment's pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.rebalance.state.memory import Look, LoopMemory
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.rebalance.state.situation import DeclaredNeed, PlacementState, Situation
from tests.support.engine_loads import KV_TOKENS, LONG_AGO, NOW, Serves, moments, pod, replica_model, summary

AUTO = RebalancePolicy(mode=Mode.AUTO, min_replicas=1, max_replicas=9, cooldown_seconds=600)
NEED = DeclaredNeed(kv_tokens=KV_TOKENS // 2, bytes_per_gpu=60)

CAPACITY = 22.0
"""Requests a second that a replica of :func:`replica_model` about carries of the usual load."""

BUSY, EASY, IDLE = Serves(rate=2 * CAPACITY), Serves(rate=0.5 * CAPACITY), Serves(rate=0.0, running=0, kv_usage=0.0)
"""One replica more is needed for the first, none for the others; of two replicas, the last leaves one idle."""


def loads_of(*loads: Serves, now: float = NOW) -> LoadSummary:
    """Return the load of one pod for each of these."""
    return summary(*(pod(f"p{index}", load, moments(end=now)) for index, load in enumerate(loads)), now=now)


def placed(replicas: int, **changes: Any) -> PlacementState:
    """Return a placement whose replicas have served for long."""
    usual: dict[str, Any] = {
        "ready": replicas,
        "kv_capacity_tokens": KV_TOKENS,
        "budget_bytes_per_gpu": 80,
        "model": replica_model(),
        "most_sequences": 256,
        "settled_since": LONG_AGO,
    }
    return PlacementState(replicas=replicas, **usual | changes)


def situation(
    *loads: Serves,
    load: LoadSummary | None = None,
    replicas: int | None = None,
    policy: RebalancePolicy = AUTO,
    history: ChangeHistory | None = None,
    memory: LoopMemory | None = None,
    need: DeclaredNeed = NEED,
    now: float = NOW,
    **placement: Any,
) -> Situation:
    """Return the situation of a deployment with one ready pod for each load; ``placement`` changes its fields."""
    state = placed(len(loads) if replicas is None else replicas, **{"ready": len(loads)} | placement)
    summed = loads_of(*loads, now=now) if load is None else load
    return Situation(need, state, summed, history or ChangeHistory(), now, policy, memory or LoopMemory())


def enough_for(replicas: int, seconds: float, *, now: float = NOW, every: float = 5.0) -> LoopMemory:
    """Return the memory of turns in which so many replicas would have been enough, for so many seconds."""
    ages: Iterable[float] = (seconds - every * index for index in range(int(seconds // every)))
    return LoopMemory(looks=tuple(Look(now - age, replicas, now - age, 0.0) for age in ages))


def for_long(where: Situation, replicas: int = 1) -> Situation:
    """Return the situation in which fewer replicas have been enough for as long as the policy asks for."""
    return replace(where, memory=enough_for(replicas, 3 * where.policy.cooldown_seconds, now=where.now))
