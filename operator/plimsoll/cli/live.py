"""The command line's requests to a cluster. They need the cluster's client: only ``later`` imports this module."""

from __future__ import annotations

import asyncio
from typing import Any

from plimsoll.adapters.cluster import Cluster
from plimsoll.adapters.kinds import INFERENCE_DEPLOYMENTS, NODES, PODS
from plimsoll.domain.keys import ObjectKey

Body = dict[str, Any]


def nodes_and_pods(kubeconfig: str | None, context: str | None) -> tuple[list[Body], list[Body]]:
    """Every node and every pod."""

    async def ask() -> tuple[list[Body], list[Body]]:
        async with Cluster(kubeconfig, context) as cluster:
            return list((await cluster.list(NODES)).items), list((await cluster.list(PODS)).items)

    return asyncio.run(ask())


def inference_deployment(key: ObjectKey, kubeconfig: str | None, context: str | None) -> Body | None:
    """One InferenceDeployment, or None."""

    async def ask() -> Body | None:
        async with Cluster(kubeconfig, context) as cluster:
            return await cluster.get(INFERENCE_DEPLOYMENTS, key)

    return asyncio.run(ask())
