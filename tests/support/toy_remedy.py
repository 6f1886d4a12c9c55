"""A remedy in one file: more replicas than the usual remedy adds, in one step."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind
from plimsoll.rebalance.remedies import Ask, Offer
from plimsoll.rebalance.state.decisions import AddReplica, Wait
from plimsoll.rebalance.state.situation import Situation


def one_to_spare(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Add one replica more than a full cache needs."""
    if diagnosis.kind is not DiagnosisKind.KV_BOUND:
        return None
    more = diagnosis.replicas + 1 - situation.placement.replicas
    wanted = replace(ask.tenant, request=replace(ask.tenant.request, replicas=diagnosis.replicas + 1))
    return ask(AddReplica(diagnosis.reason, diagnosis.numbers, more), wanted)
