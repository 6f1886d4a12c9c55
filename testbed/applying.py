"""Server-side apply over HTTP. ``kubectl apply`` does the same, and reads the schemas of all kinds before each call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from testbed.api_client import ApiClient, ApiError
from testbed.waiting import wait_until

_OPTIONS = urlencode({"fieldManager": "kubectl", "fieldValidation": "Strict", "force": "true"})
_CONTENT_TYPE = "application/apply-patch+yaml"
"""Its body may be JSON, which is YAML."""

_SECONDS = 120.0
"""For a kind that was defined a moment ago, until the API server lists it and takes its objects."""

_NOT_YET = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS})
"""The answers of the API server where the definition of a kind is newer than what serves it."""


@dataclass(frozen=True, slots=True)
class _Resource:
    """How the objects of a kind are addressed."""

    plural: str
    is_namespaced: bool


class Applier:
    """Applies manifests as ``kubectl apply --server-side --force-conflicts`` does, under the same name.

    Args:
        client: may read the lists of kinds, and write what is applied.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._known: dict[tuple[str, str], _Resource] = {}

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """Apply one manifest; an object without a namespace goes to ``default``, where its kind has namespaces.

        Raises:
            ApiError: the API server turns it down.
            OSError: nobody answers.
            NotInTime: there is no such kind or no such namespace.
        """
        path = f"{self._path(manifest)}?{_OPTIONS}"
        wait_until(lambda: self._is_applied(path, manifest), _SECONDS, f"{path} found")

    def _is_applied(self, path: str, manifest: Mapping[str, Any]) -> bool:
        try:
            self._client.send("PATCH", path, dict(manifest), content_type=_CONTENT_TYPE)
        except ApiError as error:
            if error.status in _NOT_YET:
                return False
            raise
        return True

    def _path(self, manifest: Mapping[str, Any]) -> str:
        version, kind, head = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        wait_until(lambda: self._is_known(version, kind), _SECONDS, f"{kind} of {version} in its list")
        resource = self._known[version, kind]
        namespace = f"/namespaces/{quote(head.get('namespace') or 'default')}" if resource.is_namespaced else ""
        return f"{_base(version)}{namespace}/{resource.plural}/{quote(head['name'])}"

    def _is_known(self, version: str, kind: str) -> bool:
        if (version, kind) not in self._known:
            self._known |= {(version, name): resource for name, resource in self._listed(version).items()}
        return (version, kind) in self._known

    def _listed(self, version: str) -> dict[str, _Resource]:
        """The kinds of an API version; none where the API server does not have the version yet."""
        try:
            listed = self._client.get(_base(version))["resources"]
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return {}
            raise
        return {each["kind"]: _Resource(each["name"], each["namespaced"]) for each in listed if "/" not in each["name"]}


def _base(version: str) -> str:
    """Where an API version is served: the core has a root of its own."""
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
