"""Give the engines other settings: more requests at the same time, or another size of a step.

The first if their own limit binds before the GPU does, the second if prompts are the bottleneck or break the
promised time per token.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import ceil_div, to_milliseconds, to_per_minute, to_percent
from plimsoll.placement.demands.pools import Pool, Tenant
from plimsoll.rebalance.diagnosis.diagnose import MISSED_SECONDS, Diagnosis, DiagnosisKind
from plimsoll.rebalance.guard import may_change_step
from plimsoll.rebalance.law.capacity import ReplicaModel, capacity_of
from plimsoll.rebalance.law.tuning import Tuned, after_retune, larger_step, prompt_share, smaller_step, token_times
from plimsoll.rebalance.remedies.protocol import Ask, Offer
from plimsoll.rebalance.signals.traffic import Lengths, Traffic
from plimsoll.rebalance.state.decisions import DecisionReason, Retune, Wait
from plimsoll.rebalance.state.situation import Situation


def retune(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Raise ``--max-num-seqs`` to what cache and promises allow: it costs a restart, and no GPU.

    A limit that the user has written stays.
    """
    traffic, model, most = situation.load.traffic, situation.placement.model, situation.placement.most_sequences
    is_fixed = ask.tenant.request.engine.limits.sequences > 0
    if diagnosis.kind is not DiagnosisKind.BATCH_BOUND or is_fixed or model is None or most is None:
        return None
    if traffic is None or traffic.lengths is None:
        return None
    tuned = after_retune(situation.memory.known_of(model), traffic.lengths, most)
    if tuned is None:
        return None
    numbers = (
        *diagnosis.numbers,
        ("sequences", model.limits.sequences),
        ("to_sequences", tuned.limits.sequences),
        ("to_capacity_per_minute", to_per_minute(tuned.per_second)),
    )
    return ask(Retune(diagnosis.reason, numbers, tuned.limits), retuned(ask.tenant, tuned.limits))


def retuned(tenant: Tenant, limits: StepLimits) -> Tenant:
    """Return the deployment with other limits of its replicas. Engines of data parallelism share the requests.

    Requests at the same time that were chosen for another spec are none for this one.
    """

    def changed(pool: Pool) -> Pool:
        own = pool.limits if pool.spec == tenant.spec else StepLimits(pool.limits.step_tokens)
        each = StepLimits(limits.step_tokens, ceil_div(limits.sequences, pool.split.data_parallel))
        return replace(pool, limits=each.over(own), spec=tenant.spec, restarts=True)

    return replace(tenant, pools=tuple(changed(pool) if pool.is_active else pool for pool in tenant.pools))


_SLOW_PROMPTS = frozenset((DiagnosisKind.PREFILL_BOUND, DiagnosisKind.DECODE_BOUND, DiagnosisKind.HOST_BOUND))
"""Diagnoses that ask for more replicas because of a promised time: a larger step may make them superfluous."""

_SLOW_TOKENS = frozenset((*_SLOW_PROMPTS, DiagnosisKind.PROMISE_MISSED, DiagnosisKind.TOO_SLOW))
"""Diagnoses next to which the time per token may be missed."""

KNOWN_SECONDS = 60.0
"""How long arrivals have been counted before all engines restart for them. Replicas are added sooner."""


def retune_step(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Change ``--max-num-batched-tokens`` if each replica carries clearly more with it: it costs a restart, no GPU.

    A step that the user has written stays. The lengths of requests must be known well, and not from a few of them.
    """
    traffic, model = situation.load.traffic, situation.placement.model
    if diagnosis.kind not in _SLOW_TOKENS or traffic is None or traffic.lengths is None or model is None:
        return None
    is_known = situation.memory.output_tokens is not None and traffic.steady.seconds >= KNOWN_SECONDS
    if not is_known or ask.tenant.request.engine.limits.step_tokens:
        return None
    model = situation.memory.known_of(model)
    change = _smaller(situation, model, traffic, traffic.lengths) or (
        _larger(situation, model, traffic, traffic.lengths) if diagnosis.kind in _SLOW_PROMPTS else None
    )
    return None if change is None else ask(change, retuned(ask.tenant, change.limits))


def _larger(situation: Situation, model: ReplicaModel, traffic: Traffic, lengths: Lengths) -> Retune | None:
    reason = DecisionReason.PROMPT_STEP_TOO_SMALL
    if not may_change_step(reason, situation):
        return None
    found = larger_step(model, lengths, traffic, situation.placement.steps())
    if found is None:
        return None
    share = prompt_share(model, lengths, capacity_of(model, lengths).running)
    numbers = (("prompt_percent", to_percent(share)),)
    return Retune(reason, (*_load_numbers(situation, model, traffic, lengths, found), *numbers), found.limits)


def _smaller(situation: Situation, model: ReplicaModel, traffic: Traffic, lengths: Lengths) -> Retune | None:
    reason, since = DecisionReason.PROMPT_STEP_TOO_LARGE, situation.memory.strained_since
    is_lasting = since is not None and situation.now - since >= MISSED_SECONDS
    if not is_lasting or not may_change_step(reason, situation):
        return None
    found = smaller_step(model, lengths, traffic, situation.placement.steps())
    times = None if found is None else token_times(model, lengths, traffic, found.limits.step_tokens)
    if found is None or times is None:
        return None
    seconds = {"measured_ms": times.measured, "promised_ms": times.promised, "decode_ms": times.decode}
    seconds["then_ms"] = times.then
    in_ms = ((name, to_milliseconds(value)) for name, value in seconds.items())
    numbers = (*_load_numbers(situation, model, traffic, lengths, found), *in_ms)
    return Retune(reason, numbers, found.limits)


def _load_numbers(
    situation: Situation, model: ReplicaModel, traffic: Traffic, lengths: Lengths, found: Tuned
) -> Numbers:
    """Return the load, and what a replica carries of it before and after. Rates are requests a minute."""
    now = capacity_of(model, lengths)
    return (
        ("replicas", situation.placement.replicas),
        ("waiting", round(traffic.waiting)),
        ("prompt_tokens", round(lengths.prompt)),
        ("output_tokens", round(lengths.output)),
        ("arrivals_per_minute", to_per_minute(traffic.arrivals.per_second)),
        ("capacity_per_minute", to_per_minute(now.per_second)),
        ("limit", now.limit.value),
        ("step", model.limits.step_tokens),
        ("to_step", found.limits.step_tokens),
        ("to_capacity_per_minute", to_per_minute(found.per_second)),
    )
