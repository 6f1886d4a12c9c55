"""Add one replica, or remove one."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.placement.pools import Tenant
from plimsoll.rebalance.decisions import AddReplica, RemoveReplica, Wait
from plimsoll.rebalance.diagnose import Diagnosis, DiagnosisKind
from plimsoll.rebalance.remedies.protocol import Ask, Offer
from plimsoll.rebalance.situation import Situation

_ONE_MORE = (DiagnosisKind.TOO_FEW_REPLICAS, DiagnosisKind.KV_BOUND, DiagnosisKind.QUEUE_BOUND)
_ONE_LESS = (DiagnosisKind.TOO_MANY_REPLICAS, DiagnosisKind.IDLE)


def add_replica(diagnosis: Diagnosis, _: Situation, ask: Ask) -> Offer | Wait | None:
    """Add one replica where there are too few."""
    if diagnosis.kind not in _ONE_MORE:
        return None
    return ask(AddReplica(diagnosis.reason, diagnosis.numbers), _with_replicas(ask.tenant, +1))


def remove_replica(diagnosis: Diagnosis, _: Situation, ask: Ask) -> Offer | Wait | None:
    """Remove one replica where there are too many."""
    if diagnosis.kind not in _ONE_LESS:
        return None
    return ask(RemoveReplica(diagnosis.reason, diagnosis.numbers), _with_replicas(ask.tenant, -1))


def _with_replicas(tenant: Tenant, more: int) -> Tenant:
    return replace(tenant, request=replace(tenant.request, replicas=tenant.request.replicas + more))
