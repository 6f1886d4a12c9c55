"""Let the engines run more requests at the same time, where their own limit binds before the GPU does."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.placement.demands.pools import Tenant
from plimsoll.rebalance.diagnosis.diagnose import PER_MINUTE, Diagnosis, DiagnosisKind
from plimsoll.rebalance.law.tuning import after_retune
from plimsoll.rebalance.remedies.protocol import Ask, Offer
from plimsoll.rebalance.state.decisions import Retune, Wait
from plimsoll.rebalance.state.situation import Situation


def retune(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Raise ``--max-num-seqs`` to what cache and promises allow: it costs a restart, and no GPU.

    A limit that the user has written stays.
    """
    traffic, model, most = situation.load.traffic, situation.placement.model, situation.placement.most_sequences
    is_fixed = ask.tenant.request.engine.max_sequences is not None
    if diagnosis.kind is not DiagnosisKind.BATCH_BOUND or is_fixed or model is None or most is None:
        return None
    if traffic is None or traffic.lengths is None:
        return None
    tuned = after_retune(replace(model, slowness=situation.memory.slowness), traffic.lengths, most)
    if tuned is None:
        return None
    numbers = (
        *diagnosis.numbers,
        ("sequences", model.max_sequences),
        ("to_sequences", tuned.sequences),
        ("to_capacity_per_minute", round(PER_MINUTE * tuned.per_second)),
    )
    change = Retune(diagnosis.reason, numbers, tuned.sequences)
    return ask(change, with_sequences(ask.tenant, tuned.sequences))


def with_sequences(tenant: Tenant, sequences: int) -> Tenant:
    """Return the deployment with another limit of its replicas. Engines of data parallelism share it."""
    pools = tuple(
        replace(pool, max_sequences=-(-sequences // pool.split.data_parallel), spec=tenant.spec, restarts=True)
        if pool.is_active
        else pool
        for pool in tenant.pools
    )
    return replace(tenant, pools=pools)
