"""Reads a cluster once, with the same kinds, selectors and reductions as the operator's store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, PODS, Cluster, ClusterRefused, Kind
from plimsoll.adapters.cluster.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from plimsoll.app.settings import Settings
from plimsoll.app.shell import BOUNDS, PRUNERS, kept
from plimsoll.app.watch.pruning import why_reduced
from plimsoll.app.watch.store import Body, Picture, Store, key_of
from plimsoll.domain.kubernetes_names import ObjectKey

_GONE = 404
_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class Look:
    """A cluster at one moment.

    ``live`` are the InferenceDeployments as the API server has them, with their managed fields. ``notes`` name what
    could not be read.
    """

    picture: Picture
    live: Mapping[ObjectKey, Body]
    notes: tuple[str, ...] = ()


async def look(cluster: Cluster, settings: Settings) -> Look:
    """List every kind that the operator keeps.

    Raises:
        PlimsollError: a kind that every decision needs cannot be listed.
    """
    store = Store(PRUNERS, lambda: None, bounds=BOUNDS)
    selectors = kept(settings)
    live: dict[ObjectKey, Body] = {}
    notes: list[str] = []
    for kind in PRUNERS:
        keep = partial(store.take, kind) if kind != INFERENCE_DEPLOYMENTS else partial(_take, store, live)
        try:
            heads = await _listed(cluster, kind, selectors.get(kind), settings, keep)
        except ClusterRefused as refusal:
            if kind in _NEEDED or refusal.status not in (_FORBIDDEN, _GONE):
                raise
            if kind not in _NEWER or refusal.status != _GONE:
                notes.append(f"{kind.plural} cannot be read ({refusal.message}): the plan is without them.")
            continue
        store.replace(kind, heads)
    return Look(store.picture(), live, tuple(notes))


def _take(store: Store, live: dict[ObjectKey, Body], body: dict[str, Any]) -> dict[str, Any]:
    """Store an InferenceDeployment, and keep it as it was read, too, unless it is too large."""
    head, key = store.take(INFERENCE_DEPLOYMENTS, body), key_of(body)
    kept = store.get(INFERENCE_DEPLOYMENTS, key)
    live[key] = body if kept is None or why_reduced(kept) is None else kept
    return head


async def _listed(
    cluster: Cluster,
    kind: Kind,
    selector: str | None,
    settings: Settings,
    keep: Callable[[dict[str, Any]], dict[str, Any]],
) -> list[Body]:
    """List a kind, one page after the other into the store; returns the identities."""
    holds_gpus = kind in (PODS, RESOURCE_CLAIMS)
    everywhere = not kind.namespaced or not settings.watch_namespaces or (holds_gpus and settings.read_all_pods)
    if everywhere:
        return list((await cluster.list(kind, labels=selector, keep=keep)).items)
    names = settings.watch_namespaces
    pages = [await cluster.list(kind, labels=selector, namespace=each, keep=keep) for each in names]
    return [body for page in pages for body in page.items]


_NEWER = frozenset({RESOURCE_SLICES, RESOURCE_CLAIMS})
"""Kinds that older releases of Kubernetes do not have, so that nothing is missing there."""

_NEEDED = frozenset(kept(Settings()))
"""Kinds without which nothing is decided. The operator does without the others, too."""
