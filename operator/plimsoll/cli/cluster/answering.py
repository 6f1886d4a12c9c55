"""``plimsoll approve`` and ``plimsoll reject``: which proposal is meant, and the object that answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import (
    API_VERSION,
    APPROVAL_KIND,
    APPROVAL_PLURAL,
    GROUP,
    PROPOSAL_PLURAL,
    ObjectKey,
)

Body = Mapping[str, Any]

_STATE = f"{GROUP}/state"
_CONTENT = ("summary", "reason", "bill")


@dataclass(frozen=True, slots=True)
class ProposalAnswer:
    """An answer to a proposal: ``verdict`` is approve or reject. ``proposal`` is an id; None for the only one."""

    verdict: str
    deployment: str
    namespace: str | None = None
    proposal: str | None = None
    reason: str | None = None


def meant(answer: ProposalAnswer, namespace: str, proposals: Sequence[Body]) -> Body:
    """Return the proposal that the answer is about.

    Raises:
        InvalidInput: there is none, or there are several and none is named.
    """
    look = f"kubectl get {PROPOSAL_PLURAL} -n {namespace}"
    if answer.proposal is not None:
        found = next((each for each in proposals if each.get("id") == answer.proposal), None)
        if found is None:
            fix = f"{_those(answer.deployment, proposals)} Name the id of one that stands ({look} -o wide)."
            raise InvalidInput("--proposal", answer.proposal, fix)
        return found
    still_open = [each for each in proposals if (each["metadata"].get("labels") or {}).get(_STATE) != "Rejected"]
    if not still_open:
        fix = f"It has no open proposal in namespace {namespace}. Look for others with {look}, or name another -n."
        raise InvalidInput("NAME", answer.deployment, fix)
    if len(still_open) > 1:
        fix = f"It has several. {_those(answer.deployment, still_open)} Add --proposal with one of these ids."
        raise InvalidInput("NAME", answer.deployment, fix)
    return still_open[0]


def _those(deployment: str, proposals: Sequence[Body]) -> str:
    listed = "; ".join(f"{each.get('id')} ({described(each)})" for each in proposals)
    return f"Proposals of {deployment}: {listed}." if listed else f"{deployment} has no proposal."


def described(proposal: Body) -> str:
    """Return a proposal in a few words: the change, the reason and the bill."""
    summary, reason, bill = (proposal.get(name) or "" for name in _CONTENT)
    costs = bill.get("summary") if isinstance(bill, Mapping) else ""
    return f"{summary}, {reason}, $/h {costs}"


def approval(answer: ProposalAnswer, proposal: Body, namespace: str, by: str) -> dict[str, Any]:
    """Return the PlacementApproval. It ends with its deployment, of which the proposal has the uid."""
    head = proposal["metadata"]
    owners = [
        {name: each[name] for name in ("apiVersion", "kind", "name", "uid")}
        for each in head.get("ownerReferences") or ()
    ]
    spec = {
        "deployment": answer.deployment,
        "proposal": proposal["id"],
        "decision": answer.verdict,
        "by": by,
        **({"reason": answer.reason} if answer.reason else {}),
    }
    return approval_body(spec, namespace, owners)


def approval_body(spec: Body, namespace: str, owners: Sequence[Body]) -> dict[str, Any]:
    """Return a PlacementApproval with this spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": APPROVAL_KIND,
        "metadata": {
            "generateName": f"{spec['deployment']}-",
            "namespace": namespace,
            **({"ownerReferences": list(owners)} if owners else {}),
        },
        "spec": spec,
    }


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer that the cluster has taken: the proposal, the PlacementApproval's key, and who gave it."""

    answer: ProposalAnswer
    proposal: Body
    key: ObjectKey
    by: str

    @property
    def message(self) -> str:
        """The answer that was given."""
        word = "approved" if self.answer.verdict == "approve" else "rejected"
        return (
            f"{self.by} {word} proposal {self.proposal['id']} of {self.answer.deployment} ({described(self.proposal)})."
        )

    def text(self) -> str:
        """Return the answer that was given, and how to follow it."""
        look = f"kubectl get {APPROVAL_PLURAL} {self.key.name} -n {self.key.namespace} -o wide"
        return f"{self.message}\nTo see the outcome: {look}"

    def document(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "namespace": self.key.namespace,
            "deployment": self.answer.deployment,
            "proposal": self.proposal["id"],
            "decision": self.answer.verdict,
            "by": self.by,
            "approval": self.key.name,
            "message": self.message,
        }
