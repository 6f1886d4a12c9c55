"""The second opinion: list every watched kind, at start and from time to time, and let the list replace the store."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping

from plimsoll.adapters.cluster import Cluster, Kind
from plimsoll.app.store import Store
from plimsoll.domain.errors import PlimsollError

RETRY_SECONDS = 5.0
"""Pause after a list that failed or was not believed."""

logger = logging.getLogger("plimsoll.relist")


async def relist_forever(
    cluster: Cluster, store: Store, kinds: Mapping[Kind, str | None], pause_seconds: float
) -> None:
    """List all kinds, wait, and again. The pause varies by a tenth so that operators do not march in step."""
    while True:
        complete = True
        for kind, selector in kinds.items():
            complete = await _relist(cluster, store, kind, selector) and complete
        spread = pause_seconds * (0.9 + 0.2 * random.random())  # noqa: S311 - spreads load, guards no secret
        await asyncio.sleep(spread if complete else RETRY_SECONDS)


async def _relist(cluster: Cluster, store: Store, kind: Kind, selector: str | None) -> bool:
    try:
        return store.replace(kind, await cluster.list(kind, labels=selector))
    except PlimsollError as error:
        logger.warning("%s; again in %.0f s", error, RETRY_SECONDS)
        return False
