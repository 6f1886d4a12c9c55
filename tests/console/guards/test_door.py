"""Only who has the token of the printed URL gets a session."""

from __future__ import annotations

import pytest

from plimsoll.console.guards import Local
from plimsoll.console.guards.door import cookie_name, is_same, new_token
from tests.console.guards.served import TOKEN, one_person


async def test_without_a_session_the_page_names_the_command() -> None:
    async with one_person() as console:
        answer = await console.ask(Accept="text/html")
        assert answer.status == 401
        assert "<code>" not in answer.text
        assert "plimsoll console" in answer.text
        assert answer.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/", "/enter"])
async def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(path: str) -> None:
    async with one_person() as console:
        answer = await console.ask(f"{path}?token={TOKEN}")
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith(f"{cookie_name(console.port)}=")
        assert {"HttpOnly", "Path=/", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
        assert TOKEN not in str(answer)


async def test_the_printed_address_opens_a_second_tab_and_both_sessions_hold() -> None:
    async with one_person() as console:
        for cookie in (await console.enter(), await console.enter()):
            assert (await console.ask(cookie=cookie)).status == 200


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", "%00", "%ED%A0%80", "ü"])
async def test_another_token_opens_nothing(token: str) -> None:
    async with one_person() as console:
        answer = await console.ask(f"/?token={token}")
        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers


async def test_the_token_is_taken_at_the_doors_only() -> None:
    async with one_person() as console:
        assert (await console.ask(f"/change?token={TOKEN}")).status == 401
        assert (await console.ask(f"//evil.example/?token={TOKEN}")).status in (401, 421)


async def test_a_made_up_cookie_and_the_token_as_cookie_open_nothing() -> None:
    async with one_person() as console:
        for value in ("x", TOKEN, ""):
            assert (await console.ask(cookie=f"{cookie_name(console.port)}={value}")).status == 401
        assert (await console.ask(cookie=await console.enter())).status == 200


async def test_static_files_need_no_session_and_pages_near_them_do() -> None:
    async with one_person() as console:
        assert (await console.ask("/static/console.css")).status == 200
        assert (await console.ask("/static")).status == 401
        assert (await console.ask("/static/../")).status == 401
        assert (await console.ask("/static/%2e%2e/")).status != 200


async def test_the_session_of_another_console_opens_nothing() -> None:
    async with one_person() as first, one_person() as second:
        cookie = await first.enter()
        _, _, value = cookie.partition("=")
        assert (await second.ask(cookie=f"{cookie_name(second.port)}={value}")).status == 401
        assert (await first.ask(cookie=cookie)).status == 200


def test_the_settings_do_not_print_the_token() -> None:
    assert TOKEN not in repr(Local(port=1, token=TOKEN))


def test_secrets_are_long_and_compared_whole() -> None:
    assert len(new_token()) >= 43
    assert new_token() != new_token()
    assert is_same("a" * 43, "a" * 43)
    assert not is_same("a" * 42, "a" * 43)
    assert not is_same("\ud800", "a")
