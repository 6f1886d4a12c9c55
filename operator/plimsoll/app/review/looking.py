"""Reads a cluster once, with the same kinds, selectors and reductions as the operator's store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plimsoll.adapters.cluster import INFERENCE_DEPLOYMENTS, PODS, Cluster, ClusterRefused, Kind
from plimsoll.app.settings import Settings
from plimsoll.app.shell import BOUNDS, PRUNERS, kept
from plimsoll.app.store import Body, Picture, Store, key_of
from plimsoll.domain.keys import ObjectKey

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
        try:
            bodies = await _listed(cluster, kind, selectors.get(kind), settings)
        except ClusterRefused as refusal:
            if kind in _NEEDED or refusal.status not in (_FORBIDDEN, _GONE):
                raise
            notes.append(f"{kind.plural} cannot be read ({refusal.message}): the plan is without them.")
            continue
        store.replace(kind, bodies)
        if kind == INFERENCE_DEPLOYMENTS:
            live = {key_of(body): body for body in bodies}
    return Look(store.picture(), live, tuple(notes))


async def _listed(cluster: Cluster, kind: Kind, selector: str | None, settings: Settings) -> list[Body]:
    everywhere = not kind.namespaced or not settings.watch_namespaces or (kind == PODS and settings.read_all_pods)
    if everywhere:
        return list((await cluster.list(kind, labels=selector)).items)
    pages = [await cluster.list(kind, labels=selector, namespace=each) for each in settings.watch_namespaces]
    return [body for page in pages for body in page.items]


_NEEDED = frozenset(kept(Settings()))
"""Kinds without which nothing is decided. The operator does without the others, too."""
