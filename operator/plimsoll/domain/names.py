"""Group, version and kind of the API. They are defined only here; code, chart and docs use them."""

from __future__ import annotations

GROUP = "plimsoll.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceDeployment"
PLURAL = "inferencedeployments"
SINGULAR = "inferencedeployment"
SHORT_NAME = "infd"
CATEGORY = "inference"

PROPOSAL_KIND, PROPOSAL_PLURAL, PROPOSAL_SHORT_NAME = "PlacementProposal", "placementproposals", "pprop"
APPROVAL_KIND, APPROVAL_PLURAL, APPROVAL_SHORT_NAME = "PlacementApproval", "placementapprovals", "pappr"
SNAPSHOT_KIND = "PlimsollFleetSnapshot"
"""The kind of the file of ``plimsoll fleet export``. It is no kind of the API."""
