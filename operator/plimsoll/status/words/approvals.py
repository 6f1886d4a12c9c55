"""The outcome of a PlacementApproval in one sentence."""

from __future__ import annotations

from plimsoll.domain.kubernetes_names import PROPOSAL_PLURAL, ObjectKey
from plimsoll.domain.units import to_rfc3339
from plimsoll.rebalance.inbox import Vote, VoteOutcome


def outcome_sentence(outcome: VoteOutcome, vote: Vote, deployment: ObjectKey, expires: float | None) -> str:
    """Return what was done, or why nothing was. ``expires`` is when the proposal ends, in POSIX seconds."""
    until = "its end" if expires is None else to_rfc3339(expires)
    match outcome:
        case VoteOutcome.CARRIED_OUT:
            return f"The change of {deployment.name} was carried out, as approved by {vote.by}."
        case VoteOutcome.REJECTED if vote.approves:
            return "Nothing was changed: somebody rejected the same proposal at the same time or later."
        case VoteOutcome.REJECTED:
            return f"Nothing was changed. The proposal is not made again before {until}, or before the spec changes."
        case VoteOutcome.STALE:
            look = f"kubectl get {PROPOSAL_PLURAL} -n {deployment.namespace}"
            return (
                f"Nothing was changed: {deployment.name} has no proposal {vote.proposal} any more. "
                f"Look up those that stand ({look}), and decide about one of them."
            )
        case VoteOutcome.EXPIRED:
            return f"Nothing was changed: the proposal expired at {until}. Decide about the next one."
        case _ if not vote.approves:
            return "The rejection counts from the next turn of the live loop."
        case _:
            return (
                f"{deployment.name} is not changed yet: the live loop does not propose this change at the moment, it "
                "has no free place, or others who make room for it may not begin yet. It is carried out when it is "
                f"proposed, and there is room or those may begin, before {until}."
            )


def orphan_sentence(deployment: ObjectKey) -> str:
    """Return the answer to an approval of a deployment that does not exist."""
    return (
        f"Nothing was changed: namespace {deployment.namespace} has no InferenceDeployment {deployment.name}. "
        "Write the name of one that it has into spec.deployment of another PlacementApproval."
    )
