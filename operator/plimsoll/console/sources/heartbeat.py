"""Reads the operator's Lease again and again, with the person's own rights."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.adapters.cluster.kinds import LEASES
from plimsoll.console.views.world import OperatorSign, sign_of
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey

PAUSE_SECONDS = 15.0
"""A Lease changes every few seconds. A watch of it would make every open page fetch itself again each time."""

REFUSED_SECONDS = 120.0
"""Most people may not read the Lease. They are not told whether the operator works, and it is seldom asked for."""

logger = logging.getLogger("plimsoll.console")


@dataclass(slots=True)
class Heartbeat:
    """The operator's last sign of life; ``sign`` is None until the Lease was read, and where it may not be.

    Args:
        cluster: the API server, with the person's credentials.
        lease: the Lease of the operator's election.
        on_change: called when the operator falls silent, is heard again, or may not be asked about any more.
        wall: the time of day in POSIX seconds.
    """

    cluster: Cluster
    lease: ObjectKey
    on_change: Callable[[], None]
    wall: Callable[[], float] = time.time
    sign: OperatorSign | None = None

    async def run(self) -> None:
        """Read until cancelled. Without an answer the last sign stays."""
        while True:
            pause = await self.look()
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Read once. Return the seconds until the next reading."""
        try:
            found = sign_of(self.lease, await self.cluster.get(LEASES, self.lease), self.wall())
        except ClusterRefused:
            self._put(None)
            return REFUSED_SECONDS
        except PlimsollError:
            return PAUSE_SECONDS
        except Exception:
            logger.exception("the Lease %s cannot be read", self.lease)
            return PAUSE_SECONDS
        self._put(found)
        return PAUSE_SECONDS

    def _put(self, found: OperatorSign | None) -> None:
        before, self.sign = self.sign, found
        if _state(before) != _state(found):
            self.on_change()


def _state(sign: OperatorSign | None) -> tuple[bool, bool, bool]:
    """Return what a page shows differently."""
    return sign is not None, sign is not None and sign.exists, sign is not None and sign.is_silent
