"""Look-ups of two tenants at a real hub that accepts everything of one of them and never answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plimsoll.adapters.hub.hub import HubModels
from plimsoll.adapters.hub.models import ModelSources
from plimsoll.api.v1alpha1 import ModelSpec
from plimsoll.app.lookups.model_cache import ModelCache
from plimsoll.domain.models.model import ModelFacts
from plimsoll.status.record.report import DeploymentProblem
from tests.adapters.hostile_hub import HostileHub, serve_hostile_hub
from tests.adapters.test_hub import CONFIG
from tests.adapters.test_hub_hostile import silent
from tests.support.eventually import HANG_SECONDS

CATALOGUED = ModelSpec(name="meta-llama/Llama-3.1-8B-Instruct")
PUBLISHED = ModelSpec(name="org/published")
CROWD = [ModelSpec(name=f"crowd/m{number}") for number in range(60)]
SHORT_SECONDS, ENDLESS_SECONDS = 0.5, 3600.0
"""Deadlines of an answer: one that passes, and one that no test sees the end of."""


class Desk:
    """A book that is asked again as soon as it has news, as the planner does."""

    def __init__(self, cache: Path, *, timeout_seconds: float = ENDLESS_SECONDS) -> None:
        self.news = asyncio.Event()
        sources = ModelSources(HubModels(cache, timeout_seconds=timeout_seconds))
        self.book = ModelCache(sources, self.no_token, self.news.set)

    async def no_token(self, *_: str) -> str:
        raise AssertionError("nobody names a Secret here")

    async def known(self, namespace: str, model: ModelSpec) -> ModelFacts:
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                self.news.clear()
                self.ask_for_the_crowd()
                answer = self.book.look_up(namespace, model)
                self.book.start_wanted()
                if isinstance(answer, ModelFacts):
                    return answer
                await self.news.wait()

    def ask_for_the_crowd(self) -> list[ModelFacts | DeploymentProblem]:
        return [self.book.look_up("crowd", model) for model in CROWD]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileHub]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent/token")
    with serve_hostile_hub() as hostile:
        hostile.on("crowd/", silent)
        hostile.on("published/resolve/main/config.json", lambda request: request.answer(json.dumps(CONFIG).encode()))
        monkeypatch.setenv("HF_ENDPOINT", hostile.url)
        yield hostile


@pytest.fixture
async def desk(hub: HostileHub, tmp_path: Path) -> AsyncIterator[Desk]:
    assert hub.url
    async with opened(Desk(tmp_path)) as made:
        yield made


@asynccontextmanager
async def opened(desk: Desk) -> AsyncIterator[Desk]:
    desk.ask_for_the_crowd()
    desk.book.start_wanted()
    yield desk
    await desk.book.close()


@pytest.mark.parametrize("model", [CATALOGUED, PUBLISHED], ids=["catalogued", "on the same hub"])
async def test_another_tenants_model_does_not_wait_for_sixty_that_hang(desk: Desk, model: ModelSpec) -> None:
    assert (await desk.known("honest", model)).layers > 0


async def test_all_sixty_hear_within_a_few_deadlines_that_the_hub_does_not_answer(
    hub: HostileHub, tmp_path: Path
) -> None:
    async with opened(Desk(tmp_path, timeout_seconds=SHORT_SECONDS)) as desk, asyncio.timeout(HANG_SECONDS):
        while any(getattr(answer, "reason", "") == "ResolvingModel" for answer in desk.ask_for_the_crowd()):
            desk.news.clear()
            await desk.news.wait()
        said = [answer.message for answer in desk.ask_for_the_crowd() if isinstance(answer, DeploymentProblem)]
    assert len([request for request in hub.requests if "crowd" in request.path]) < 8
    assert sum("has not answered since" in message for message in said) > 50


async def test_closing_the_book_ends_what_hangs(desk: Desk, hub: HostileHub) -> None:
    await desk.known("honest", PUBLISHED)
    assert hub.requests
    async with asyncio.timeout(HANG_SECONDS):
        await desk.book.close()
