"""Fixtures that several tests of whole passes share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.live_passes import H100, L4, L40S, LivePasses, Open


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    made: list[LivePasses] = []

    def open_(**gpus: int) -> LivePasses:
        kinds = {"l4": L4, "l40s": L40S, "h100": H100}
        made.append(LivePasses.open(tmp_path, {kinds[name]: count for name, count in gpus.items()}))
        return made[-1]

    yield open_
    for each in made:
        await each.passes.reader.models.close()
