"""Lines of a stream, however long they are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp


async def long_lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream without their ends.

    The reader's own iteration refuses lines beyond its buffer (128 KiB), and an object of Kubernetes may have 1.5 MiB
    (https://etcd.io/docs/latest/dev-guide/limit/).
    """
    rest = b""
    async for chunk in stream.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
    if rest.strip():
        yield rest
