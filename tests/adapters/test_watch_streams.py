"""The events of Kopf's watches go to the store, and Kopf keeps the versions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kopf._cogs.clients import auth
from kopf._cogs.clients.errors import APIForbiddenError
from kopf._cogs.clients.watching import Bookmark, continuous_watch
from kopf._cogs.structs.credentials import Vault
from kopf._cogs.structs.references import Resource

from plimsoll.adapters.cluster.kinds import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES, ObjectKind
from plimsoll.adapters.cluster.watch_streams import Follower
from plimsoll.app.operator import WatchSession, watch_session

Body = dict[str, Any]
COLLECTION = "/apis/plimsoll.dev/v1alpha1/inferencedeployments"


def body_of(name: str, version: int, characters: int = 10) -> Body:
    head = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return {"kind": "InferenceDeployment", "metadata": head, "spec": {"text": "x" * characters}}


@dataclass
class Api:
    """Answers as an API server does, with what is here, and notes what was asked."""

    events: list[Any] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    list_status: int = 200
    objects: int = 3

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append({**request.query, "accept": request.headers.get("Accept", "")})
        if "watch" in request.query:
            return web.Response(text="".join(json.dumps(event) + "\n" for event in self.events))
        if self.list_status != 200:
            return web.json_response({"kind": "Status", "code": self.list_status}, status=self.list_status)
        items = [body_of(f"{number}", number + 1) for number in range(self.objects)][: int(request.query["limit"])]
        head = {"resourceVersion": "7", "continue": "more"}
        return web.json_response({"kind": "PartialObjectMetadataList", "metadata": head, "items": items or None})


@dataclass
class Read:
    """The calls to the reader."""

    began: list[ObjectKind] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)

    def add(self, kind: ObjectKind, event: str, body: Body) -> None:
        assert kind == INFERENCE_DEPLOYMENTS
        self.seen.append((event, str(body["metadata"].get("name"))))

    def follower(self) -> Follower:
        return Follower((INFERENCE_DEPLOYMENTS, DEPLOYMENTS, NODES), self.began.append, self.add)


@dataclass
class Scene:
    api: Api
    read: Read
    session: WatchSession

    async def followed(self, most: int = 20) -> list[Any]:
        """Return the first events of Kopf's own watch, all if it ends before."""
        found = list[Any]()
        vault = Vault()
        await vault.populate({"any": self.session})
        token = auth.vault_var.set(vault)
        settings = kopf.OperatorSettings()
        settings.networking.error_backoffs = ()
        resource = Resource("plimsoll.dev", "v1alpha1", "inferencedeployments", namespaced=True)
        stop: asyncio.Future[None] = asyncio.Future()
        try:
            stream = continuous_watch(settings=settings, resource=resource, namespace=None, operator_pause_waiter=stop)
            async for event in stream:
                found.append(event)
                if len(found) >= most:
                    stop.set_result(None)
                    break
        finally:
            auth.vault_var.reset(token)
        return found


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    api, read, application = Api(), Read(), web.Application()
    application.router.add_get("/behind/a/path" + COLLECTION, api.answer)
    server = TestServer(application)
    await server.start_server()
    access = kopf.ConnectionInfo(server=f"http://{server.host}:{server.port}/behind/a/path")
    session = watch_session(access, read.follower())
    yield Scene(api, read, session)
    await session.aiohttp_session.close()
    await server.close()


async def test_kopf_gets_an_empty_list_and_versions_and_the_reader_gets_the_objects(scene: Scene) -> None:
    large = body_of("large", 9, 2_000_000)
    scene.api.events = [
        {"type": "ADDED", "object": body_of("a", 8)},
        {"type": "MODIFIED", "object": large},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "10"}}},
        {"type": "DELETED", "object": body_of("a", 11)},
        {"type": "ERROR", "object": {"code": 410}},
    ]
    found = await scene.followed()
    assert scene.read.began == [INFERENCE_DEPLOYMENTS]
    assert scene.read.seen == [("ADDED", "a"), ("MODIFIED", "large"), ("DELETED", "a")]
    assert found[0] is Bookmark.LISTED
    versions = [event["object"]["metadata"]["resourceVersion"] for event in found[1:]]
    assert versions == ["8", "9", "10", "11"]
    assert {event["type"] for event in found[1:]} == {"BOOKMARK"}
    assert len(json.dumps(found[1:])) < 500, "Kopf keeps nothing of the objects"
    listing, watch = scene.api.asked
    assert listing["limit"] == "1"
    assert "PartialObjectMetadataList" in listing["accept"]
    assert watch["resourceVersion"] == "7"


async def test_after_a_break_the_watch_goes_on_from_the_last_object(scene: Scene) -> None:
    scene.api.events = [{"type": "ADDED", "object": body_of("a", 8)}]
    await scene.followed(most=3)
    assert [asked.get("resourceVersion") for asked in scene.api.asked[:3]] == [None, "7", "8"]
    assert scene.read.began == [INFERENCE_DEPLOYMENTS], "nothing was missed"


async def test_an_empty_collection_begins_too(scene: Scene) -> None:
    """No event reports an object that was deleted before the watch began."""
    scene.api.objects = 0
    scene.api.events = [{"type": "ERROR", "object": {"code": 410}}]
    assert await scene.followed() == [Bookmark.LISTED]
    assert scene.read.began == [INFERENCE_DEPLOYMENTS]


async def test_a_list_that_is_refused_begins_nothing(scene: Scene) -> None:
    scene.api.list_status = 403
    with pytest.raises(APIForbiddenError):
        await scene.followed()
    assert scene.read.began == []


@pytest.mark.parametrize("event", [{"type": "ADDED", "object": None}, {"type": "ODD", "object": {}}, {"no": "event"}])
async def test_what_is_no_object_is_left_to_kopf(scene: Scene, event: Body) -> None:
    scene.api.events = [event, {"type": "ERROR", "object": {"code": 410}}]
    with suppress(KeyError, AttributeError, TypeError):  # Kopf's own answer to it
        await scene.followed()
    assert scene.read.seen == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (COLLECTION, INFERENCE_DEPLOYMENTS),
        ("/apis/plimsoll.dev/v1alpha1/namespaces/api/inferencedeployments", INFERENCE_DEPLOYMENTS),
        ("/k8s/clusters/c-1/apis/apps/v1/namespaces/ns/deployments", DEPLOYMENTS),
        ("/api/v1/nodes", NODES),
        ("/api/v1/nodes/deployments", None),
        ("/apis/apps/v1/nodes", None),
        ("/apis/apps/v1", None),
        ("/version", None),
    ],
)
def test_the_kind_is_known_by_the_path(path: str, kind: ObjectKind | None) -> None:
    assert Read().follower().kind_at(path) == kind
