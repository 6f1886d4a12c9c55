"""Only forms of the console's own pages change anything."""

from __future__ import annotations

import pytest

from plimsoll.console.guards import InCluster, posts
from tests.console.guards.served import PUBLIC, Served, many_people, one_person

FORM = "decision=approve"


async def posted(console: Served, cookie: str, body: str = FORM, **headers: str) -> int:
    return (await console.ask("/change", "POST", body, cookie, **headers)).status


async def test_a_form_of_the_console_is_taken() -> None:
    async with one_person() as console:
        cookie, own = await console.enter(), f"http://127.0.0.1:{console.port}"
        assert await posted(console, cookie, Sec_Fetch_Site="same-origin") == 200
        assert await posted(console, cookie, Sec_Fetch_Site="same-origin", Origin=own) == 200
        assert await posted(console, cookie, Origin=own) == 200
        assert console.changes == ["approve"] * 3


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "", "same-origin, same-origin"])
async def test_a_form_of_another_site_is_refused_even_with_the_session(site: str) -> None:
    async with one_person() as console:
        own = f"http://127.0.0.1:{console.port}"
        assert await posted(console, await console.enter(), Sec_Fetch_Site=site, Origin=own) == 403
        assert console.changes == []


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", ""])
async def test_another_origin_is_refused_with_and_without_the_other_header(origin: str) -> None:
    async with one_person() as console:
        cookie, forged = await console.enter(), origin.format(port=console.port)
        assert await posted(console, cookie, Origin=forged) == 403
        assert await posted(console, cookie, Origin=forged, Sec_Fetch_Site="same-origin") == 403
        assert console.changes == []


async def test_a_form_without_either_header_and_without_a_session_is_refused() -> None:
    async with one_person() as console:
        assert await posted(console, await console.enter()) == 403
        assert await posted(console, "", Sec_Fetch_Site="same-origin") == 401
        assert console.changes == []


async def test_another_type_of_body_is_refused() -> None:
    async with one_person() as console:
        cookie = await console.enter()
        for kind in ("text/plain", "application/json"):
            assert await posted(console, cookie, Sec_Fetch_Site="same-origin", Content_Type=kind) == 415
        assert console.changes == []


async def test_a_body_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "LARGEST_FORM", 100)
    async with one_person() as console:
        cookie = await console.enter()
        assert await posted(console, cookie, "decision=" + "x" * 92, Sec_Fetch_Site="same-origin") == 413
        assert await posted(console, cookie, "decision=" + "x" * 91, Sec_Fetch_Site="same-origin") == 200
        assert len(console.changes) == 1


async def test_a_body_of_unknown_length_is_refused() -> None:
    async with one_person() as console:
        head = (
            "POST /change HTTP/1.1",
            f"Host: 127.0.0.1:{console.port}",
            f"Cookie: {await console.enter()}",
            "Sec-Fetch-Site: same-origin",
            "Content-Type: application/x-www-form-urlencoded",
        )
        assert " 411 " in await console.say(*head, "Transfer-Encoding: chunked")
        assert " 200 " in await console.say(*head, "Content-Length: 0")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_other_methods_are_refused(method: str) -> None:
    async with one_person() as console:
        answer = await console.ask("/change", method, cookie=await console.enter(), Sec_Fetch_Site="same-origin")
        assert answer.status == 405
        assert console.changes == []


async def test_reading_the_address_of_a_change_changes_nothing() -> None:
    async with one_person() as console:
        assert (await console.ask(f"/change?{FORM}", cookie=await console.enter())).status == 405
        assert console.changes == []


async def test_behind_a_proxy_the_public_address_is_the_origin() -> None:
    async with many_people(InCluster(frozenset({PUBLIC}))) as console:
        given = {"Host": PUBLIC, "Authorization": "Bearer abc"}
        assert await posted(console, "", Origin=f"http://{PUBLIC}", **given) == 403
        assert await posted(console, "", Origin=f"https://{PUBLIC}", **given) == 200
        assert console.changes == ["approve"]
