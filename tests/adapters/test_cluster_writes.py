"""A write reaches the API server only while the fence is open, and a request is repeated as the API server asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from plimsoll.adapters.cluster import api_errors as patience
from plimsoll.adapters.cluster.api_errors import NotLeading
from plimsoll.adapters.cluster.bearer_access import BearerAccess
from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, Cluster
from plimsoll.domain.kubernetes_names import ObjectKey

KEY = ObjectKey("ns", "one")
BODY = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one", "namespace": "ns"}}
STORED = {**BODY, "metadata": {**BODY["metadata"], "uid": "u", "resourceVersion": "1"}}  # type: ignore[dict-item]
EVENT = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ns"}}

WRITES: dict[str, Callable[[Cluster], Awaitable[object]]] = {
    "apply": lambda cluster: cluster.apply(BODY),
    "put_status": lambda cluster: cluster.put_status(INFERENCE_DEPLOYMENTS, STORED, {}),
    "scale": lambda cluster: cluster.scale(DEPLOYMENTS, KEY, "u", 2),
    "delete": lambda cluster: cluster.delete(DEPLOYMENTS, KEY, "u"),
    "create": lambda cluster: cluster.create(BODY),
    "create_event": lambda cluster: cluster.create_event(EVENT),
}


@dataclass
class ApiServer:
    """Stores nothing, answers everything with the same object, and remembers what it was asked."""

    heard: list[str] = field(default_factory=list)
    busy_answers: int = 0
    retry_after: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.heard.append(request.method)
        if self.busy_answers > 0:
            self.busy_answers -= 1
            return web.json_response({"kind": "Status"}, status=429, headers={"Retry-After": self.retry_after})
        return web.json_response({**BODY, "metadata": {**BODY["metadata"], "uid": "u"}})  # type: ignore[dict-item]


@asynccontextmanager
async def connected(server: ApiServer) -> AsyncIterator[Cluster]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    async with (
        TestServer(app) as running,
        Cluster(bearer=BearerAccess(str(running.make_url("")).rstrip("/"), "token")) as cluster,
    ):
        yield cluster


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_no_write_leaves_a_process_that_does_not_lead_and_reads_go_on(
    write: Callable[[Cluster], Awaitable[object]],
) -> None:
    server = ApiServer()

    def closed() -> None:
        raise NotLeading("closed")

    async with connected(server) as cluster:
        cluster.fence = closed
        with pytest.raises(NotLeading):
            await write(cluster)
        assert server.heard == []
        await cluster.get(DEPLOYMENTS, KEY)
        with pytest.raises(NotLeading):
            await write(cluster)  # on the connection that is open now
        assert server.heard == ["GET"]
        cluster.fence = lambda: None
        await write(cluster)
        assert len(server.heard) == 2


async def test_a_request_is_repeated_no_sooner_than_the_answer_says(monkeypatch: pytest.MonkeyPatch) -> None:
    server, pauses = ApiServer(busy_answers=2, retry_after="7"), list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(patience, "asyncio", _AsyncioWith(sleep))
    async with connected(server) as cluster:
        await cluster.apply(BODY)
    assert server.heard == ["PATCH"] * 3
    assert [pause >= 7.0 for pause in pauses] == [True, True]


@dataclass(frozen=True)
class _AsyncioWith:
    """The part of asyncio that the retries use, with pauses that take no time."""

    sleep: Callable[[float], Awaitable[None]]
    get_running_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.get_running_loop
