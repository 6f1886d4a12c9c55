"""The load that one replica carries with its promises kept, and what limits it.

The constants were chosen on simulated traffic (docs/rebalance-benchmark.md).

The model of one replica as it runs: its cache, its limits, the time of its steps, and what is promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.latency import Bound, Objective, Slo
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.performance.hardware_speed import as_run_by
from plimsoll.performance.model import Load, decode_step, first_token_seconds, token_seconds
from plimsoll.performance.slo import INTERACTIVE
from plimsoll.performance.step_costs import StepCosts, step_costs
from plimsoll.placement.options.speed import plans_ahead
from plimsoll.rebalance.law.dispersion import USUAL_DISPERSION
from plimsoll.rebalance.law.spread import NO_SPREAD, Spread
from plimsoll.rebalance.signals.traffic import Lengths

SPARE_DEVIATIONS = 1.3
"""Requests come by chance. Below a hard limit, room for so many standard deviations of their number stays free.

In simulations of six kinds of traffic on three replicas, in which the KV cache, the batch or the time per token limits,
90 % of the load that follows from this kept the promises of 98.6 % of the requests or more. 95 % of it broke those of
about half of the requests in two kinds with long answers. Their router knew the load of the replicas. If these hold
less alike numbers than such a router leaves, the KV cache needs more room, by the root of the index of dispersion.
"""

KV_SHARE = 0.95
"""The part of the KV cache that requests may fill, chance included. Blocks are taken as a whole."""

TOKEN_SHARE = 0.85
"""The part of the promised time per token that the mean may take: sharing steps with prompts takes longer."""

FIRST_TOKEN_SHARE = 0.35
"""The same for the time to the first token. Prompts are of different lengths, and wait for each other by chance.

