"""Reads a cluster once: the operator's settings from its Deployment, and objects as the operator's store has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, GONE
from plimsoll.adapters.cluster.client import (
    DEPLOYMENTS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    Cluster,
    ClusterRefused,
    ObjectKind,
)
from plimsoll.adapters.cluster.kinds import JOBS, OF_GATEWAYS, OF_ROUTERS, RESOURCE_CLAIMS, RESOURCE_SLICES
from plimsoll.app.settings import Settings
from plimsoll.app.shell import BOUNDS, KEPT, PRUNERS
from plimsoll.app.watch.fleet_file import nodes_from
from plimsoll.app.watch.pruning import why_reduced
from plimsoll.app.watch.store import Body, Picture, Store, key_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey

OPERATOR_SELECTOR = "app.kubernetes.io/name=plimsoll"
"""The label that the chart gives to the operator's Deployment."""

_PREFIX = "PLIMSOLL_"
_OF_THE_POD = frozenset({"PLIMSOLL_CACHE_DIR", "PLIMSOLL_FLEET_FILE", "PLIMSOLL_IDENTITY"})
"""Settings about the file system and the name of the operator's pod."""


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """A cluster at one moment.

    ``live`` are the InferenceDeployments as the API server has them, with their managed fields. ``notes`` name what
    could not be read.
    """

    picture: Picture
    live: Mapping[ObjectKey, Body]
    notes: tuple[str, ...] = ()


async def look(cluster: Cluster, settings: Settings) -> ClusterLook:
    """List every kind that the operator keeps. With a fleet file nodes come from it, as they come for the operator.

    Raises:
        PlimsollError: a kind that every decision needs cannot be listed.
    """
    store = Store(PRUNERS, lambda: None, bounds=BOUNDS)
    live: dict[ObjectKey, Body] = {}
    notes: list[str] = []
    for kind in PRUNERS:
        if kind in (*OF_ROUTERS, *OF_GATEWAYS) or (kind == RESOURCE_SLICES and settings.fleet_file is not None):
            continue  # a router takes no GPU, and needs none of the rights of whoever asks
        keep = partial(store.take, kind) if kind != INFERENCE_DEPLOYMENTS else partial(_take, store, live)
        try:
            heads = await _listed(cluster, kind, KEPT.get(kind), settings, keep)
        except ClusterRefused as refusal:
            if (kind in KEPT and kind != JOBS) or refusal.status not in (FORBIDDEN, GONE):
                raise
            if kind not in _NEWER or refusal.status != GONE:
                notes.append(f"{kind.plural} cannot be read ({refusal.message}): the plan is without them.")
            continue
        store.replace(kind, heads)
    return ClusterLook(store.picture(), live, tuple(notes))


def _take(store: Store, live: dict[ObjectKey, Body], body: dict[str, Any]) -> dict[str, Any]:
    """Store an InferenceDeployment, and keep it as it was read, too, unless it is too large."""
    head, key = store.take(INFERENCE_DEPLOYMENTS, body), key_of(body)
    kept = store.get(INFERENCE_DEPLOYMENTS, key)
    live[key] = body if kept is None or why_reduced(kept) is None else kept
    return head


async def _listed(
    cluster: Cluster,
    kind: ObjectKind,
    selector: str | None,
    settings: Settings,
    keep: Callable[[dict[str, Any]], dict[str, Any]],
) -> list[Body]:
    """List a kind, one page after the other into the store; returns the identities."""
    if kind == NODES and settings.fleet_file is not None:
        return [keep(body) for body in (await nodes_from(settings.fleet_file)).items]
    holds_gpus = kind in (PODS, RESOURCE_CLAIMS)
    everywhere = not kind.namespaced or not settings.watch_namespaces or (holds_gpus and settings.read_all_pods)
    if everywhere:
        return list((await cluster.list(kind, labels=selector, keep=keep)).items)
    names = settings.watch_namespaces
    pages = [await cluster.list(kind, labels=selector, namespace=each, keep=keep) for each in names]
    return [body for page in pages for body in page.items]


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


_NEWER = frozenset({RESOURCE_SLICES, RESOURCE_CLAIMS})
"""Kinds that older releases of Kubernetes do not have, so that nothing is missing there."""
