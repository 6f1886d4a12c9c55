"""Operators side by side: each with a service account of its own, so that the audit log tells who wrote what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from testbed.audit import AuditEvent, AuditLog
from testbed.control_plane import ControlPlane
from testbed.fault_proxy import FaultProxy
from testbed.operator_process import NAMESPACE, OperatorProcess
from tests.support.faulty import PATIENT, kubeconfig_of

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/plimsoll"


def share_rights(control_plane: ControlPlane, accounts: tuple[str, ...]) -> None:
    """Service accounts that have every right of the operator's own."""
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE} for name in accounts]
    control_plane.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": n, "namespace": NAMESPACE}}
            for n in accounts
        ]
    )
    for kind, scope in (("clusterrolebindings", ()), ("rolebindings", ("--namespace", NAMESPACE))):
        listed = json.loads(control_plane.kubectl("get", kind, *scope, "-o", "json"))["items"]
        ours = [item for item in listed if item["roleRef"]["name"].startswith("plimsoll")]
        for binding in ours:
            head = {"name": f"{binding['metadata']['name']}-shared", **({"namespace": NAMESPACE} if scope else {})}
            control_plane.apply(
                [
                    {
                        "apiVersion": binding["apiVersion"],
                        "kind": binding["kind"],
                        "metadata": head,
                        "roleRef": binding["roleRef"],
                        "subjects": subjects,
                    }
                ]
            )


def operator_as(
    control_plane: ControlPlane,
    account: str,
    *,
    standby: bool = True,
    proxy: FaultProxy | None = None,
    environment: Mapping[str, str] | None = None,
    module: str = "plimsoll",
) -> OperatorProcess:
    """An operator, not started yet, that writes as this service account and calls itself by its name."""
    server = control_plane.server if proxy is None else proxy.url
    kubeconfig = kubeconfig_of(control_plane, f"as-{account}", server=server, account=account)
    settings = {"PLIMSOLL_IDENTITY": account, **({"PLIMSOLL_STANDBY": "true"} if standby else {})}
    return OperatorProcess(
        control_plane,
        kubeconfig=kubeconfig,
        environment=PATIENT | settings | dict(environment or {}),
        module=module,
        restarts=False,
    )


def writes_of(control_plane: ControlPlane, account: str, since: int = 0) -> list[AuditEvent]:
    """What an operator has written, apart from the lease itself; refusals by the API server included."""
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    events = AuditLog(control_plane.audit_log).events(since, user=user)
    return [event for event in events if event.resource != "leases"]


def lease(control_plane: ControlPlane) -> dict[str, Any]:
    """The spec of the operators' lease; empty where there is none."""
    if not control_plane.client.exists(LEASE):
        return {}
    found: dict[str, Any] = control_plane.client.get(LEASE).get("spec") or {}
    return found


def holder(control_plane: ControlPlane) -> str:
    """Who holds the lease, empty for nobody."""
    return str(lease(control_plane).get("holderIdentity") or "")
