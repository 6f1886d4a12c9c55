"""Creates many objects fast: a few connections that stay open, so that the measurement itself costs little."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from testbed.control_plane import ControlPlane

AT_ONCE = 8
_CREATED = 201


def put_all(plane: ControlPlane, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """POST every body to its path, several at once, in this order.

    Raises:
        RuntimeError: the API server refused one.
    """
    asyncio.run(_put_all(plane, requests))


async def _put_all(plane: ControlPlane, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    waiting = iter(requests)
    connector = aiohttp.TCPConnector(limit=AT_ONCE, ssl=plane.client.tls)
    async with aiohttp.ClientSession(plane.server, connector=connector) as session:

        async def worker() -> None:
            for path, body in waiting:
                async with session.post(path, json=body) as answer:
                    if answer.status != _CREATED:
                        raise RuntimeError(f"POST {path}: {answer.status} {await answer.text()}")

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
