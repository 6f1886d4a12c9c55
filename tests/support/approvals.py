"""People who decide about proposals on a real API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.installed import View
from tests.support.reviewing import run_here


@dataclass(frozen=True, slots=True)
class Person:
    """A service account of a namespace, as somebody who decides."""

    view: View
    name: str

    @property
    def user(self) -> str:
        """The name that the API server knows this person by."""
        return f"system:serviceaccount:{self.view.namespace}:{self.name}"

    def grant(self, *rules: dict[str, Any]) -> None:
        """Create the account with exactly these rights in its namespace."""
        self.view.control_plane.apply(
            [
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "Role",
                    "metadata": self._head,
                    "rules": [{"apiGroups": ["plimsoll.dev"], **rule} for rule in rules],
                }
            ]
        )
        self._bind("Role", self.name)

    def appoint(self, cluster_role: str) -> None:
        """Create the account with a role of the chart, in its namespace."""
        self._bind("ClusterRole", cluster_role)

    @property
    def _head(self) -> dict[str, str]:
        return {"name": self.name, "namespace": self.view.namespace}

    def _bind(self, kind: str, role: str) -> None:
        self.view.control_plane.apply(
            [
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": self._head},
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": self._head,
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                    "subjects": [{"kind": "ServiceAccount", **self._head}],
                },
            ]
        )

    def runs(self, *words: str) -> tuple[int, str]:
        """Run the command line as this person: its exit status, and everything that it prints."""
        config: Path = self.view.control_plane.service_account_kubeconfig(self.view.namespace, self.name)
        ran = run_here(config, *words, "-n", self.view.namespace, "--kubeconfig", str(config))
        return ran.status, ran.text + ran.errors

    def wait_bound(self) -> None:
        """Wait until the policy about approvals is in force, which takes some moments after its creation."""
        asked = {"deployment": "x", "proposal": "0" * 12, "by": "somebody"}
        self.view.wait(
            lambda: (
                "nobody approves in the name of another" in self._kubectl_create("probe", asked, "--dry-run=server")
            ),
            "the policy in force",
        )

    def creates(self, name: str, **spec: Any) -> str:
        """Create an approval with kubectl, and return what it prints."""
        return self._kubectl_create(name, spec)

    def _kubectl_create(self, name: str, spec: Mapping[str, Any], *options: str) -> str:
        body = {
            "apiVersion": "plimsoll.dev/v1alpha1",
            "kind": "PlacementApproval",
            "metadata": {"name": name, "namespace": self.view.namespace},
            "spec": {"decision": "approve", "by": self.user, **spec},
        }
        words = (f"--as={self.user}", "create", "-f", "-", *options)
        return self.view.control_plane.kubectl(*words, stdin=json.dumps(body), check=False)


def proposal_of(view: View, name: str) -> dict[str, Any]:
    """Wait for the only proposal of a deployment."""
    found: list[dict[str, Any]] = view.wait(lambda: view.all("placementproposals", name), f"a proposal for {name}")
    assert len(found) == 1, found
    return found[0]


def outcome_of(view: View, approval: str) -> dict[str, Any]:
    """Wait for the final outcome of an approval."""

    def final() -> dict[str, Any]:
        status = dict(view.read("placementapprovals", approval).get("status") or {})
        return {} if status.get("state") in (None, "Waiting") else status

    answer: dict[str, Any] = view.wait(final, f"an outcome of {approval}")
    return answer
