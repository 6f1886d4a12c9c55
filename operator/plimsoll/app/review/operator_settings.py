"""The settings of the operator that serves a cluster, read from its Deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.adapters.cluster.client import DEPLOYMENTS, Cluster, ClusterRefused
from plimsoll.app.settings import Settings
from plimsoll.domain.errors import InvalidInput

OPERATOR_SELECTOR = "app.kubernetes.io/name=plimsoll"
"""The label that the chart gives to the operator's Deployment."""

_PREFIX = "PLIMSOLL_"
_OF_THE_POD = frozenset({"PLIMSOLL_CACHE_DIR", "PLIMSOLL_FLEET_FILE", "PLIMSOLL_IDENTITY"})
"""Settings about the file system and the name of the operator's pod."""


async def operator_settings(cluster: Cluster, own: Mapping[str, str]) -> tuple[Settings, tuple[str, ...]]:
    """Return the operator's settings and notes about them.

    Args:
        cluster: where the operator runs.
        own: environment variables of this process; a ``PLIMSOLL_`` variable wins over the operator's.

    Raises:
        InvalidInput: a setting cannot be used, or there are several operators.
    """
    given = {name: value for name, value in own.items() if name.startswith(_PREFIX)}
    namespace = given.get("PLIMSOLL_NAMESPACE")
    try:
        found = (await cluster.list(DEPLOYMENTS, labels=OPERATOR_SELECTOR, namespace=namespace)).items
    except ClusterRefused as refusal:
        note = f"The operator's settings cannot be read ({refusal.message}): its defaults are used."
        return Settings.from_environment(given), (note,)
    environments = {body["metadata"]["namespace"]: _environment(body) for body in found}
    if len(environments) > 1:
        names = ", ".join(sorted(environments))
        raise InvalidInput("PLIMSOLL_NAMESPACE", namespace, f"Name the operator's namespace, one of {names}.")
    if not environments:
        note = "No Deployment of the operator was found: the defaults of its settings are used."
        return Settings.from_environment(given), () if given else (note,)
    ((where, environment),) = environments.items()
    notes: tuple[str, ...] = ()
    if environment.get("PLIMSOLL_FLEET_FILE") and not given.get("PLIMSOLL_FLEET_FILE"):
        notes = ("The operator reads its nodes from a file. Here they are read from the cluster.",)
    theirs = {name: value for name, value in environment.items() if name not in _OF_THE_POD}
    return Settings.from_environment({"PLIMSOLL_NAMESPACE": where} | theirs | given), notes


def _environment(body: Mapping[str, Any]) -> dict[str, str]:
    """The plain environment variables of the operator's container."""
    containers = body["spec"]["template"]["spec"].get("containers") or ()
    entries = [entry for container in containers for entry in container.get("env") or ()]
    plain = (entry for entry in entries if entry["name"].startswith(_PREFIX) and isinstance(entry.get("value"), str))
    return {entry["name"]: entry["value"] for entry in plain}
