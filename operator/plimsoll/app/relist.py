"""The second opinion: list every watched kind, at start and from time to time, and let the list replace the store."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from contextlib import suppress

from plimsoll.adapters.cluster import Cluster, Kind
from plimsoll.app.store import Store
from plimsoll.domain.errors import PlimsollError

RETRY_SECONDS = 5.0
"""Pause after a list that failed or was not believed."""

SETTLE_SECONDS = 1.0
"""Watches break together: one list for all of them is enough."""

logger = logging.getLogger("plimsoll.relist")


async def relist_forever(
    cluster: Cluster, store: Store, kinds: Mapping[Kind, str | None], pause_seconds: float, broken: asyncio.Event
) -> None:
    """List all kinds, wait, and again. The pause varies by a tenth so that operators do not march in step.

    ``broken`` ends the pause: a watch had to start over, and what was deleted meanwhile it will never tell.
    """
    while True:
        broken.clear()
        complete = True
        for kind, selector in kinds.items():
            complete = await _relist(cluster, store, kind, selector) and complete
        spread = pause_seconds * (0.9 + 0.2 * random.random())  # noqa: S311 - spreads load, guards no secret
        with suppress(TimeoutError):
            await asyncio.wait_for(broken.wait() if complete else asyncio.sleep(RETRY_SECONDS), spread)
            await asyncio.sleep(SETTLE_SECONDS)


async def _relist(cluster: Cluster, store: Store, kind: Kind, selector: str | None) -> bool:
    known = store.uids(kind)
    try:
        return store.replace(kind, await cluster.list(kind, labels=selector), known)
    except PlimsollError as error:
        logger.warning("%s; again in %.0f s", error, RETRY_SECONDS)
        return False
