"""What one replica can carry of a kind of traffic, and what limits it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from plimsoll.domain.latency import Slo
from plimsoll.performance.model import Load, context_tokens, decode_step, first_token_seconds, token_seconds
from plimsoll.performance.step_costs import StepCosts
from plimsoll.rebalance.traffic import Lengths


class Limit(StrEnum):
    """What stops a replica from carrying more requests at the same time."""

    KV_CACHE = "KvCache"
    BATCH = "Batch"
    """``--max-num-seqs``."""
    TOKEN_TIME = "TokenTime"  # noqa: S105 - no password
    """The time per token that is promised."""
    FIRST_TOKEN_TIME = "FirstTokenTime"  # noqa: S105 - no password
    """The time to the first token that is promised."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica.

    Attributes:
        kv_tokens: its KV cache.
        max_sequences: requests that it runs at the same time (``--max-num-seqs`` of all its engines).
        batched_tokens: the most tokens of a step (``--max-num-batched-tokens``).
        costs: the time of its steps by the performance model.
        slo: what is promised; a figure that is None limits nothing.
        slowness: the measured time of a step over the model's.
    """

    kv_tokens: int
    max_sequences: int
    batched_tokens: int
    costs: StepCosts
    slo: Slo
    slowness: float = 1.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one replica carries: requests at the same time and a second, and what limits them."""

    running: float
    per_second: float
    limit: Limit


SPARE = 1.3
"""Requests come by chance. A hard limit keeps room for so many standard deviations of the number of running ones."""

KV_SHARE = 0.95
"""The part of the KV cache that running requests may fill, chance included. Blocks are taken as a whole."""

FEW_BITS = 5
"""Lengths and slowness are rounded to so many binary digits (3 %), so that a pass mostly finds its answer."""


TOKEN_SHARE = 0.85
FIRST_TOKEN_SHARE = 0.35


def capacity_of(replica: Replica, lengths: Lengths, *, promised: bool = True) -> Capacity:
    """Return what a replica carries with its promises kept, or at the most."""
    rounded = Lengths(*map(_rounded, (lengths.prompt, lengths.output, lengths.cached, lengths.in_cache)))
    return _capacity(_with_slowness(replica), rounded, promised)


def _with_slowness(replica: Replica) -> Replica:
    slowness = _rounded(replica.slowness)
    return Replica(
        replica.kv_tokens, replica.max_sequences, replica.batched_tokens, replica.costs, replica.slo, slowness
    )


def _rounded(number: float) -> float:
    if number <= 0:
        return 0.0
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(mantissa * 2**FEW_BITS) / 2**FEW_BITS, exponent)


@lru_cache(maxsize=4096)
def _capacity(replica: Replica, lengths: Lengths, promised: bool) -> Capacity:
    hard, limit = min(
        (_mean_below(KV_SHARE * replica.kv_tokens / lengths.in_cache), Limit.KV_CACHE),
        (_mean_below(float(replica.max_sequences)), Limit.BATCH),
    )
    running = hard
    goals = ((Limit.TOKEN_TIME, replica.slo.tpot_seconds, TOKEN_SHARE), (Limit.FIRST_TOKEN_TIME, replica.slo.ttft_seconds, FIRST_TOKEN_SHARE))
    for figure, goal, share in goals if promised else ():
        if goal is None or seconds(replica, lengths, running)[figure] <= share * goal:
            continue
        running, limit = _most_within(replica, lengths, figure, share * goal, running), figure
    ttft, token = seconds(replica, lengths, running).values()
    return Capacity(running, running / (ttft + (lengths.output - 1) * token), limit)


def _mean_below(most: float) -> float:
    """Return the mean of a number that varies by chance (Poisson) and rarely exceeds ``most``; 1 at least."""
    root = (-SPARE + math.sqrt(SPARE * SPARE + 4 * max(most, 1.0))) / 2
    return max(1.0, root * root)


def _most_within(replica: Replica, lengths: Lengths, figure: Limit, limit_seconds: float, most: float) -> float:
    """Return the most running requests with which a time is kept; 1 where it never is."""
    low, high = 1.0, most
    for _ in range(10):
        middle = (low + high) / 2
        if seconds(replica, lengths, middle)[figure] <= limit_seconds:
            low = middle
        else:
            high = middle
    return low


def seconds(replica: Replica, lengths: Lengths, running: float) -> dict[Limit, float]:
    """Return the time to the first token and per token, in this order, with so many running requests."""
    load = Load(max(1.0, lengths.prompt), max(1.0, lengths.output), max(1.0, running), math.inf, lengths.cached)
    costs = replica.costs
    decode = decode_step(costs, load)
    token = token_seconds(costs, load, replica.batched_tokens, decode)
    first = first_token_seconds(costs, load, replica.batched_tokens, token, decode)
    per_token = max(token.total, costs.floor.seconds)
    return {Limit.FIRST_TOKEN_TIME: first * replica.slowness, Limit.TOKEN_TIME: per_token * replica.slowness}


__all__ = ["Capacity", "Limit", "Replica", "capacity_of", "context_tokens", "seconds"]
