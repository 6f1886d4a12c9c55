"""The operator's decision on a snapshot, in the same way as on a cluster: one that answers from the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from plimsoll import __version__
from plimsoll.adapters.cluster.api_errors import FORBIDDEN
from plimsoll.adapters.cluster.client import DEPLOYMENTS, SECRETS, Cluster, ClusterRefused, Listing, ObjectKind
from plimsoll.app.exports.document import SNAPSHOT, Export
from plimsoll.app.exports.specs import without_secrets
from plimsoll.app.review.looking import OPERATOR_SELECTOR
from plimsoll.app.review.measuring import measure
from plimsoll.app.review.reviewing import review
from plimsoll.app.review.values import DeploymentWish, Means, Measured, Review
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest


async def replay(export: Export, wishes: Sequence[DeploymentWish], means: Means) -> Review:
    """Return what the operator would have done at the time of a snapshot after ``kubectl apply`` of all wishes.

    Raises:
        PlimsollError: a part of the snapshot cannot be used.
    """
    cut = [_cut(wish) for wish in wishes]
    found = await review(StoredCluster(export), cut, means, {}, now=export.at)
    notes = (*_notes(export, wishes, cut), *found.notes)
    return replace(found, notes=tuple(dict.fromkeys(notes)))


async def replay_capacity(export: Export, wish: DeploymentWish, means: Means) -> Measured:
    """Return how many more replicas fitted at the time of a snapshot.

    Raises:
        PlimsollError: a part of the snapshot cannot be used, or the deployment or its model cannot.
    """
    cut = _cut(wish)
    found = await measure(StoredCluster(export), cut, means, {}, export.at)
    notes = (*_notes(export, [wish], [cut]), *found.notes)
    return replace(found, notes=tuple(dict.fromkeys(notes)))


def _cut(wish: DeploymentWish) -> DeploymentWish:
    """The wish without the values that a snapshot does not hold: else each of them would look like a change."""
    return replace(wish, body={**wish.body, "spec": without_secrets(wish.body["spec"])})


def _notes(export: Export, wishes: Sequence[DeploymentWish], cut: Sequence[DeploymentWish]) -> tuple[str, ...]:
    notes = list(export.notes)
    if export.release != __version__:
        notes.append(
            f"Release {export.release} of Plimsoll wrote the snapshot, and this is {__version__}: it may decide "
            "differently."
        )
    if export.hashed and any(wish.where != SNAPSHOT for wish in wishes):
        notes.append("The names in the snapshot are digests: the objects of your files count as new ones.")
    changed = [wish.where for wish, other in zip(wishes, cut, strict=True) if wish.body != other.body]
    if changed:
        notes.append(
            "A snapshot holds no pull secrets, and no values of variables, labels and annotations of pods. They are "
            f"left out of {', '.join(changed)}, too: a change of them is not shown."
        )
    return tuple(notes)


class StoredCluster(Cluster):
    """The objects of a snapshot. Its Secrets cannot be read, nothing can be written, and no request is sent.

    Args:
        export: the snapshot.
    """

    def __init__(self, export: Export) -> None:
        super().__init__()
        self._settings = export.settings
        self._bodies: dict[tuple[str, str], list[Manifest]] = {}
        for body in export.bodies:
            self._bodies.setdefault((body["apiVersion"], body["kind"]), []).append(dict(body))

    async def list(
        self,
        kind: ObjectKind,
        *,
        labels: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        metadata_only: bool = False,  # noqa: ARG002 - whole objects are no less
        pages: int | None = None,  # noqa: ARG002 - one page holds all
        keep: Callable[[Manifest], Manifest] = lambda body: body,
    ) -> Listing:
        """Return the objects of a kind. The snapshot holds only those that the operator selects."""
        if kind == DEPLOYMENTS and labels == OPERATOR_SELECTOR:
            return Listing([_operator(self._settings)])
        found = self._bodies.get((kind.api_version, kind.kind), [])
        heads = ((each, each["metadata"]) for each in found)
        return Listing(
            [
                keep(each)
                for each, head in heads
                if namespace in (None, head.get("namespace")) and name in (None, head["name"])
            ]
        )

    async def get(self, kind: ObjectKind, key: ObjectKey) -> Manifest | None:
        """Return one object; None if the snapshot does not hold it."""
        if kind == SECRETS:
            raise ClusterRefused(f"get secrets {key}", FORBIDDEN, "a snapshot holds no Secrets")
        found = (await self.list(kind, namespace=key.namespace)).items
        return next((each for each in found if each["metadata"]["name"] == key.name), None)

    async def checked(self, kind: ObjectKind, body: Manifest) -> Manifest:
        """Refuse as for a user who may not ask: the rules of the CRD are applied without an API server."""
        name = f"{body['metadata'].get('namespace')}/{body['metadata']['name']}"
        raise ClusterRefused(f"check {kind.plural} {name}", FORBIDDEN, "a snapshot cannot check objects")

    async def _call(self, action: str, *_: Any, **__: Any) -> NoReturn:
        raise ClusterRefused(action, FORBIDDEN, "a snapshot cannot be changed")


def _operator(settings: Mapping[str, str]) -> Manifest:
    """The operator's Deployment, as far as its settings are read from it."""
    entries = [{"name": name, "value": value} for name, value in settings.items()]
    pod = {"spec": {"containers": [{"name": "operator", "env": entries}]}}
    head = {"name": "plimsoll", "namespace": settings.get("PLIMSOLL_NAMESPACE", "")}
    return {"metadata": head, "spec": {"template": pod}}
