"""People with different rights on a control plane of our own, each with a kubeconfig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed.control_plane import ControlPlane
from testbed.rights import may

_SECONDS = 120.0
_GROUP = "rbac.authorization.k8s.io"
_API = f"{_GROUP}/v1"
_NODE_READER = "testbed-node-reader"


def admin(control_plane: ControlPlane, user: str) -> Path:
    """A kubeconfig of somebody who may read everything that the console shows: the role ``view``, and nodes."""
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    control_plane.apply(
        [
            {"apiVersion": _API, "kind": "ClusterRole", "metadata": {"name": _NODE_READER}, "rules": [rule]},
            _bound("ClusterRoleBinding", f"{user}-nodes", _NODE_READER, user),
            _bound("ClusterRoleBinding", f"{user}-view", "view", user),
        ]
    )
    _wait_allowed(control_plane, user)
    return control_plane.user_kubeconfig(user)


def tenant(control_plane: ControlPlane, user: str, namespace: str) -> Path:
    """A kubeconfig of somebody who may read one namespace: the role ``view`` there, and nothing elsewhere."""
    control_plane.apply([_bound("RoleBinding", f"{user}-view", "view", user, namespace)])
    _wait_allowed(control_plane, user, namespace)
    return control_plane.user_kubeconfig(user)


def stranger(control_plane: ControlPlane, user: str) -> Path:
    """A kubeconfig of somebody whom the API server knows by name, and who may read nothing."""
    return control_plane.user_kubeconfig(user)


def _bound(kind: str, name: str, role: str, user: str, namespace: str = "") -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": user}],
    }


def _wait_allowed(control_plane: ControlPlane, user: str, namespace: str = "") -> None:
    """The chart's role is part of ``view`` only a moment after it was created."""
    row = ("list", "inferencedeployments.plimsoll.dev", namespace)
    control_plane.wait_until(lambda: may(control_plane.client, user, *row), _SECONDS, f"{user} may list deployments")
