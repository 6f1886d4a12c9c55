"""InferenceDeployments of a cluster, as far as the user may read them. Only ``later`` imports this module."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from plimsoll.adapters.api_errors import FORBIDDEN, GONE, ClusterRefused
from plimsoll.adapters.cluster import Cluster
from plimsoll.adapters.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.cli.cluster.cluster_access import ClusterAccess
from plimsoll.cli.cluster.live import default_namespace
from plimsoll.domain.errors import SourceUnavailable

Body = dict[str, Any]
Found = tuple[Sequence[Body], tuple[str, ...]]

_NOT_INSTALLED = "The cluster has no InferenceDeployments: Plimsoll's CRDs are not installed there."


def inference_deployments(namespace: str | None, access: ClusterAccess) -> Found:
    """Return the objects of one namespace, or of all, and notes on what may not be read.

    Where the user may not read all namespaces, the objects of the namespace of the context are returned.

    Raises:
        SourceUnavailable: the cluster cannot be reached.
    """
    home = default_namespace(access.file, access.context)

    async def ask() -> Found:
        async with Cluster(access.file, access.context) as cluster:
            return await _readable(cluster, namespace, home)

    try:
        return asyncio.run(ask())
    except (SourceUnavailable, ClusterRefused) as error:
        raise SourceUnavailable(f"{error}. {_which(access)}") from error


async def _readable(cluster: Cluster, namespace: str | None, home: str) -> Found:
    try:
        return await _listed(cluster, namespace), ()
    except ClusterRefused as refusal:
        if refusal.status == GONE:
            return (), (_NOT_INSTALLED,)
        if refusal.status != FORBIDDEN:
            raise
        if namespace is not None:
            return (), (_refused(namespace, refusal),)
        note = (
            f"InferenceDeployments of all namespaces may not be read ({refusal.message}): only those of {home} count."
        )
    try:
        return await _listed(cluster, home), (note,)
    except ClusterRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return (), (_refused(home, refusal),)


async def _listed(cluster: Cluster, namespace: str | None) -> Sequence[Body]:
    if namespace is None:
        return (await cluster.list(INFERENCE_DEPLOYMENTS)).items
    return (await cluster.list(INFERENCE_DEPLOYMENTS, namespace=namespace)).items


def _refused(namespace: str, refusal: ClusterRefused) -> str:
    why = refusal.message
    return f"InferenceDeployments of namespace {namespace} may not be read ({why}): the memory law alone counts."


def _which(access: ClusterAccess) -> str:
    """Say which cluster was asked."""
    file = "kubectl's default kubeconfig" if access.file is None else f"kubeconfig {access.file}"
    context = "its current context" if access.context is None else f"context {access.context}"
    return f"It was asked with {file} and {context}: name another one with --kubeconfig or --kube-context"
