"""An API server that has just started refuses everybody for a moment: the last state must outlive that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.adapters.cluster.kinds import PODS
from plimsoll.console.sources import informer_cache as module
from plimsoll.console.sources.informer_cache import DOUBTS, ScopedInformer
from plimsoll.console.views.world import GapKind
from plimsoll.domain.errors import SourceUnavailable

POD = {"metadata": {"namespace": "ns", "name": "pod", "resourceVersion": "1"}}
AWAY = SourceUnavailable("nobody answers")
FORBIDDEN = ClusterRefused("list pods", 403, "not yet")
SHOWN = (1, None)
OUTAGE = (1, GapKind.UNREACHABLE)
REFUSED = (0, GapKind.FORBIDDEN)


@dataclass(slots=True)
class Answers:
    """An API server that gives these answers to one list after another, then hangs; None is a list with one pod."""

    answers: list[Exception | None]
    seen: list[tuple[int, GapKind | None]] = field(default_factory=list)
    """Number of objects and kind of gap at the beginning of each list."""
    look: Callable[[], tuple[int, GapKind | None]] = lambda: (0, None)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def list(self, _: object, *, keep: Callable[[Any], Any], **__: object) -> SimpleNamespace:
        self.seen.append(self.look())
        if not self.answers:
            self.ended.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        keep(POD)
        return SimpleNamespace(version="1")

    async def watch(self, *_: object, **__: object) -> AsyncIterator[tuple[str, Any]]:
        nothing: tuple[tuple[str, Any], ...] = ()
        for event in nothing:
            yield event
        raise ClusterRefused("watch pods", 410, "too old")


async def seen_with(*answers: Exception | None) -> list[tuple[int, GapKind | None]]:
    """Return the text before each list after the first one, and at the end."""
    server = Answers([None, *answers])
    cache = ScopedInformer(cast("Cluster", server), PODS, lambda body: body, lambda: None)
    server.look = lambda: (len(cache.objects), cache.gap.reason if cache.gap else None)
    task = asyncio.create_task(cache.run())
    await server.ended.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return server.seen[2:]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0,))
    monkeypatch.setattr(module, "DOUBT_PAUSE", 0.0)
    monkeypatch.setattr(module, "FORBIDDEN_PAUSE", 0.0)


async def test_a_refusal_right_after_an_outage_keeps_the_last_state() -> None:
    assert await seen_with(AWAY, FORBIDDEN, FORBIDDEN, None) == [OUTAGE, OUTAGE, OUTAGE, SHOWN]


async def test_a_refusal_without_an_outage_ends_the_view_at_once() -> None:
    assert await seen_with(FORBIDDEN) == [REFUSED]


async def test_a_right_that_was_taken_away_during_an_outage_ends_the_view_after_some_refusals() -> None:
    assert await seen_with(AWAY, *[FORBIDDEN] * (DOUBTS + 1)) == [*[OUTAGE] * (DOUBTS + 1), REFUSED]


async def test_a_refusal_after_the_api_server_has_answered_again_counts_at_once() -> None:
    assert await seen_with(AWAY, FORBIDDEN, None, FORBIDDEN) == [OUTAGE, OUTAGE, SHOWN, REFUSED]
