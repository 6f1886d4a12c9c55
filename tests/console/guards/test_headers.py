"""Every answer says what a browser may do with it."""

from __future__ import annotations

import pytest

from plimsoll.console.guards.headers import CONTENT_SECURITY_POLICY
from tests.console.guards.served import KEPT, one_person

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}


def test_the_policy_permits_the_consoles_own_files_and_nothing_else() -> None:
    parts = [part.strip().split(" ", 1) for part in CONTENT_SECURITY_POLICY.split(";")]
    assert dict(parts) == POLICY
    assert len(parts) == len(POLICY)


@pytest.mark.parametrize(
    ("path", "status"), [("/", 200), ("/nothing", 404), ("/broken", 500), ("/change", 405), ("/stream", 200)]
)
async def test_pages_streams_and_errors_have_all_headers(path: str, status: int) -> None:
    async with one_person() as console:
        answer = await console.ask(path, cookie=await console.enter())
        assert answer.status == status
        assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"


async def test_refusals_and_the_door_have_the_policy() -> None:
    async with one_person() as console:
        for answer in (
            await console.ask(),
            await console.ask(Host="evil.example"),
            await console.ask("/?token=the-secret-of-this-test"),
        ):
            assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert answer.headers["Cache-Control"] == "no-store"


async def test_only_static_files_are_kept_as_long_as_their_handler_says() -> None:
    async with one_person() as console:
        cookie = await console.enter()

        async def kept(path: str) -> str:
            return (await console.ask(path, cookie=cookie)).headers["Cache-Control"]

        assert await kept("/static/console.css") == KEPT
        assert await kept("/static/nothing.css") == "no-store"
        assert await kept("/careless") == "no-store"
