"""The cache of images: few are read at once, again when they may have changed, and nobody waits long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import cast

import pytest

from plimsoll.adapters.hub.registries import Registries
from plimsoll.app.lookups.image_cache import (
    MOST_OF_NAMESPACE,
    WAIT_SECONDS,
    ImageArchitectures,
    ImageCache,
)
from plimsoll.domain.errors import RateLimited, SourceUnavailable
from tests.support.eventually import HANG_SECONDS, eventually

BOTH = ImageArchitectures(("amd64", "arm64"))
MINUTE, HOUR = 60.0, 3600.0
FEW_SECONDS = 600.0
"""Less than the time after which an answer that nobody asks for is dropped."""


class Desk:
    """A cache with a clock of its own, and a registry that answers with what it is given."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[str, ...] | Exception] = {}
        self.asked: list[tuple[str, str]] = []
        self.now = 0.0
        self.news = asyncio.Event()
        self.opened = threading.Event()
        self.opened.set()
        self.over = False
        self.book = ImageCache(cast("Registries", self), self.news.set, clock=lambda: self.now)

    def refusal(self, reference: str) -> str:
        return "no" if reference.startswith("evil") else ""

    def architectures(self, reference: str, *, asker: str = "") -> tuple[str, ...]:
        self.asked.append((asker, reference))
        if reference.startswith("hang"):
            self.opened.wait()
        found = self.answers.get(reference, ("amd64", "arm64"))
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self.over = True

    async def answer(
        self, image: str, namespace: str = "n", until: Callable[[ImageArchitectures | None], bool] = bool
    ) -> ImageArchitectures | None:
        """Ask until the answer is as wanted, as passes do."""
        async with asyncio.timeout(HANG_SECONDS):
            while not until(found := self.book.look_up(namespace, image)):
                self.news.clear()
                self.book.start_wanted()
                await self.news.wait()
        return found

    async def rests(self) -> None:
        """Until nothing is read."""
        await eventually(lambda: not any(self._running()))

    async def later(self, seconds: float) -> bool:
        """Ask for an image for so long, and return whether it was read again at the end."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + FEW_SECONDS)
            self.book.look_up("n", "r/i")
        asked = len(self.asked)
        self.book.start_wanted()
        await self.rests()
        return len(self.asked) > asked

    def _running(self) -> Iterator[bool]:
        pages = self.book._entries.pages.values()  # noqa: SLF001 - what is under way
        return (entry.is_running for page in pages for entry in page.values())


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    made.opened.set()
    await made.book.close()


async def test_an_image_is_read_once_and_again_after_an_hour(desk: Desk) -> None:
    assert desk.book.look_up("n", "r/i") is None
    assert await desk.answer("r/i") == BOTH
    await desk.rests()
    assert desk.asked == [("n", "r/i")]
    desk.answers["r/i"] = ("arm64",)
    assert not await desk.later(HOUR - 1)
    assert desk.book.look_up("n", "r/i") == BOTH
    assert await desk.later(1)
    assert desk.book.look_up("n", "r/i") == ImageArchitectures(("arm64",))


async def test_a_refused_registry_is_not_asked(desk: Desk) -> None:
    assert desk.book.look_up("n", "evil/i") == ImageArchitectures(why="no")
    desk.book.start_wanted()
    assert desk.asked == []
    assert await desk.answer("r/i") == BOTH


async def test_without_a_registry_nothing_is_known_and_nobody_waits() -> None:
    book = ImageCache()
    assert not book.reads
    assert book.look_up("n", "r/i") == ImageArchitectures()
    await book.close()
    assert not ImageCache.asking((), lambda: None).reads
    some = ImageCache.asking(("ghcr.io",), lambda: None)
    assert some.reads
    assert some.look_up("n", "ghcr.io/a") is None
    assert some.look_up("n", "evil.example/a") == ImageArchitectures(
        why="evil.example is none of engine.imageRegistries"
    )
    await some.close()


async def test_a_failure_is_named_and_tried_again_with_growing_pauses(desk: Desk) -> None:
    desk.answers["r/i"] = SourceUnavailable("HTTP 401")
    assert await desk.answer("r/i") == ImageArchitectures(why="HTTP 401")
    await desk.rests()
    for pause in (MINUTE, 2 * MINUTE, 4 * MINUTE):
        assert not await desk.later(pause - 1)
        assert await desk.later(1)
    desk.answers["r/i"] = RateLimited("HTTP 429", 1000)
    assert await desk.later(8 * MINUTE)
    assert not await desk.later(999)
    desk.answers["r/i"] = RateLimited("HTTP 429", 10**6)
    assert await desk.later(1)
    desk.answers["r/i"] = ("arm64",)
    assert not await desk.later(HOUR - 1)
    assert await desk.later(1)
    assert desk.book.look_up("n", "r/i") == ImageArchitectures(("arm64",))


async def test_a_long_reason_is_cut(desk: Desk) -> None:
    desk.answers["r/i"] = SourceUnavailable("x" * 1000)
    assert await desk.answer("r/i") == ImageArchitectures(why="x" * 300)


async def test_what_was_read_stays_where_the_registry_fails_later(desk: Desk) -> None:
    assert await desk.answer("r/i") == BOTH
    await desk.rests()
    desk.answers["r/i"] = SourceUnavailable("away")
    assert await desk.later(HOUR)
    assert desk.book.look_up("n", "r/i") == BOTH


async def test_a_bug_while_reading_one_image_leaves_the_others(desk: Desk) -> None:
    desk.answers["r/i"] = RuntimeError("a bug")
    assert await desk.answer("r/i") == ImageArchitectures(why="RuntimeError: a bug")
    assert await desk.answer("r/j") == BOTH


async def test_nobody_waits_longer_than_the_limit_and_a_pass_is_made_then(desk: Desk) -> None:
    desk.opened.clear()
    assert desk.book.look_up("n", "hang/i") is None
    desk.book.start_wanted()
    desk.now = WAIT_SECONDS - 0.01
    assert desk.book.look_up("n", "hang/i") is None
    desk.news.clear()
    desk.book.start_wanted()
    await asyncio.wait_for(desk.news.wait(), HANG_SECONDS)
    desk.now = WAIT_SECONDS
    assert desk.book.look_up("n", "hang/i") == ImageArchitectures(why="the registry has not answered within 20 s")
    desk.opened.set()
    assert await desk.answer("hang/i", until=lambda each: each == BOTH) == BOTH


async def test_a_tenant_whose_images_hang_delays_nobody(desk: Desk) -> None:
    """Three namespaces hang with all they have; a fourth is answered."""
    desk.opened.clear()
    for namespace in ("a", "b", "c"):
        for number in range(MOST_OF_NAMESPACE):
            assert desk.book.look_up(namespace, f"hang/{number}") is None
    beyond = desk.book.look_up("a", "hang/beyond")
    assert beyond is not None
    assert "more than 64 images" in beyond.why
    assert await desk.answer("r/i", "honest") == BOTH
    hanging = [namespace for namespace, image in desk.asked if image.startswith("hang")]
    assert sorted(hanging) == ["a", "b", "c"], "one of each at a time"


async def test_what_nobody_asks_about_is_forgotten(desk: Desk) -> None:
    await desk.answer("r/i")
    await desk.rests()
    desk.now = 900.5
    desk.book.start_wanted()
    assert desk.book.look_up("n", "r/i") is None


async def test_closing_waits_for_nobody_and_starts_nothing() -> None:
    desk = Desk()
    desk.opened.clear()
    desk.book.look_up("n", "hang/i")
    desk.book.start_wanted()
    await eventually(lambda: desk.asked)
    await desk.book.close()
    assert desk.over
    assert not desk.opened.is_set()
    desk.opened.set()
    desk.book.look_up("n", "r/i")
    desk.book._entries.start()  # noqa: SLF001 - what a timer would do
    assert ("n", "r/i") not in desk.asked
