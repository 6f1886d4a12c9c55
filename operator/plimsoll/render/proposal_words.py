"""Proposals in words. The names of deployments are shown in their own namespace only."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from plimsoll.domain.decisions.proposals import Change, Proposal, ProposalReason, Share
from plimsoll.domain.units import counted, format_price
from plimsoll.placement.explain import place_words

MOST_CHANGES = 8
"""The most changes that one sentence names. The rest is only counted."""


def proposal_sentence(proposal: Proposal, namespace: str) -> str:
    """Return what to do, what it brings and what it costs, for a reader in this namespace."""
    figures = dict(proposal.numbers)
    named = [_change(each, namespace) for each in proposal.changes[:MOST_CHANGES]]
    if len(proposal.changes) > MOST_CHANGES:
        named.append(f"{len(proposal.changes) - MOST_CHANGES} more")
    gain = f"makes room for {figures['replicas']} more on {_place(proposal.after[-1])}"
    done = " An approval has the operator do it." if proposal.by_loop else ""
    return f"{'; '.join(named)}: {gain}{_time(figures)}. {_bill(proposal, figures)}{done}"


def _time(figures: Mapping[str, int | str]) -> str:
    """Return how long it takes until the new replica serves, where that is known."""
    return f" in about {figures['seconds']} s" if "seconds" in figures else ""


def _change(change: Change, namespace: str) -> str:
    who = change.owner.name if change.owner.namespace == namespace else "another deployment"
    what = f"{change.leaving.replicas} of {who} on {_place(change.leaving)}"
    if change.to is None:
        return f"end {what} (node {change.node})"
    return f"move {what} from {change.node} to {change.to}"


def _place(share: Share) -> str:
    return place_words(share.target.gpu_type, share.target.split)


def _bill(proposal: Proposal, figures: Mapping[str, int | str]) -> str:
    added = f"The new replicas cost {_dollars(figures['added'])}/h"
    if proposal.reason == ProposalReason.PREEMPT_LOWER_PRIORITY:
        return f"{added}, those that end save {_dollars(figures['saved'])}/h."
    return f"{added}, the moves of {counted(figures['gpus'], 'GPU')} {_dollars(figures['charge'])} once."


def _dollars(amount: int | str) -> str:
    return f"${format_price(Decimal(str(amount)))}"
