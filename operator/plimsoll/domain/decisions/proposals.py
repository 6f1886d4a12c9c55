"""A change of one deployment that is proposed and not made yet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.decisions.outcomes import Target
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Numbers


@dataclass(frozen=True, slots=True)
class Share:
    """Replicas of one deployment on one target."""

    target: Target
    replicas: int


class ProposalReason(StrEnum):
    """Why a change of other deployments is proposed."""

    PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
    DEFRAGMENT_NODE = "DefragmentNode"


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a proposal asks of a deployment: ``leaving`` goes from a node, to the node ``to`` or for good.

    ``pods`` are the uids of these replicas' pods, if they are known.
    """

    owner: ObjectKey
    leaving: Share
    node: str
    to: str | None = None
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change with a destination: what runs ``before`` and ``after`` it, and why. ``reason`` is a public code.

    ``changes`` is what it asks of other deployments. ``by_loop`` means that an approval has the operator carry it out.
    """

    before: tuple[Share, ...]
    after: tuple[Share, ...]
    reason: str
    numbers: Numbers = ()
    changes: tuple[Change, ...] = ()
    by_loop: bool = False
