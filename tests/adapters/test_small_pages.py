"""Lists whose answers stay small."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from plimsoll.adapters.cluster import small_pages
from plimsoll.adapters.cluster.small_pages import FEWER, FIRST_OBJECTS, PAGE_BYTES, SmallPages, SmallResponse

Body = dict[str, Any]


def deployment(name: str, characters: int) -> Body:
    config = {"text": "x" * characters}
    return {
        "kind": "InferenceDeployment",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
        "spec": {"model": {"config": config}},
        "status": {"replicas": 1},
    }


@dataclass
class Api:
    """Lists its objects as an API server does: ``continue`` is the number of those that were sent."""

    objects: list[Body] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    most_answers: int = 1000

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if len(self.asked) >= self.most_answers:
            self.most_answers = 1000
            self.asked.append(int(request.query["limit"]))
            return web.Response(status=503, text="not now")
        limit, begin = int(request.query["limit"]), int(request.query.get("continue") or 0)
        self.asked.append(limit)
        items = [{name: part for name, part in body.items() if name != "kind"} for body in self.objects]
        page = items[begin : begin + limit]
        end = begin + len(page)
        more = {"continue": str(end)} if end < len(items) else {}
        return web.json_response({"kind": "InferenceDeploymentList", "metadata": more, "items": page or None})


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, aiohttp.ClientSession, str]]:
    served, application = Api(), web.Application()
    application.router.add_get("/objects", served.answer)
    server = TestServer(application)
    await server.start_server()
    session = aiohttp.ClientSession(response_class=SmallResponse, middlewares=(SmallPages(),))
    yield served, session, f"http://{server.host}:{server.port}/objects"
    await session.close()
    await server.close()


async def listed(session: aiohttp.ClientSession, address: str, limit: int = 500) -> list[Body]:
    found, token = list[Body](), ""
    while True:
        query = {"limit": str(limit)} | ({"continue": token} if token else {})
        async with await session.get(address, params=query) as response:
            response.raise_for_status()
            page = await response.json()
        found += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return found


async def test_small_objects_soon_come_in_pages_of_the_usual_length(
    api: tuple[Api, aiohttp.ClientSession, str],
) -> None:
    served, session, address = api
    served.objects = [deployment(f"{number}", 10) for number in range(1200)]
    assert [body["metadata"]["name"] for body in await listed(session, address)] == list(map(str, range(1200)))
    assert served.asked == [FIRST_OBJECTS, 100, 200, 400, 500]


async def test_a_page_that_is_too_long_is_asked_for_again(
    api: tuple[Api, aiohttp.ClientSession, str],
) -> None:
    served, session, address = api
    large, small = PAGE_BYTES // 3, 10
    served.objects = [deployment(f"{number}", large if number % 7 else small) for number in range(60)]
    found = await listed(session, address)
    assert [body["metadata"]["name"] for body in found] == list(map(str, range(60)))
    assert served.asked[:3] == [FIRST_OBJECTS, FIRST_OBJECTS // FEWER, FIRST_OBJECTS // FEWER // FEWER]
    assert len(served.asked) < 50, "what fitted is remembered"


async def test_a_try_that_is_cut_off_is_not_begun_from_the_start(api: tuple[Api, aiohttp.ClientSession, str]) -> None:
    served, session, address = api
    served.objects = [deployment(f"{number}", PAGE_BYTES // 2) for number in range(3)]
    served.most_answers = 2
    with pytest.raises(aiohttp.ClientResponseError):
        await listed(session, address)
    served.most_answers = 100
    assert len(await listed(session, address)) == 3
    third = FIRST_OBJECTS // FEWER // FEWER
    assert served.asked[:4] == [FIRST_OBJECTS, FIRST_OBJECTS // FEWER, third, third]


async def test_an_object_without_an_end_is_an_error_and_not_read(
    api: tuple[Api, aiohttp.ClientSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, session, address = api
    monkeypatch.setattr(small_pages, "LARGEST_BYTES", PAGE_BYTES)
    served.objects = [deployment("endless", 2 * PAGE_BYTES)]
    with pytest.raises(aiohttp.ClientPayloadError, match="one object has more than 2097152 bytes"):
        await listed(session, address)
