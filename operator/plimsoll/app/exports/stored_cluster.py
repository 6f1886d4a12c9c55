"""A cluster that answers from a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from plimsoll.adapters.cluster.api_errors import FORBIDDEN
from plimsoll.adapters.cluster.client import DEPLOYMENTS, SECRETS, Cluster, ClusterRefused, Kind, Listing
from plimsoll.app.exports.values import Export
from plimsoll.app.review.operator_settings import OPERATOR_SELECTOR
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest


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
        kind: Kind,
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

    async def get(self, kind: Kind, key: ObjectKey) -> Manifest | None:
        """Return one object; None if the snapshot does not hold it."""
        if kind == SECRETS:
            raise ClusterRefused(f"get secrets {key}", FORBIDDEN, "a snapshot holds no Secrets")
        found = (await self.list(kind, namespace=key.namespace)).items
        return next((each for each in found if each["metadata"]["name"] == key.name), None)

    async def checked(self, kind: Kind, body: Manifest) -> Manifest:
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
