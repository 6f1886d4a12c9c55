"""Every failure is a word, a sentence and a fix, and no secret leaves the console."""

from __future__ import annotations

import logging

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.console.guards import InCluster
from plimsoll.console.guards.errors import ConsoleRefusal, explained, plain_page
from plimsoll.domain.errors import InvalidInput, SourceUnavailable
from tests.console.guards.served import PUBLIC, TOKEN, many_people, one_person

SCRIPT = "<script>alert(1)</script>"


async def test_a_defect_is_no_traceback_and_the_log_has_it_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    async with one_person() as console:
        answer = await console.ask("/broken?x=private", cookie=await console.enter())
        assert (answer.status, answer.text.partition(":")[0]) == (500, "ConsoleFault")
        assert "Traceback" not in answer.text
        assert TOKEN not in answer.text
        assert "RuntimeError: the secret is [hidden]" in caplog.text
        assert TOKEN not in caplog.text
        assert "private" not in caplog.text


async def test_the_token_of_a_person_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with many_people(InCluster(frozenset({PUBLIC}))) as console:
        answer = await console.ask("/broken", Host=PUBLIC, Authorization="Bearer persons-own")
        assert answer.status == 500
        assert "persons-own" not in answer.text + caplog.text
        assert "the secret is [hidden]" in caplog.text


async def test_the_way_in_leaves_no_token_in_any_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with one_person() as console:
        await console.enter()
        await console.ask(f"/change?token={TOKEN}")
        await console.ask(f"/nothing?token={TOKEN}", Host="evil.example")
        # The test's own client and event loop log nothing of the server.
        assert not [record for record in caplog.records if TOKEN in record.getMessage()]


async def test_browsers_get_a_page_and_others_plain_text() -> None:
    async with one_person() as console:
        cookie = await console.enter()
        page = await console.ask("/nothing", cookie=cookie, Accept="text/html,*/*")
        text = await console.ask("/nothing", cookie=cookie, Accept="*/*")
        assert (page.status, text.status) == (404, 404)
        assert "<h1>NotFound</h1>" in page.text
        assert text.text.startswith("NotFound: ")


def test_a_page_shows_hostile_words_as_text() -> None:
    page = plain_page(None, ConsoleRefusal(403, "Forbidden", SCRIPT, "Ask."))  # type: ignore[arg-type]
    assert SCRIPT not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (ClusterRefused("list nodes", 401, "Unauthorized"), 401, "SignedOut"),
        (ClusterRefused("list nodes", 403, 'nodes is forbidden: User "a" cannot list'), 403, "Forbidden"),
        (ClusterRefused("list nodes", 500, "etcd"), 502, "ClusterRefused"),
        (SourceUnavailable("no answer"), 503, "Unavailable"),
        (InvalidInput("contextLength", -1, "Use a positive number."), 422, "InvalidInput"),
    ],
)
def test_expected_errors_keep_their_meaning(error: Exception, status: int, word: str) -> None:
    refusal = explained(error)
    assert refusal is not None
    assert (refusal.status, refusal.word) == (status, word)


def test_an_unexpected_error_is_a_defect() -> None:
    assert explained(KeyError("x")) is None
