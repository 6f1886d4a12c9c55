"""Add replicas, or remove some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.placement.demands.pools import Tenant
from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind
from plimsoll.rebalance.remedies.protocol import Ask, Offer
from plimsoll.rebalance.state.decisions import AddReplica, RemoveReplica, Wait
from plimsoll.rebalance.state.situation import Situation

_MORE = frozenset(
    (
        DiagnosisKind.TOO_FEW_REPLICAS,
        DiagnosisKind.KV_BOUND,
        DiagnosisKind.BATCH_BOUND,
        DiagnosisKind.DECODE_BOUND,
        DiagnosisKind.HOST_BOUND,
        DiagnosisKind.PREFILL_BOUND,
        DiagnosisKind.QUEUE_BOUND,
        DiagnosisKind.MORE_EXPECTED,
        DiagnosisKind.PREEMPTION_STORM,
        DiagnosisKind.STUCK_REPLICA,
        DiagnosisKind.PAGE_LIVELOCK,
        DiagnosisKind.IMBALANCED,
    )
)
_LESS = frozenset((DiagnosisKind.TOO_MANY_REPLICAS, DiagnosisKind.IDLE, DiagnosisKind.ADDITIONS_IN_VAIN))


def add_replicas(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Add all replicas that are needed at once; if not all have a place, as many as have one."""
    now, policy = situation.placement.replicas, situation.policy
    if diagnosis.kind not in _MORE or diagnosis.replicas <= now:
        return None
    wanted = max(1, min(diagnosis.replicas, policy.max_replicas) - now)
    without: Offer | Wait | None = None
    for count in _fewer_and_fewer(wanted):
        answer = ask(AddReplica(diagnosis.reason, diagnosis.numbers, count), _with_replicas(ask.tenant, +count))
        if isinstance(answer, Offer) and answer.answer is not None:
            return answer
        without = answer if without is None else _with_room(without, answer)
    return without


def _with_room(first: Offer | Wait, last: Offer | Wait) -> Offer | Wait:
    """Return the first answer, with the room that others could make for the last and smallest change."""
    if not isinstance(last, Offer):
        return first
    return replace(first, room=last.room) if isinstance(first, Offer) else last


def _fewer_and_fewer(count: int) -> Iterator[int]:
    """Yield the count, and then half of it each time, down to one."""
    while count >= 1:
        yield count
        count //= 2


def remove_replicas(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Remove those that are superfluous."""
    if diagnosis.kind not in _LESS:
        return None
    now = situation.placement.replicas
    count = now - max(diagnosis.replicas, situation.policy.min_replicas)
    return ask(RemoveReplica(diagnosis.reason, diagnosis.numbers, count), _with_replicas(ask.tenant, -count))


def _with_replicas(tenant: Tenant, more: int) -> Tenant:
    return replace(tenant, request=replace(tenant.request, replicas=tenant.request.replicas + more))
