"""The mechanism that the books of models, claims and images share."""

from __future__ import annotations

import time

import pytest

from plimsoll.app.lanes import Lane
from plimsoll.app.look_ups import LookUp, LookUps
from tests.support.eventually import eventually

SOON = 0.02
"""Seconds until an entry is due again: only a hang takes longer than the test waits."""


@pytest.mark.parametrize("first", ["a", "b"])
async def test_what_is_due_later_is_read_without_another_pass(first: str) -> None:
    """Two entries are due one after the other."""
    read: list[str] = []

    async def look(entry: LookUp) -> None:
        read.append(entry.namespace)
        entry.due_at = time.monotonic() + SOON

    book = LookUps[LookUp](look, (Lane(1, 1),), forgotten_seconds=3600.0)
    with book.lock:
        for name in "ab":
            due = time.monotonic() + (SOON if name == first else 2 * SOON)
            book.add("q", LookUp(namespace=name, due_at=due))
    book.start()
    await eventually(lambda: set(read) == {"a", "b"})
    await book.close()
    count = len(read)
    book.start()
    assert len(read) == count
