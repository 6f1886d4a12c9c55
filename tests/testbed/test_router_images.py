"""The way to a picker's ports: a connection that the picker resets is not kept open for the proxy that waits there."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from functools import partial

from testbed.kubelet.router_images import pass_on
from tests.support.eventually import HANG_SECONDS

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

AT_ONCE = struct.pack("ii", 1, 0)
"""``SO_LINGER`` of no seconds: closing resets the connection."""


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End a connection as a server of TLS may do to one that speaks plain text."""
    await reader.read(1)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.transport.abort()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(100))
    writer.close()


def test_a_connection_that_is_reset_ends_on_both_sides_and_another_is_answered() -> None:
    asyncio.run(asyncio.wait_for(both_ways(), HANG_SECONDS))


async def both_ways() -> None:
    assert await asked(refuse) == b""
    assert await asked(echo) == b"hello"


async def asked(answer: Answer) -> bytes:
    """Return all that comes back of a picker that answers so."""
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as picker:
        port = picker.sockets[0].getsockname()[1]
        async with await asyncio.start_server(partial(pass_on, port=port), "127.0.0.1", 0) as way:
            reader, writer = await asyncio.open_connection("127.0.0.1", way.sockets[0].getsockname()[1])
            writer.write(b"hello")
            came = await reader.read()
            writer.close()
            return came
