"""Waiting on an event loop for something to come true, always with an end."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

HANG_SECONDS = 60.0
"""Whatever takes longer hangs: no machine is so busy that its work takes this long."""


async def eventually(holds: Callable[[], object]) -> None:
    """Let everything else run until this holds. The question may be a coroutine."""
    async with asyncio.timeout(HANG_SECONDS):
        while not await _answer(holds):  # noqa: ASYNC110 - the condition is of the code under test, which knows no event
            await asyncio.sleep(0.01)


async def _answer(holds: Callable[[], object]) -> object:
    answer = holds()
    return await answer if inspect.isawaitable(answer) else answer