In simulations with prompts of 6,000 tokens (standard deviation 0.5 of the mean) on three replicas at 90 % of the load
that follows, 0.5 broke the promise of 11.5 % of the requests, and 0.35 that of 3.1 %.
"""

ROUNDED_BITS = 5
"""Figures are rounded to so many binary digits (3 %), so that a pass mostly knows the answer already."""

DISPERSION_BITS = 2
"""The same of the index of dispersion (25 %), of which the root counts, and which is known no better."""

_HALVINGS = 10


class ConcurrencyLimit(StrEnum):
    """The limits that stop a replica from carrying more requests at the same time."""

    KV_CACHE = "KvCache"
    """The KV cache is full."""
    BATCH = "Batch"
    """The engine runs no more at the same time (``--max-num-seqs``)."""
    TOKEN_TIME = "TokenTime"  # noqa: S105 - a word, not a password
    """The time per token would be longer than promised."""
    FIRST_TOKEN_TIME = "FirstTokenTime"  # noqa: S105 - a word, not a password
    """The time to the first token would be longer than promised."""


@dataclass(frozen=True, slots=True)
class ReplicaModel:
    """One replica as the performance model knows it.

    Attributes:
        kv_tokens: its KV cache.
        limits: its limits, with the requests of all its engines.
        costs: the time of its steps.
        slo: what is promised. A figure that is None limits nothing.
        slowness: the measured time of a token over the model's.
        spread: the promised percentile over the mean; nothing is known of it before it is measured.
        objective: what the user wants to pay for the time that requests take.
        dispersion: how unevenly requests are spread over the replicas (:mod:`plimsoll.rebalance.law.dispersion`).
    """

    kv_tokens: int
    limits: StepLimits
    costs: StepCosts = field(hash=False)  # dozens of numbers, and mostly one for each size of cache
    slo: Slo
    slowness: float = 1.0
    spread: Spread = NO_SPREAD
    objective: Objective = Objective.BALANCED
    dispersion: float = USUAL_DISPERSION

    @property
    def kv_deviations(self) -> float:
        """The standard deviations of the requests that the KV cache has room for."""
        return SPARE_DEVIATIONS * math.sqrt(max(1.0, self.dispersion / USUAL_DISPERSION))

    @property
    def first_token_share(self) -> float:
        """The part of the promised time to the first token that the mean may take."""
        return _share(self.spread.first_token, FIRST_TOKEN_SHARE)

    @property
    def token_share(self) -> float:
        """The part of the promised time per token that the mean may take."""
        return _share(self.spread.token, TOKEN_SHARE)

    def limited(self, limits: StepLimits) -> ReplicaModel:
        """Return the replica with other limits. Those that are 0 stay as they are."""
        return replace(self, limits=limits.over(self.limits))


@dataclass(frozen=True, slots=True)
class ReplicaCapacity:
    """The load of one replica: requests at the same time, requests a second, and what limits them.

    ``bound`` is what a step with them mostly spends its time on.
    """

    running: float
    per_second: float
    limit: ConcurrencyLimit
    bound: Bound


@dataclass(frozen=True, slots=True)
class Times:
    """Mean seconds to the first token and between two tokens of a request."""

    first_token: float
    token: float


def capacity_of(replica: ReplicaModel, lengths: Lengths, *, promised: bool = True) -> ReplicaCapacity:
    """Return the load that a replica carries of such requests with its promises kept, or at the most."""
    prompt, output, cached, in_cache = map(_rounded, (lengths.prompt, lengths.output, lengths.cached, lengths.in_cache))
    rounded = Lengths(prompt, output, cached, in_cache)
    dispersion = max(USUAL_DISPERSION, _rounded(replica.dispersion, DISPERSION_BITS))
    return _capacity(replace(replica, slowness=_rounded(replica.slowness), dispersion=dispersion), rounded, promised)


def _share(ratio: float | None, usual: float) -> float:
    """Return the part of a promise that the mean may take, with a measured ratio of the percentile to the mean."""
    return usual if ratio is None else min(TOKEN_SHARE, 1 / _rounded(ratio))


def times_of(replica: ReplicaModel, lengths: Lengths, running: float) -> Times:
    """Return the mean times with so many running requests, by the performance model and the measured slowness."""
    load, costs = _load(lengths, running), replica.costs
    decode = decode_step(costs, load)
    token = token_seconds(costs, load, replica.limits.step_tokens, decode)
    first = first_token_seconds(costs, load, replica.limits.step_tokens, token, decode)
    return Times(first * replica.slowness, max(token.total, costs.floor.seconds) * replica.slowness)


def seconds_of_token(replica: ReplicaModel, lengths: Lengths, running: float) -> float:
    """Return the mean seconds between two tokens alone, as :func:`times_of` does."""
    load, costs = _load(lengths, running), replica.costs
    token = token_seconds(costs, load, replica.limits.step_tokens, decode_step(costs, load))
    return max(token.total, costs.floor.seconds) * replica.slowness


@lru_cache(maxsize=4096)
def seconds_while_generating(replica: ReplicaModel, lengths: Lengths, generating: float) -> float:
    """Return the mean seconds between two tokens while so many requests generate.

    Those whose prompt is computed run next to them: as many as the time to the first token is of that of the others.
    """
    times = times_of(replica, lengths, generating)
    first = times.first_token / (max(1.0, lengths.output - 1) * times.token)
    return seconds_of_token(replica, lengths, max(1.0, generating) * (1 + first))


def decode_seconds(replica: ReplicaModel, lengths: Lengths, running: float) -> float:
    """Return the time of a step in which so many requests generate a token each, and no prompt rides along."""
    return decode_step(replica.costs, _load(lengths, running)).total * replica.slowness


def _load(lengths: Lengths, running: float) -> Load:
    return Load(max(1.0, lengths.prompt), max(1.0, lengths.output), max(1.0, running), math.inf, lengths.cached)


@lru_cache(maxsize=4096)
def _capacity(replica: ReplicaModel, lengths: Lengths, promised: bool) -> ReplicaCapacity:  # noqa: FBT001 - cached by position
    in_cache = KV_SHARE * replica.kv_tokens / lengths.in_cache
    running, limit = min(
        (_mean_below(in_cache, replica.kv_deviations), ConcurrencyLimit.KV_CACHE),
        (_mean_below(float(replica.limits.sequences), SPARE_DEVIATIONS), ConcurrencyLimit.BATCH),
    )
    if promised:
        running, limit = _within_promises(replica, lengths, running, limit)
    times = times_of(replica, lengths, running)
    seconds = times.first_token + max(0.0, lengths.output - 1) * times.token
    return ReplicaCapacity(running, running / seconds, limit, _bound(replica, lengths, running))


def _bound(replica: ReplicaModel, lengths: Lengths, running: float) -> Bound:
    return max(replica.costs.step(running, lengths.in_cache).parts, key=lambda each: each[0])[1]


def _within_promises(
    replica: ReplicaModel, lengths: Lengths, running: float, limit: ConcurrencyLimit
) -> tuple[float, ConcurrencyLimit]:
    """Return fewer requests at the same time if a promise asks for it."""
    slo = replica.slo
    if slo.tpot_seconds is not None:
        fewer = _most(replica, lengths, running, Times(math.inf, replica.token_share * slo.tpot_seconds))
        running, limit = (fewer, ConcurrencyLimit.TOKEN_TIME) if fewer < running else (running, limit)
    if slo.ttft_seconds is not None:
        fewer = _most(replica, lengths, running, Times(replica.first_token_share * slo.ttft_seconds, math.inf))
        running, limit = (fewer, ConcurrencyLimit.FIRST_TOKEN_TIME) if fewer < running else (running, limit)
    return running, limit


def _most(replica: ReplicaModel, lengths: Lengths, most: float, allowed: Times) -> float:
    """Return the most running requests with which both times are kept, at most ``most``; 1 if they never are."""
    if _kept(replica, lengths, most, allowed):
        return most
    low, high = 1.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _kept(replica, lengths, middle, allowed) else (low, middle)
    return low


def _kept(replica: ReplicaModel, lengths: Lengths, running: float, allowed: Times) -> bool:
    times = times_of(replica, lengths, running)
    return times.first_token <= allowed.first_token and times.token <= allowed.token


def _mean_below(most: float, deviations: float) -> float:
    """Return the mean of a number that varies by chance and rarely exceeds ``most``; 1 at least.

    ``deviations`` are counted in those of a Poisson distribution.
    """
    root = (-deviations + math.sqrt(deviations**2 + 4 * max(most, 1.0))) / 2
    return max(1.0, root * root)


def _rounded(number: float, bits: int = ROUNDED_BITS) -> float:
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(mantissa * 2**bits) / 2**bits, exponent)


def model_of(request: Request, gpu: GpuType, split: Split, kv_tokens: int) -> ReplicaModel | None:
    """Return the model of a replica; None if the performance model does not cover the model or the split.

    Args:
        request: the deployment, with the settings that the replica runs with.
        gpu: the GPU type.
        split: how the replica is cut.
        kv_tokens: its KV cache, as reported, or else as predicted.
    """
    engine = engine_of(request.engine.name)
    if kv_tokens <= 0:
        return None
    try:
        settings = engine.settings(request, gpu, split)
        costs = step_costs(
            request.model,
            request.precision,
            request.kv_precision,
            as_run_by(gpu, request.engine.name),
            split,
            settings.residency,
            synchronous=not plans_ahead(request),
            eager=request.engine.enforce_eager,
        )
    except (PlimsollError, ValueError):
        return None
    return ReplicaModel(
        kv_tokens=kv_tokens,
        limits=settings.limits.of_replica(split.data_parallel),
        costs=costs,
        slo=request.slo or INTERACTIVE,
        objective=request.objective,
    )
