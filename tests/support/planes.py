"""One control plane for each process of tests: a file borrows it, and gives it back empty.

A control plane takes seconds to start and to learn our kinds. So the next file gets the one that runs already, without
nodes, namespaces, rights and objects of the file before. One that a file leaves broken is ended instead.
"""

from __future__ import annotations

import http.client
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from testbed.api_client import ApiError
from testbed.approvals import KINDS as APPROVAL_KINDS
from testbed.control_plane import ControlPlane
from testbed.waiting import NotInTime
from tests.support.installed import CRD_NAME

OUR_KINDS = (CRD_NAME, *(f"{plural}.plimsoll.dev" for plural in APPROVAL_KINDS))
"""Kinds that stay from file to file: it takes the API server seconds to learn one."""

CLEAR_SECONDS = 120.0
"""Until everything is gone. Some seconds are usual; only a controller that hangs takes so long."""

_SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"

_OF_THE_CLUSTER = (
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/clusterroles",
    f"{_ADMISSION}/validatingadmissionpolicybindings",
    f"{_ADMISSION}/validatingadmissionpolicies",
    f"{_ADMISSION}/validatingwebhookconfigurations",
)
"""Collections without a namespace in which tests make objects."""

_OF_DEFAULT = (
    *("/apis/plimsoll.dev/v1alpha1", "inferencedeployments"),
    *("/apis/apps/v1", "deployments"),
    *("/apis/apps/v1", "replicasets"),
    *("/apis/policy/v1", "poddisruptionbudgets"),
    *("/apis/coordination.k8s.io/v1", "leases"),
    *(_RBAC, "rolebindings"),
    *(_RBAC, "roles"),
    *("/api/v1", "pods"),
    *("/api/v1", "services"),
    *("/api/v1", "configmaps"),
    *("/api/v1", "secrets"),
    *("/api/v1", "serviceaccounts"),
)
"""Group and kind, in turn, of what tests make in the namespace that cannot be deleted."""

_AT_ONCE = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}

_standing: list[ControlPlane] = []
"""The control plane of this process, while it has one."""


@contextmanager
def borrowed_plane(
    nodes: Iterable[Mapping[str, Any]] = (), *, judged: bool = False, knows: Iterable[str] = OUR_KINDS
) -> Iterator[ControlPlane]:
    """This process' control plane, for one file of tests.

    Args:
        nodes: manifests to apply first.
        judged: whether engine pods become ready only with a judge's verdict.
        knows: custom resources that may be there from the file before; all others are gone.
    """
    plane = _running_plane()
    try:
        for name in set(OUR_KINDS) - set(knows):
            _forget(plane, f"{_CRDS}/{name}")
        os.truncate(plane.audit_log, 0)
        plane.set_judged(judged=judged)
        plane.apply(nodes)
        yield plane
    finally:
        _give_back(plane)


def close() -> None:
    """End this process' control plane, if it has one."""
    while _standing:
        _standing.pop().stop()


def _running_plane() -> ControlPlane:
    if not _standing:
        _standing.append(ControlPlane().start())
    return _standing[-1]


def _give_back(plane: ControlPlane) -> None:
    """Clear it. One that cannot be cleared, because a test has hurt it, is ended: the next file gets a new one."""
    try:
        clear(plane)
    except (OSError, ApiError, NotInTime):
        close()


def clear(plane: ControlPlane) -> None:
    """Delete everything that a new control plane does not have, but for the kinds that stay.

    Raises:
        NotInTime: something is still there.
        ApiError, OSError: the API server refuses, or is away.
    """
    own = [name for name in _names(plane, "/api/v1/namespaces") if name not in _SYSTEM_NAMESPACES]
    for name in own:
        plane.client.send("DELETE", f"/api/v1/namespaces/{name}")
    # The namespace controller waits for half of a pod's grace period before it looks again.
    for name in own:
        plane.client.send("DELETE", f"/api/v1/namespaces/{name}/pods", _AT_ONCE)
    for group, plural in zip(_OF_DEFAULT[::2], _OF_DEFAULT[1::2], strict=True):
        _empty(plane, f"{group}/namespaces/default/{plural}", but=_BUILT_IN.get(plural, frozenset()))
    for collection in _OF_THE_CLUSTER:
        _empty(plane, collection)
    for definition in _items(plane, _CRDS):
        meta = definition["metadata"]
        if meta["name"] not in OUR_KINDS or meta["generation"] != 1:
            _forget(plane, f"{_CRDS}/{meta['name']}")
    for name in own:
        gone = partial(_is_gone, plane, f"/api/v1/namespaces/{name}")
        plane.wait_until(gone, CLEAR_SECONDS, f"namespace {name} gone")
    shutil.rmtree(plane.directory / "kubectl-cache", ignore_errors=True)


_BUILT_IN: Mapping[str, frozenset[str]] = {
    "services": frozenset({"kubernetes"}),
    "configmaps": frozenset({"kube-root-ca.crt"}),
    "serviceaccounts": frozenset({"default"}),
}


def _empty(plane: ControlPlane, collection: str, but: frozenset[str] = frozenset()) -> None:
    for item in _items(plane, collection):
        if item["metadata"]["name"] not in but and not _is_built_in(item["metadata"]):
            plane.client.send("DELETE", f"{collection}/{item['metadata']['name']}", _AT_ONCE)


def _is_built_in(meta: Mapping[str, Any]) -> bool:
    """Whether a control plane makes it by itself."""
    is_labelled = "kubernetes.io/bootstrapping" in (meta.get("labels") or {})
    return is_labelled or str(meta["name"]).startswith("system:") or str(meta["name"]).startswith("system-")


def _items(plane: ControlPlane, collection: str) -> list[dict[str, Any]]:
    """What a collection holds; nothing where its kind is unknown."""
    try:
        items: list[dict[str, Any]] = plane.client.get(collection)["items"]
    except ApiError as error:
        if error.status == http.client.NOT_FOUND:
            return []
        raise
    return items


def _names(plane: ControlPlane, collection: str) -> list[str]:
    return [str(item["metadata"]["name"]) for item in _items(plane, collection)]


def _forget(plane: ControlPlane, path: str) -> None:
    if plane.client.exists(path):
        plane.client.send("DELETE", path)
        plane.wait_until(partial(_is_gone, plane, path), CLEAR_SECONDS, f"{path} gone")


def _is_gone(plane: ControlPlane, path: str) -> bool:
    return not plane.client.exists(path)
