"""Give the engines another size of a step, where prompts are the bottleneck or break the promised time per token."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.public_words import Numbers
from plimsoll.placement.demands.pools import Pool, Tenant
from plimsoll.rebalance.diagnosis.diagnose import MISSED_SECONDS, PER_MINUTE, Diagnosis, DiagnosisKind
from plimsoll.rebalance.guard import may_change_step
from plimsoll.rebalance.law.capacity import ReplicaModel, capacity_of
from plimsoll.rebalance.law.tuning import Restep, larger_step, prompt_share, smaller_step, token_times
from plimsoll.rebalance.remedies.protocol import Ask, Offer
from plimsoll.rebalance.signals.traffic import Lengths, Traffic
from plimsoll.rebalance.state.decisions import DecisionReason, Retune, Wait
from plimsoll.rebalance.state.situation import Situation

_SLOW_PROMPTS = frozenset((DiagnosisKind.PREFILL_BOUND, DiagnosisKind.DECODE_BOUND, DiagnosisKind.HOST_BOUND))
"""Diagnoses that ask for more replicas because of a promised time: a larger step may make them superfluous."""

_SLOW_TOKENS = frozenset((*_SLOW_PROMPTS, DiagnosisKind.PROMISE_MISSED, DiagnosisKind.TOO_SLOW))
"""Diagnoses next to which the time per token may be missed."""

KNOWN_SECONDS = 60.0
"""How long arrivals have been counted before all engines restart for them. Replicas are added sooner."""

_MILLISECONDS, _PERCENT = 1000, 100


def retune_step(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Change ``--max-num-batched-tokens`` where each replica carries clearly more with it: it costs a restart, no GPU.

    A step that the user has written stays. The lengths of requests must be known well, and not from a few of them.
    """
    traffic, model = situation.load.traffic, situation.placement.model
    if diagnosis.kind not in _SLOW_TOKENS or traffic is None or traffic.lengths is None or model is None:
        return None
    is_known = situation.memory.output_tokens is not None and traffic.steady.seconds >= KNOWN_SECONDS
    if not is_known or ask.tenant.request.engine.max_batched_tokens is not None:
        return None
    model = replace(model, slowness=situation.memory.slowness)
    change = _smaller(situation, model, traffic, traffic.lengths) or (
        _larger(situation, model, traffic, traffic.lengths) if diagnosis.kind in _SLOW_PROMPTS else None
    )
    return None if change is None else ask(change, with_step(ask.tenant, change.step_tokens))


def with_step(tenant: Tenant, tokens: int) -> Tenant:
    """Return the deployment with another step of its engines."""
    pools = (_with_step(pool, tenant, tokens) if pool.is_active else pool for pool in tenant.pools)
    return replace(tenant, pools=tuple(pools))


def _with_step(pool: Pool, tenant: Tenant, tokens: int) -> Pool:
    """Return the pool with another step. A number of requests that was chosen for another spec is none for this one."""
    sequences = pool.max_sequences if pool.spec == tenant.spec else None
    return replace(pool, batched_tokens=tokens, max_sequences=sequences, spec=tenant.spec, restarts=True)


def _larger(situation: Situation, model: ReplicaModel, traffic: Traffic, lengths: Lengths) -> Retune | None:
    reason = DecisionReason.PROMPT_STEP_TOO_SMALL
    if not may_change_step(reason, situation):
        return None
    found = larger_step(model, lengths, traffic, situation.placement.steps())
    if found is None:
        return None
    share = prompt_share(model, lengths, capacity_of(model, lengths).running)
    numbers = (("prompt_percent", round(_PERCENT * share)),)
    return Retune(
        reason, (*_load_numbers(situation, model, traffic, lengths, found), *numbers), step_tokens=found.tokens
    )


def _smaller(situation: Situation, model: ReplicaModel, traffic: Traffic, lengths: Lengths) -> Retune | None:
    reason, since = DecisionReason.PROMPT_STEP_TOO_LARGE, situation.memory.strained_since
    is_lasting = since is not None and situation.now - since >= MISSED_SECONDS
    if not is_lasting or not may_change_step(reason, situation):
        return None
    found = smaller_step(model, lengths, traffic, situation.placement.steps())
    times = None if found is None else token_times(model, lengths, traffic, found.tokens)
    if found is None or times is None:
        return None
    seconds = {"measured_ms": times.measured, "promised_ms": times.promised, "decode_ms": times.decode}
    seconds["then_ms"] = times.then
    in_ms = ((name, round(_MILLISECONDS * value)) for name, value in seconds.items())
    numbers = (*_load_numbers(situation, model, traffic, lengths, found), *in_ms)
    return Retune(reason, numbers, step_tokens=found.tokens)


def _load_numbers(
    situation: Situation, model: ReplicaModel, traffic: Traffic, lengths: Lengths, found: Restep
) -> Numbers:
    """Return the load, and what a replica carries of it before and after. Rates are requests a minute."""
    now = capacity_of(model, lengths)
    return (
        ("replicas", situation.placement.replicas),
        ("waiting", round(traffic.waiting)),
        ("prompt_tokens", round(lengths.prompt)),
        ("output_tokens", round(lengths.output)),
        ("arrivals_per_minute", round(PER_MINUTE * traffic.arrivals.per_second)),
        ("capacity_per_minute", round(PER_MINUTE * now.per_second)),
        ("limit", now.limit.value),
        ("step", model.batched_tokens),
        ("to_step", found.tokens),
        ("to_capacity_per_minute", round(PER_MINUTE * found.per_second)),
    )
