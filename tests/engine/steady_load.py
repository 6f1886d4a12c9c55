"""A load that lasts as long as a test looks at it, on however fast a machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from testbed.engine.server import EngineServer

CLIENTS = 16
PROMPT_TOKENS = 1200
OUTPUT_TOKENS = 400
"""The prompts of 16 requests alone want 160 blocks of 128 tokens; a test's KV cache has 64."""


@contextmanager
def steady_load(server: EngineServer) -> Iterator[None]:
    """Clients that ask again as soon as they are answered, until the end of the block."""
    enough = threading.Event()

    def ask_on(client: int) -> None:
        asked = 0
        while not enough.is_set():
            # Different from the first byte on, so that no request reuses another's blocks.
            server.complete(f"{client}.{asked} ".ljust(PROMPT_TOKENS, chr(ord("a") + client)), OUTPUT_TOKENS)
            asked += 1

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients: list[Future[None]] = [pool.submit(ask_on, client) for client in range(CLIENTS)]
        try:
            yield
        finally:
            enough.set()
    for client in clients:
        client.result()
