"""Settings of an engine that suit the load: the most requests at the same time, and the size of a step.

The size of a step that suits the load: what a replica carries with another ``--max-num-batched-tokens``.
A large step computes prompts faster, because what a step costs in any case is paid less often. It also makes everybody
who waits for the next token wait for more of others' prompts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace

from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.placement.options.engine_limits import STEPS, OtherStep
from plimsoll.rebalance.law.capacity import (
    ConcurrencyLimit,
    ReplicaModel,
    capacity_of,
    decode_seconds,
    seconds_of_token,
)
from plimsoll.rebalance.law.promise import missed_figures
from plimsoll.rebalance.signals.traffic import Lengths, Traffic

LEAST_GAIN = 1.25
"""All engines restart for another limit, so each must carry at least so much more afterwards."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """Another limit of a replica, with the other one 0, and the requests a second that a replica carries with it."""

    limits: StepLimits
    per_second: float

    def replicas_for(self, rate: float, part: float) -> int:
        """Return the replicas for so many requests a second, if these may take a part of what replicas carry."""
        return math.ceil(rate / (part * self.per_second))


def after_retune(model: ReplicaModel, lengths: Lengths, most: int) -> Tuned | None:
    """Return the smallest usual limit that binds no more; None if a replica would carry hardly more with it.

    ``most`` is the highest limit that the engine could be given.
    """
    now = capacity_of(model, lengths)
    best = capacity_of(model.limited(StepLimits(sequences=max(most, model.limits.sequences))), lengths)
    if now.limit is not ConcurrencyLimit.BATCH or best.per_second < LEAST_GAIN * now.per_second:
        return None
    for step in STEPS[bisect_left(STEPS, math.ceil(best.running)) :]:
        limits = StepLimits(sequences=min(step, most))
        wider = capacity_of(model.limited(limits), lengths)
        if wider.limit is not ConcurrencyLimit.BATCH or step >= most:
            return Tuned(limits, wider.per_second)
    return None


LEAST_STEP_GAIN = 1.1
"""All engines restart for another step, so each must carry at least so much more afterwards.

When the model says 1.06 to 1.3, simulated replicas (benchmarks/rebalance, Llama 8B on L40S, gpt-oss 120B and Qwen3 30B
on A100) keep the promises of clearly more requests at 1.1 times the load that the old step carries: of 45 % before and
89 % after, 57 and 93, 5 and 98. A tenth is also more than what is rounded off in the model (3 %).
"""

NEARLY_ALL = 0.97
"""The step nearest to the present one that carries so much of what the best one does is taken: a larger step takes KV
cache, and a smaller one time to the first token."""

MOST_OF_THE_TIME = 0.5
"""The part of the engines' time that prompts take if these are the bottleneck."""


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """Seconds for each token of a running request: measured, promised, without any prompt, and with another step."""

    measured: float
    promised: float
    decode: float
    then: float


def larger_step(model: ReplicaModel, lengths: Lengths, traffic: Traffic, steps: Iterable[OtherStep]) -> Tuned | None:
    """Return a larger step with which a replica carries clearly more; None if there is none.

    Prompts must be the bottleneck, and the promised time per token must have room.
    """
    promised = model.slo.tpot_seconds
    has_room = promised is None or traffic.token_seconds is None or traffic.token_seconds <= promised
    is_missed = any(each.name == "tpot" for each in missed_figures(traffic, model.slo))
    if not has_room or is_missed or not is_prefill_bound(model, lengths):
        return None
    found = [_carried(model, lengths, each) for each in steps if each.tokens > model.limits.step_tokens]
    return _worth_it(found, capacity_of(model, lengths).per_second, nearest_first=1)


def smaller_step(model: ReplicaModel, lengths: Lengths, traffic: Traffic, steps: Iterable[OtherStep]) -> Tuned | None:
    """Return a smaller step with which a replica carries clearly more; None if there is none.

    The promised time per token must be missed, and without the prompts of others it would be kept.
    """
    times, now = token_times(model, lengths, traffic), capacity_of(model, lengths)
    if times is None or now.limit is not ConcurrencyLimit.TOKEN_TIME:
        return None
    if times.measured <= times.promised or times.decode > model.token_share * times.promised:
        return None
    found = []
    for each in (each for each in steps if each.tokens < model.limits.step_tokens):
        carried = _carried(model, lengths, each)
        most = most_per_second(_with(model, each), lengths)
        found.append(replace(carried, per_second=min(carried.per_second, most)))
    return _worth_it(found, now.per_second, nearest_first=-1)


def is_prefill_bound(model: ReplicaModel, lengths: Lengths) -> bool:
    """Whether prompts limit what a replica carries: by the time to the first token, or by most of the engines' time."""
    now = capacity_of(model, lengths)
    if now.limit is not ConcurrencyLimit.TOKEN_TIME:
        return now.limit is ConcurrencyLimit.FIRST_TOKEN_TIME
    return prompt_share(model, lengths, now.running) >= MOST_OF_THE_TIME


def prompt_share(model: ReplicaModel, lengths: Lengths, running: float) -> float:
    """Return the part of the time per token that prompts of others take, 0 to 1."""
    return max(0.0, 1 - decode_seconds(model, lengths, running) / seconds_of_token(model, lengths, running))


def token_times(model: ReplicaModel, lengths: Lengths, traffic: Traffic, step: int = 0) -> TokenTimes | None:
    """Return the times for the requests that run now, with another ``step`` if given; None if one is not known."""
    measured, promised, running = traffic.token_seconds, model.slo.tpot_seconds, traffic.running / traffic.pods
    if measured is None or promised is None:
        return None
    then = seconds_of_token(model.limited(StepLimits(step)), lengths, running)
    return TokenTimes(measured, promised, decode_seconds(model, lengths, running), then)


def _carried(model: ReplicaModel, lengths: Lengths, step: OtherStep) -> Tuned:
    return Tuned(StepLimits(step.tokens), capacity_of(_with(model, step), lengths).per_second)


def most_per_second(model: ReplicaModel, lengths: Lengths) -> float:
    """Return the requests a second of a replica at which every step is full, whatever is promised.

    So many requests generate then that as many end as begin: with more of them, less of a step is left to prompts, and
    fewer begin. The KV cache and the engine's limit may allow fewer.
    """
    costs, split = model.costs, model.costs.split
    computed, engines = max(1.0, lengths.prompt - lengths.cached), split.data_parallel * split.pipeline_parallel
    balanced = model.limits.step_tokens * lengths.output / (computed + lengths.output)
    generating = min(balanced, capacity_of(model, lengths, promised=False).running / engines)
    prompts = generating * computed / lengths.output  # at most what generating requests leave of a step
    attention = costs.prompt_attention(lengths.prompt) - costs.prompt_attention(lengths.cached)
    step = costs.step(engines * generating, lengths.in_cache, prompts).total + attention * prompts / computed
    return engines * prompts / computed / (step * model.slowness)


def _with(model: ReplicaModel, step: OtherStep) -> ReplicaModel:
    return replace(model.limited(StepLimits(step.tokens)), kv_tokens=step.kv_tokens)


def _worth_it(found: Iterable[Tuned], now: float, *, nearest_first: int) -> Tuned | None:
    """Return the first step that carries nearly as much as the best one, if that is clearly more than ``now``."""
    steps = sorted(found, key=lambda each: nearest_first * each.limits.step_tokens)
    best = max((each.per_second for each in steps), default=0.0)
    enough = max(LEAST_STEP_GAIN * now, NEARLY_ALL * best)
    return next((each for each in steps if each.per_second >= enough), None)
