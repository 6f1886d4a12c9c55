"""The mechanism that the books of models, claims and images share."""

from __future__ import annotations

import time

import pytest

from plimsoll.app.lookups.lanes import Lane
from plimsoll.app.lookups.look_ups import LookUp, LookUps
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


async def test_the_entries_that_nobody_asks_for_are_dropped_and_the_others_stay() -> None:
    now, read = [0.0], list[str]()

    async def look(entry: LookUp) -> None:
        read.append(entry.namespace)

    book = LookUps[LookUp](look, (Lane(9, 9),), forgotten_seconds=10.0, clock=lambda: now[0])
    for question in ("old", "kept", "new"):
        book.add(question, LookUp(namespace="n", due_at=1000.0))
        now[0] += 4.0
    book.add("alone", LookUp(namespace="other", due_at=1000.0))
    assert book.found("n", "kept") is not None
    now[0] = 10.5
    book.start()
    assert list(book.pages["n"]) == ["new", "kept"]
    assert book.of_namespace("other") == 1
    book.drop("other", "alone")
    assert list(book.pages) == ["n"]
    await book.close()
    assert read == []
