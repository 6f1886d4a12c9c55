"""A page whose answer takes long: the form and a line come at once, the answer follows, and nothing runs for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientResponse, ClientSession, CookieJar

from plimsoll.console import parts
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.pages.routes import PLANS, SIMULATES
from plimsoll.console.sources.commands import Commands, Ran
from tests.support.eventually import eventually
from tests.support.long_names import PlayedCommands
from tests.support.played_console import serving_at

QUESTION = "/simulator?model=meta-llama/Llama-3.1-8B-Instruct&gpu=l4-24gb"


@dataclass
class Slow(Commands):
    """A command that answers when it is let."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    let: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    was_cancelled: bool = False

    async def run(self, arguments: Sequence[str], given: str = "", bearer: object = None) -> Ran:
        self.begun.set()
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self.error is not None:
            raise self.error
        return await PlayedCommands().run(arguments, given, bearer)


@asynccontextmanager
async def browser(commands: Commands) -> AsyncIterator[tuple[ClientSession, str]]:
    served, console = await serving_at(commands)
    try:
        async with ClientSession(cookie_jar=CookieJar(unsafe=True), headers={"Accept": "text/html"}) as session:
            async with session.get(console.entry) as entered:
                assert entered.status == 200
            yield session, console.origin
    finally:
        await served.cleanup()


async def until(answer: ClientResponse, words: str) -> str:
    """Read until these words have come."""
    text = ""
    while words not in text:
        text += (await answer.content.readany()).decode()
    return text


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PATIENCE_SECONDS", 0.01)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("path", "progress"), [(QUESTION, SIMULATES), ("/what-if?change=-l4-24gb", PLANS)])
async def test_the_form_and_a_line_come_before_the_answer_and_the_page_is_whole_after_it(
    path: str, progress: str
) -> None:
    slow = Slow()
    async with browser(slow) as (session, origin), session.get(f"{origin}{path}") as answer:
        first = await until(answer, progress)
        assert not slow.let.is_set()
        assert "<form" in first
        assert 'id="answer"' not in first
        assert answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"
        slow.let.set()
        text = first + (await answer.read()).decode()
    assert text.count('id="answer"') == 1
    assert text.count("</main>") == text.count("</html>") == text.count("<form") == 1
    assert text.count('class="progress"') == 1


async def test_an_answer_that_is_ready_has_no_such_line() -> None:
    async with browser(PlayedCommands()) as (session, origin), session.get(f"{origin}{QUESTION}") as answer:
        text = await answer.text()
    assert 'id="answer"' in text
    assert 'class="progress"' not in text


@pytest.mark.usefixtures("_impatient")
async def test_what_goes_wrong_later_is_said_in_the_page() -> None:
    slow = Slow(error=ConsoleRefusal(504, "TooSlow", "It took too long & was stopped.", "Ask in a terminal."))
    async with browser(slow) as (session, origin), session.get(f"{origin}{QUESTION}") as answer:
        first = await until(answer, SIMULATES)
        slow.let.set()
        rest = (await answer.read()).decode()
    assert "TooSlow" in rest
    assert "It took too long &amp; was stopped. Ask in a terminal." in rest
    assert (first + rest).count("</html>") == 1


async def test_what_goes_wrong_at_once_has_its_status() -> None:
    slow = Slow(error=ConsoleRefusal(503, "TooManyQuestions", "Busy.", "Ask again."))
    slow.let.set()
    async with browser(slow) as (session, origin), session.get(f"{origin}{QUESTION}") as answer:
        assert answer.status == 503


@pytest.mark.usefixtures("_impatient")
async def test_a_tab_that_goes_away_ends_the_work() -> None:
    slow = Slow()
    async with browser(slow) as (session, origin):
        answer = await session.get(f"{origin}{QUESTION}")
        await until(answer, SIMULATES)
        answer.close()
        await eventually(lambda: slow.was_cancelled)
