"""Lines of a stream, however long they are and wherever they are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import cast
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import LineTooLong

from plimsoll.adapters.cluster.small_pages import long_lines

LONG = b'{"object": "' + b"x" * 1_500_000 + b'"}'
"""As long as an object of Kubernetes may be, and ten times the reader's own limit."""


@dataclass
class Chunks:
    """A stream that gives these bytes, one chunk after the other."""

    chunks: Sequence[bytes]

    async def iter_any(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


async def lines(*chunks: bytes) -> list[bytes]:
    return [line async for line in long_lines(cast("aiohttp.StreamReader", Chunks(chunks)))]


def cut(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [65_537, 131_072, 10_000_000], ids=str)
async def test_a_long_line_comes_whole_between_its_neighbours(size: int) -> None:
    assert await lines(*cut(b"one\n" + LONG + b"\ntwo\n", size)) == [b"one", LONG, b"two"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_lines_are_the_same_wherever_they_are_cut(size: int) -> None:
    assert await lines(*cut(b"\xc3\xa9 one\n\n  \ntwo\r\nlast", size)) == [b"\xc3\xa9 one", b"two\r", b"last"]


async def test_nothing_has_no_lines() -> None:
    assert await lines() == []
    assert await lines(b"\n", b"\n") == []


async def test_a_real_stream_refuses_such_a_line_and_this_one_reads_it() -> None:
    """The neighbour: the iteration of the library."""

    def stream() -> aiohttp.StreamReader:
        made = aiohttp.StreamReader(Mock(spec=BaseProtocol), 2**16, loop=asyncio.get_running_loop())
        made.feed_data(LONG + b"\n")
        made.feed_eof()
        return made

    with pytest.raises(LineTooLong):
        await anext(aiter(stream()))
    assert [line async for line in long_lines(stream())] == [LONG]
