"""A cluster that is opened with a person's token sends that token, and never another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.config import incluster_config

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.bearer_access import BearerAccess, server_of_pod
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.domain.errors import SourceUnavailable

NAMES = {"Bearer of-a": "a", "Bearer of-b": "b", "bearer of-the-console": "the console itself"}


@asynccontextmanager
async def api_server(heard: list[str]) -> AsyncIterator[str]:
    """An API server that knows some tokens and remembers what it was sent."""

    async def review(request: web.Request) -> web.Response:
        sent = request.headers.get("Authorization", "nothing")
        heard.append(sent)
        if sent not in NAMES:
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        return web.json_response({"kind": "SelfSubjectReview", "status": {"userInfo": {"username": NAMES[sent]}}})

    app = web.Application()
    app.router.add_post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


@pytest.fixture
def in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A service account is mounted, and there is a kubeconfig as well."""
    (tmp_path / "token").write_text("of-the-console")
    (tmp_path / "ca.crt").write_text("a certificate")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


@pytest.mark.usefixtures("in_a_pod")
async def test_each_person_is_known_by_their_own_token_even_in_a_pod_with_an_account() -> None:
    heard: list[str] = []
    async with (
        api_server(heard) as server,
        Cluster(bearer=BearerAccess(server, "of-a")) as of_a,
        Cluster(bearer=BearerAccess(server, "of-b")) as of_b,
    ):
        assert [await of_a.user_name(), await of_b.user_name(), await of_a.user_name()] == ["a", "b", "a"]
    assert heard == ["Bearer of-a", "Bearer of-b", "Bearer of-a"]


@pytest.mark.usefixtures("in_a_pod")
async def test_a_token_that_is_not_accepted_is_a_refusal_and_no_other_one_is_tried() -> None:
    heard: list[str] = []
    async with api_server(heard) as server, Cluster(bearer=BearerAccess(server, "expired")) as nobody:
        with pytest.raises(ClusterRefused) as refused:
            await nobody.user_name()
    assert refused.value.status == 401
    assert heard == ["Bearer expired"]
    assert "expired" not in str(refused.value)


def test_the_token_is_in_no_text_of_the_access() -> None:
    assert "of-a" not in repr(BearerAccess("https://server", "of-a"))


async def test_a_kubeconfig_of_it_is_the_same_person(tmp_path: Path) -> None:
    heard: list[str] = []
    file = tmp_path / "kubeconfig"
    async with api_server(heard) as server:
        file.write_text(BearerAccess(server, "of-b").kubeconfig())
        async with Cluster(str(file)) as of_b:
            assert await of_b.user_name() == "b"
    assert heard == ["Bearer of-b"]


def test_a_pod_finds_its_api_server_and_a_laptop_does_not() -> None:
    port = {"KUBERNETES_SERVICE_PORT": "6443"}
    assert server_of_pod({"KUBERNETES_SERVICE_HOST": "10.0.0.1", **port}) == "https://10.0.0.1:6443"
    assert server_of_pod({"KUBERNETES_SERVICE_HOST": "fd00::1", **port}) == "https://[fd00::1]:6443"
    with pytest.raises(SourceUnavailable, match="this is no pod"):
        server_of_pod(port)
