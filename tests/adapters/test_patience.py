"""One request is tried again while that may help, no longer than is useful, and as late as the server asks."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from plimsoll.adapters.cluster.api_errors import (
    IMPATIENT,
    OF_PEOPLE,
    ClusterRefused,
    Patience,
    patiently,
    retry_after_seconds,
)
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.domain.errors import SourceUnavailable
from tests.support.tables import every_case


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, without making them."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    shortened = SimpleNamespace(sleep=sleep, get_running_loop=lambda: SimpleNamespace(time=lambda: 1000.0 + sum(made)))
    monkeypatch.setattr("plimsoll.adapters.cluster.api_errors.asyncio", shortened)
    return made


class Server:
    """Answers with these errors one after the other, and then well."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def refusal(status: int, retry_after: float | None = None) -> ClusterRefused:
    return ClusterRefused("apply", status, "no", retry_after=retry_after)


async def test_what_passes_is_tried_again_and_the_servers_wish_is_obeyed(pauses: list[float]) -> None:
    server = Server(refusal(429, 1.0), SourceUnavailable("cut"), refusal(503), refusal(504))
    assert await patiently(server, Patience()) == "done"
    assert server.asked == 5
    assert 1.0 <= pauses[0] <= 1.3
    assert all(0 < pause < 2 for pause in pauses[1:])


async def test_a_webhook_that_does_not_answer_is_for_somebody_to_mend() -> None:
    words = 'Internal error occurred: failed calling webhook "a.example.com": dial tcp 127.0.0.1:1: connection refused'
    server = Server(ClusterRefused("apply", 500, words))
    with pytest.raises(ClusterRefused):
        await patiently(server, Patience())
    assert server.asked == 1


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
async def test_a_no_is_final(status: int) -> None:
    server = Server(refusal(status))
    with pytest.raises(ClusterRefused):
        await patiently(server, Patience())
    assert server.asked == 1


@pytest.mark.parametrize(
    ("status", "message", "is_gone"),
    [
        (404, 'services "a" not found', True),
        (409, "Precondition failed: UID in precondition: 1, UID in object meta: 2", True),
        (409, "the UID in the precondition (1) does not match the UID in record (2).", True),
        (409, "Operation cannot be fulfilled: the object has been modified; please apply your changes again", False),
        (403, "a webhook with the precondition that all is well", False),
    ],
)
def test_a_conflict_alone_does_not_say_that_an_object_is_gone(status: int, message: str, *, is_gone: bool) -> None:
    assert ClusterRefused("delete services ns/a", status, message).says_gone is is_gone


async def test_patience_ends(pauses: list[float]) -> None:
    server = Server(*(refusal(503) for _ in range(50)))
    with pytest.raises(ClusterRefused):
        await patiently(server, Patience(tries=4))
    assert server.asked == 4
    assert len(pauses) == 3


async def test_a_wish_beyond_patience_is_not_waited_for(pauses: list[float]) -> None:
    server = Server(refusal(429, 600.0))
    with pytest.raises(ClusterRefused):
        await patiently(server, Patience(total_seconds=30))
    assert pauses == []


async def test_the_impatient_ask_once() -> None:
    server = Server(SourceUnavailable("down"))
    with pytest.raises(SourceUnavailable):
        await patiently(server, IMPATIENT)
    assert server.asked == 1


@pytest.mark.parametrize(("patience", "least", "most"), [(OF_PEOPLE, 0, 2), (Patience(), 8, 17)])
async def test_a_person_learns_at_once_that_a_server_cannot_be_reached(
    patience: Patience, least: float, most: float, pauses: list[float]
) -> None:
    """The operator asks eight times, and so does a person's command at a server that is only busy.

    Its seven pauses are 16.2 s together at most (0.2 s, doubled, 5 s at most), and chance takes up to half of each.
    """
    with pytest.raises(SourceUnavailable):
        await patiently(Server(*(SourceUnavailable("down") for _ in range(50))), patience)
    assert least <= sum(pauses) <= most
    server = Server(refusal(429, 1.0), refusal(503, 1.0), refusal(503, 1.0), refusal(504, 1.0))
    assert await patiently(server, patience) == "done"


async def test_why_a_server_cannot_be_reached_is_said_in_words(tmp_path: Path) -> None:
    """Nobody listens, no such host, something other than TLS, and a server that accepts and never greets."""

    async def said(server: str) -> str:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        file = tmp_path / "config"
        file.write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(SourceUnavailable) as error:
            async with Cluster(str(file), patience=Patience(tries=1, reach_seconds=0.2)) as cluster:
                await cluster.user_name()
        return str(error.value).removeprefix("ask for the own user name: ")

    async def no_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 no\r\n\r\n")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    assert await said("https://127.0.0.1:1") == "no connection to 127.0.0.1:1 (Connection refused)"
    assert (await said("https://no-such-host.invalid:1")).startswith("host no-such-host.invalid is not known (")
    async with await asyncio.start_server(no_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert (await said(f"https://127.0.0.1:{port}")).startswith(f"no connection to 127.0.0.1:{port} ([SSL")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert (await said(f"https://127.0.0.1:{port}")).startswith("Connection timeout to host")


@every_case(
    ("header", "seconds"),
    [("1", 1.0), ("30", 30.0), ("-1", None), ("Wed, 21 Oct", None), ("٣", None), ("9" * 400, None)],
)
def test_the_header_is_seconds_or_nothing(header: str, seconds: float | None) -> None:
    assert retry_after_seconds({"Retry-After": header}) == seconds
    assert retry_after_seconds(None) is None
