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

from testbed.api_client import AT_ONCE, ApiError, absence_is_fine
from testbed.approvals import KINDS as APPROVAL_KINDS
from testbed.control_plane import ControlPlane
from testbed.operator_process import NAMESPACE
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
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    f"{_RBAC}/clusterrolebindings",
    f"{_RBAC}/clusterroles",
    f"{_ADMISSION}/validatingadmissionpolicybindings",
    f"{_ADMISSION}/validatingadmissionpolicies",
    f"{_ADMISSION}/validatingwebhookconfigurations",
)
"""Collections without a namespace in which tests make objects."""

_EVERYWHERE = (
    ("/apis/plimsoll.dev/v1alpha1", "inferencedeployments"),
    ("/apis/plimsoll.dev/v1alpha1", "placementproposals"),
    ("/apis/plimsoll.dev/v1alpha1", "placementapprovals"),
    ("/apis/apps/v1", "deployments"),
    ("/apis/apps/v1", "replicasets"),
    ("/apis/batch/v1", "jobs"),
    ("/apis/policy/v1", "poddisruptionbudgets"),
    ("/api/v1", "services"),
    ("/api/v1", "pods"),
)
"""What an operator of the next file would see, or what holds a GPU. Owners come before what they would make again."""

_IN_WHAT_STAYS = (
    ("/apis/coordination.k8s.io/v1", "leases"),
    ("/apis/networking.k8s.io/v1", "networkpolicies"),
    (_RBAC, "rolebindings"),
    (_RBAC, "roles"),
    ("/api/v1", "configmaps"),
    ("/api/v1", "secrets"),
    ("/api/v1", "serviceaccounts"),
    ("/api/v1", "resourcequotas"),
    ("/api/v1", "limitranges"),
)
"""What else tests make in the namespaces that stay."""

_STAYING = ("default", NAMESPACE)
"""The one cannot be deleted. The other one is the operator's: a deleted one would be in the way for some seconds."""

_standing: list[ControlPlane] = []
"""The control plane of this process, while it has one."""


@contextmanager
def borrowed_plane(
    manifests: Iterable[Mapping[str, Any]] = (), *, judged: bool = False, knows: Iterable[str] = OUR_KINDS
) -> Iterator[ControlPlane]:
    """This process' control plane, for one file of tests.

    Args:
        manifests: what to apply first. Its nodes are ready then.
        judged: whether engine pods become ready only with a judge's verdict.
        knows: custom resources that may be there from the file before; all others are gone.
    """
    plane = _running_plane()
    try:
        for name in set(OUR_KINDS) - set(knows):
            _forget(plane, f"{_CRDS}/{name}")
        os.truncate(plane.audit_log, 0)
        plane.set_judged(judged=judged)
        first = list(manifests)
        plane.apply(each for each in first if each["kind"] != "Node")
        plane.add_nodes(each for each in first if each["kind"] == "Node")
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
    """Delete everything that a new control plane does not have, but for the kinds and the namespace that stay.

    The namespaces of tests are empty then, and go some seconds later: their controller pauses for five before it looks.

    Raises:
        NotInTime: something is still there.
        ApiError, OSError: the API server refuses, or is away.
    """
    for namespace in _items(plane, "/api/v1/namespaces"):
        _let_go(plane, namespace["metadata"])
    for collection in _OF_THE_CLUSTER:
        _empty(plane, collection)
    for definition in _items(plane, _CRDS):
        meta = definition["metadata"]
        if meta["name"] not in OUR_KINDS or meta["generation"] != 1:
            _forget(plane, f"{_CRDS}/{meta['name']}")
    plane.wait_until(partial(_is_swept, plane), CLEAR_SECONDS, "every object of the file gone")


def _let_go(plane: ControlPlane, namespace: Mapping[str, Any]) -> None:
    """Delete a namespace, or take away what a file has written on one that stays."""
    path = f"/api/v1/namespaces/{namespace['name']}"
    if namespace["name"] == NAMESPACE:
        labels = {name: None for name in namespace["labels"] if name != "kubernetes.io/metadata.name"}
        plane.client.merge_patch(path, {"metadata": {"labels": labels, "annotations": None}})
    elif namespace["name"] not in _SYSTEM_NAMESPACES and "deletionTimestamp" not in namespace:
        plane.client.send("DELETE", path)


def _is_swept(plane: ControlPlane) -> bool:
    """Delete what is there. Whether nothing was: controllers may make some things again while they learn."""
    collections = [
        *((f"{group}/{plural}", plural) for group, plural in _EVERYWHERE),
        *((f"{group}/namespaces/{name}/{plural}", plural) for name in _STAYING for group, plural in _IN_WHAT_STAYS),
    ]
    left = [_empty(plane, collection, _BUILT_IN.get(plural, frozenset())) for collection, plural in collections]
    return not any(left)


_BUILT_IN: Mapping[str, frozenset[str]] = {
    "services": frozenset({"kubernetes"}),
    "configmaps": frozenset({"kube-root-ca.crt"}),
    "serviceaccounts": frozenset({"default"}),
}


def _empty(plane: ControlPlane, collection: str, but: frozenset[str] = frozenset()) -> int:
    """Delete what a collection holds, in all namespaces of tests; returns how much that is."""
    group, _, plural = collection.rpartition("/")
    found = [item["metadata"] for item in _items(plane, collection)]
    found = [meta for meta in found if meta["name"] not in but and not _is_built_in(meta)]
    for meta in found:
        where = (
            group if "/namespaces/" in group or "namespace" not in meta else f"{group}/namespaces/{meta['namespace']}"
        )
        with absence_is_fine():
            plane.client.send("DELETE", f"{where}/{plural}/{meta['name']}", AT_ONCE)
    return len(found)


def _is_built_in(meta: Mapping[str, Any]) -> bool:
    """Whether a control plane makes it by itself."""
    is_of_the_system = meta.get("namespace") in _SYSTEM_NAMESPACES - {"default"}
    is_labelled = is_of_the_system or "kubernetes.io/bootstrapping" in (meta.get("labels") or {})
    return is_labelled or str(meta["name"]).startswith("system:") or str(meta["name"]).startswith("system-")


def _items(plane: ControlPlane, collection: str) -> list[dict[str, Any]]:
    """What a collection holds; nothing where its kind is unknown. One whose definition is new is waited for."""
    found: list[dict[str, Any]] = []

    def is_listed() -> bool:
        try:
            found[:] = plane.client.get(collection)["items"]
        except ApiError as error:
            if error.status not in (http.client.NOT_FOUND, http.client.TOO_MANY_REQUESTS):
                raise
            return error.status == http.client.NOT_FOUND
        return True

    plane.wait_until(is_listed, CLEAR_SECONDS, f"a list of {collection}")
    return found


def _forget(plane: ControlPlane, path: str) -> None:
    if plane.client.exists(path):
        plane.client.send("DELETE", path)
        plane.wait_until(partial(_is_gone, plane, path), CLEAR_SECONDS, f"{path} gone")
        # kubectl keeps a list of kinds.
        shutil.rmtree(plane.directory / "kubectl-cache", ignore_errors=True)


def _is_gone(plane: ControlPlane, path: str) -> bool:
    return not plane.client.exists(path)
