"""Make the CustomResourceDefinitions of PlacementProposal and PlacementApproval from the pydantic models."""

from __future__ import annotations

from plimsoll.api.crd.schema import OF_ONE_MANAGER, Schema, column, definition, head, of_model
from plimsoll.api.v1alpha1.base import rule
from plimsoll.api.v1alpha1.inbox import PlacementApprovalSpec, PlacementApprovalStatus, ProposalContent
from plimsoll.domain import kubernetes_names

STATE_LABEL = f"{kubernetes_names.GROUP}/state"
"""The state of a proposal is a label: the content never changes, and kubectl can select by it."""


def proposal_crd() -> Schema:
    """Make the CustomResourceDefinition of PlacementProposal, as a plain mapping."""
    kind = (kubernetes_names.PROPOSAL_KIND, kubernetes_names.PROPOSAL_PLURAL, kubernetes_names.PROPOSAL_SHORT_NAME)
    return definition(
        kind, {"additionalPrinterColumns": _proposal_columns(), "schema": {"openAPIV3Schema": _proposal()}}
    )


def approval_crd() -> Schema:
    """Make the CustomResourceDefinition of PlacementApproval, as a plain mapping."""
    kind = (kubernetes_names.APPROVAL_KIND, kubernetes_names.APPROVAL_PLURAL, kubernetes_names.APPROVAL_SHORT_NAME)
    version = {
        "additionalPrinterColumns": _approval_columns(),
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _approval()},
    }
    return definition(kind, version)


def _proposal() -> Schema:
    """Return the schema of a proposal. Its content has no ``spec``: nobody asks for anything with it."""
    content = of_model(ProposalContent, kubernetes_names.PROPOSAL_KIND)
    return {
        "type": "object",
        "description": "A change that the operator proposes for one InferenceDeployment. The operator alone writes it.",
        "required": content["required"],
        "x-kubernetes-validations": [
            rule(_unchanged(name), f"{name} of a PlacementProposal cannot be changed: only the operator writes it")
            for name in content["properties"]
        ],
        "properties": head(kubernetes_names.PROPOSAL_KIND) | content["properties"],
    }


def _unchanged(field: str) -> str:
    return f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"


def _approval() -> Schema:
    return {
        "type": "object",
        "description": "A person's answer to a PlacementProposal or a finding. It is created and never changed.",
        "required": ["spec"],
        "properties": head(kubernetes_names.APPROVAL_KIND)
        | {
            "spec": of_model(PlacementApprovalSpec, "spec"),
            "status": of_model(PlacementApprovalStatus, "status") | OF_ONE_MANAGER,
        },
    }


def _proposal_columns() -> list[Schema]:
    """Return the columns of ``kubectl get placementproposals``: an admin's inbox."""
    state = STATE_LABEL.replace(".", "\\.")
    return [
        column("Deployment", "string", ".deployment", "The deployment."),
        column("Change", "string", ".summary", "What changes, and its price."),
        column("Reason", "string", ".reason", "The reason."),
        column("$/h", "string", ".bill.summary", "US dollars per hour, before and after."),
        column("State", "string", f".metadata.labels.{state}", "Open, Approved or Rejected."),
        column("Age", "date", ".metadata.creationTimestamp", "Time since the proposal was made."),
        column("Id", "string", ".id", "The id that an approval names.", wide=True),
        column("Expires", "string", ".expiresAt", "The time until which it can be decided.", wide=True),
        column("Message", "string", ".message", "The reason with its figures.", wide=True),
    ]


def _approval_columns() -> list[Schema]:
    return [
        column("Deployment", "string", ".spec.deployment", "The deployment."),
        column("Proposal", "string", ".spec.proposal", "The id of the proposal."),
        column("Finding", "string", ".spec.finding", "What is acknowledged."),
        column("Decision", "string", ".spec.decision", "approve, reject or acknowledge."),
        column("By", "string", ".spec.by", "Who decided."),
        column("State", "string", ".status.state", "The outcome."),
        column("Age", "date", ".metadata.creationTimestamp", "Time since the answer."),
        column("Until", "string", ".spec.until", "The time from which a finding counts again.", wide=True),
        column("Message", "string", ".status.message", "The state in words.", wide=True),
    ]
