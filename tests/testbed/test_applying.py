"""How manifests become requests, with a stand-in for the API server; a real one takes them in all cluster tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from testbed.api_client import ApiClient, ApiError
from testbed.applying import Applier

KINDS: dict[str, list[dict[str, Any]]] = {
    "/api/v1": [
        {"name": "nodes", "kind": "Node", "namespaced": False},
        {"name": "nodes/status", "kind": "Node", "namespaced": False},
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
    ],
    "/apis/acme.example/v1": [{"name": "anvils", "kind": "Anvil", "namespaced": True}],
}


@dataclass(slots=True)
class FakeServer:
    """Lists its kinds, and takes what is sent after it has answered with each of ``refusals``."""

    refusals: list[int] = field(default_factory=list)
    unlisted: int = 0
    """How often it does not know an API version yet."""
    listed: list[str] = field(default_factory=list)
    taken: list[tuple[str, Any, str]] = field(default_factory=list)

    def get(self, path: str) -> dict[str, Any]:
        self.listed.append(path)
        if len(self.listed) <= self.unlisted:
            raise ApiError(404, "no such version")
        return {"resources": KINDS[path]}

    def send(self, method: str, path: str, body: Any, *, content_type: str) -> None:
        assert method == "PATCH"
        if self.refusals:
            raise ApiError(self.refusals.pop(0), "no")
        self.taken.append((path, body, content_type))

    def applies(self, *manifests: Mapping[str, Any]) -> list[str]:
        """Apply manifests; returns the paths of what was taken."""
        applier = Applier(cast("ApiClient", self))
        for manifest in manifests:
            applier.apply(manifest)
        return [urlsplit(path).path for path, _, _ in self.taken]


def manifest(version: str, kind: str, name: str, **head: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **head}}


def test_objects_are_addressed_by_group_namespace_and_plural() -> None:
    paths = FakeServer().applies(
        manifest("v1", "Node", "l4-0"),
        manifest("v1", "ConfigMap", "prices", namespace="shop"),
        manifest("v1", "ConfigMap", "prices"),
        manifest("acme.example/v1", "Anvil", "heavy", namespace="shop"),
    )
    assert paths == [
        "/api/v1/nodes/l4-0",
        "/api/v1/namespaces/shop/configmaps/prices",
        "/api/v1/namespaces/default/configmaps/prices",
        "/apis/acme.example/v1/namespaces/shop/anvils/heavy",
    ]


def test_a_manifest_is_sent_as_it_is_checked_strictly_and_wins_conflicts() -> None:
    server, node = FakeServer(), manifest("v1", "Node", "l4-0")
    server.applies(node)
    [(path, body, content_type)] = server.taken
    assert (body, content_type) == (node, "application/apply-patch+yaml")
    assert parse_qs(urlsplit(path).query) == {
        "fieldManager": ["kubectl"],
        "fieldValidation": ["Strict"],
        "force": ["true"],
    }


def test_the_kinds_of_a_version_are_listed_once() -> None:
    server = FakeServer()
    server.applies(*(manifest("v1", kind, "a") for kind in ("Node", "ConfigMap", "Node")))
    assert server.listed == ["/api/v1"]


@pytest.mark.parametrize("status", [404, 429])
def test_a_kind_that_is_not_served_yet_is_waited_for(status: int) -> None:
    server = FakeServer(refusals=[status], unlisted=1)
    assert len(server.applies(manifest("acme.example/v1", "Anvil", "heavy"))) == 1
    assert (len(server.listed), server.refusals) == (2, [])


@pytest.mark.parametrize("status", [400, 403, 409, 422, 500])
def test_any_other_refusal_is_the_callers(status: int) -> None:
    with pytest.raises(ApiError, match=str(status)):
        FakeServer(refusals=[status]).applies(manifest("v1", "Node", "l4-0"))
    with pytest.raises(ApiError, match=str(status)):
        Applier(cast("ApiClient", RefusesLists(status))).apply(manifest("v1", "Node", "l4-0"))


@dataclass(frozen=True, slots=True)
class RefusesLists:
    """Does not show its kinds."""

    status: int

    def get(self, path: str) -> dict[str, Any]:
        raise ApiError(self.status, path)
