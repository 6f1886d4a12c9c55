"""How many replicas a load needs now, and how few have been enough for a while."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from plimsoll.rebalance.replica_load import Limit, Replica, capacity_of, seconds
from plimsoll.rebalance.traffic import Lengths, Rate, Traffic

ADD_USE = 0.92
KEEP_USE = 0.8
NORMAL_QUEUE = 2.0
LONG_QUEUE = 5.0
GROWTH = 1.5
SETTLED_SECONDS = 45.0
BACKLOG_SECONDS = 60.0
KV_ADD = 0.92
KV_KEEP = 0.85
TOLERANCE = 0.04
LEARN = 0.15
MOST_WRONG = 3.0
TREND_SECONDS = 600.0
TREND_SIGNIFICANT = 3.0


class Need(StrEnum):
    FLOW = "Flow"
    BACKLOG = "Backlog"
    KV_CACHE = "KvCache"
    QUEUE = "Queue"


@dataclass(frozen=True, slots=True)
class Look:
    at: float
    replicas: int
    arrivals: float


@dataclass(frozen=True, slots=True)
class Memory:
    looks: tuple[Look, ...] = ()
    slowness: float = 1.0
    learned_at: float = 0.0
    startup_seconds: float | None = None
    flow: tuple[tuple[float, float], ...] = ()
    """(end of count, arrivals per second over the last period)"""


@dataclass(frozen=True, slots=True)
class Wish:
    replicas: int
    need: Need
    enough: int
    limit: Limit | None
    numbers: dict = field(default_factory=dict)


def learned(memory: Memory, traffic: Traffic, replica: Replica, now: float) -> Memory:
    """Compare the time per token with the model's, once for each recent window."""
    measured, lengths = traffic.token_seconds, traffic.lengths
    if measured is None or lengths is None or now - memory.learned_at < traffic.recent.seconds:
        return memory
    if traffic.waiting >= traffic.pods or traffic.running < traffic.pods:
        return memory
    expected = seconds(replace(replica, slowness=1.0), lengths, traffic.running / traffic.pods)[Limit.TOKEN_TIME]
    ratio = min(MOST_WRONG, max(1 / MOST_WRONG, measured / expected))
    slowness = memory.slowness * (ratio / memory.slowness) ** LEARN
    return replace(memory, slowness=slowness, learned_at=now)


def wish_of(traffic: Traffic, replica: Replica, ready: int, *, settled: bool, lead: float = 0.0, drain: float = BACKLOG_SECONDS) -> Wish:
    rate, lengths = traffic.arrivals.per_second, traffic.lengths
    needs = {Need.QUEUE: math.ceil(GROWTH * ready) if settled and traffic.waiting >= LONG_QUEUE * ready else 0}
    keep, limit = 0.0, None
    if lengths is not None:
        calm = capacity_of(replica, lengths)
        most = capacity_of(replica, lengths, promised=False)
        limit = calm.limit
        backlog = max(0.0, traffic.waiting - NORMAL_QUEUE * ready) / drain
        needs[Need.FLOW] = _whole((rate + lead) / (ADD_USE * calm.per_second))
        needs[Need.BACKLOG] = _whole((rate + backlog) / most.per_second) if backlog else 0
        kv = traffic.used_tokens + min(traffic.waiting, NORMAL_QUEUE * ready) * lengths.in_cache
        needs[Need.KV_CACHE] = _whole(kv / (KV_ADD * replica.kv_tokens))
        keep = max((rate + lead) / (KEEP_USE * calm.per_second), kv / (KV_KEEP * replica.kv_tokens))
    elif traffic.used_tokens:
        needs[Need.KV_CACHE] = _whole(traffic.used_tokens / (KV_ADD * replica.kv_tokens))
    need = max(needs, key=lambda each: needs[each])
    return Wish(max(1, needs[need]), need, max(1, _whole(keep), needs[need]), limit)


def lead_of(flow, horizon: float) -> float:
    """Return by how much arrivals will have risen after so many seconds, where they rise steadily."""
    if len(flow) < 12 or flow[-1][0] - flow[0][0] < 300:
        return 0.0
    whole, error = _slope(flow)
    half = len(flow) // 2
    if whole < TREND_SIGNIFICANT * error:
        return 0.0
    steady = min(whole, _slope(flow[:half])[0], _slope(flow[half:])[0])
    if steady < 0.3 * whole:
        return 0.0
    return whole * horizon


def _slope(flow) -> tuple[float, float]:
    """Return the slope of a straight line through the points, and its standard error."""
    n = len(flow)
    mt = sum(t for t, _ in flow) / n
    mr = sum(r for _, r in flow) / n
    sxx = sum((t - mt) ** 2 for t, _ in flow)
    b = sum((t - mt) * (r - mr) for t, r in flow) / sxx
    rest = sum((r - mr - b * (t - mt)) ** 2 for t, r in flow)
    return b, math.sqrt(rest / max(1, n - 2) / sxx)


def _whole(replicas: float) -> int:
    return math.ceil(replicas * (1 - TOLERANCE))
