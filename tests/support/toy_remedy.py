"""A remedy in one file: all the replicas that the demand needs, in one step."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.rebalance.decisions import AddReplica, Wait
from plimsoll.rebalance.diagnose import Diagnosis, DiagnosisKind
from plimsoll.rebalance.remedies import Ask, Offer
from plimsoll.rebalance.situation import Situation


def whole_step(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Add as many replicas as bring the sustained demand below the bound."""
    if diagnosis.kind is not DiagnosisKind.KV_BOUND:
        return None
    load = situation.load
    of_one = situation.policy.high_percent * load.held_tokens // load.fresh_pods
    needed = load.demanded_sustained_tokens * 100 // of_one + 1
    wanted = replace(ask.tenant, request=replace(ask.tenant.request, replicas=needed))
    return ask(AddReplica(diagnosis.reason, diagnosis.numbers), wanted)
