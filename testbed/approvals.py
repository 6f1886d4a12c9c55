"""The kinds of proposals and approvals on a control plane, and the policy without which nobody may approve anything."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import yaml

from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established
from testbed.operator_process import NAMESPACE
from testbed.versions import KUBERNETES

KINDS = ("placementproposals", "placementapprovals")
APPROVER = "plimsoll-approver"
"""The chart's ClusterRole of those who may approve."""

_ROOT = Path(__file__).resolve().parent.parent
_GROUP = "/apis/plimsoll.dev/v1alpha1"
_POLICIES = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
_SERVED_SECONDS = 120.0


def install_kinds(control_plane: ControlPlane) -> None:
    """Bring both kinds onto a control plane, and the chart's policy about approvals.

    Raises:
        CommandFailed: Helm cannot render the chart.
        ApiError: the API server refuses the result.
        NotInTime: the API server does not serve the kinds.
    """
    for plural in KINDS:
        control_plane.apply(
            [yaml.load((_ROOT / "crds" / f"plimsoll.dev_{plural}.yaml").read_text(), Loader=yaml.CSafeLoader)]
        )
        wait_until_established(control_plane.kubectl, f"{plural}.plimsoll.dev")
        control_plane.wait_until(
            partial(_is_served, control_plane, f"{_GROUP}/{plural}"), _SERVED_SECONDS, f"{plural} served"
        )
    control_plane.apply(_policies(control_plane))


def _is_served(control_plane: ControlPlane, path: str) -> bool:
    """Whether the API server lists a new kind. Its storage takes a moment, with 429 until then."""
    try:
        control_plane.client.get(path)
    except ApiError:
        return False
    return True


def _policies(control_plane: ControlPlane) -> list[dict[str, Any]]:
    chart = str(_ROOT / "charts" / "plimsoll")
    words = ("--namespace", NAMESPACE, "--set", "image.registry=registry.example", "--kube-version", f"v{KUBERNETES}")
    rendered = yaml.load_all(control_plane.helm("template", "plimsoll", chart, *words), Loader=yaml.CSafeLoader)
    policies = [each for each in rendered if each and each["kind"] in _POLICIES]
    return [each for each in policies if each["metadata"]["name"].endswith("-approvals")]
