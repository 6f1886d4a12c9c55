"""A question that takes long: the browser draws the form and a line at once, and the answer takes the line's place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from playwright.sync_api import expect

from plimsoll.console.pages.routes import SIMULATES
from plimsoll.console.sources.commands import Commands, Ran
from tests.browser.conftest import OpenTab
from tests.support.long_names import PlayedCommands
from tests.support.played_console import played_console

pytestmark = pytest.mark.browser

QUESTION = "/simulator?model=meta-llama/Llama-3.1-8B-Instruct&gpu=l4-24gb"


class Held(Commands):
    """Answers when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    async def run(self, arguments: Sequence[str], given: str = "", bearer: object = None) -> Ran:
        await asyncio.to_thread(self.let.wait)
        return await PlayedCommands().run(arguments, given, bearer)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_the_page_is_never_blank_and_ends_with_the_answer(tab_of: OpenTab, scripts: bool) -> None:  # noqa: FBT001 - a parameter
    held = Held()
    with played_console(held) as console:
        tab = tab_of(console.origin, javascript=scripts)
        tab.go(console.entry)
        try:
            tab.page.goto(f"{console.origin}{QUESTION}", wait_until="commit")
            line = tab.page.get_by_text(SIMULATES)
            expect(line).to_be_visible()
            expect(tab.page.get_by_role("button", name="Simulate")).to_be_visible()
            expect(tab.page.locator("#answer")).to_have_count(0)
        finally:
            held.let.set()
        expect(tab.page.locator("#answer")).to_be_visible()
        expect(line).to_be_hidden()
        assert tab.complaints == []
