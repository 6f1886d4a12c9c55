"""Replace one replica that is slow or silent by a new one on another node."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.node_rules import left_rule
from plimsoll.placement.demands.pools import Tenant
from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind
from plimsoll.rebalance.remedies.protocol import Ask, Offer
from plimsoll.rebalance.state.decisions import DecisionReason, ReplaceReplica, Wait
from plimsoll.rebalance.state.situation import Situation


def replace_replica(diagnosis: Diagnosis, situation: Situation, ask: Ask) -> Offer | Wait | None:
    """Start a new replica on another node, before the one that is not like the others ends.

    Volumes that only one replica can mount leave no room for both.
    """
    if diagnosis.kind not in (DiagnosisKind.REPLICA_SLOW, DiagnosisKind.REPLICA_SILENT):
        return None
    if situation.replacement is not None:
        return None  # it is replaced already
    numbers = dict(diagnosis.numbers)
    change = ReplaceReplica(diagnosis.reason, diagnosis.numbers, str(numbers["pod"]), str(numbers.get("node", "")))
    if ask.tenant.request.mounts_alone:
        return Wait(DecisionReason.NO_PLACE_FOUND, (("wanted", change.reason.value), ("nearest", "")))
    return ask(change, with_one_off(ask.tenant, change))


def with_one_off(tenant: Tenant, change: ReplaceReplica) -> Tenant:
    """Return the deployment with one more replica, which has to find room off the node of the one that goes."""
    request = tenant.request
    rules = (left_rule({change.node: change.reason.value}),) if change.node else ()
    more = replace(request, replicas=request.replicas + 1, node_rules=(*request.node_rules, *rules))
    return replace(tenant, request=more)
