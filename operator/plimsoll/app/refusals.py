"""Writes of ours that the API server refused, with its own message, by object."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.decision.deployment import RefusedWrite


@dataclass(slots=True)
class Refusals:
    """The latest refusal of each object (by uid), until its writes are taken again."""

    _by_uid: dict[str, RefusedWrite] = field(default_factory=dict)

    def of(self, uid: str) -> RefusedWrite | None:
        """The current refusal of an object, or None."""
        return self._by_uid.get(uid)

    def note(self, uid: str, pool: str, error: ClusterRefused, *, of_router: bool = False) -> RefusedWrite:
        """Remember a refusal. The time of the first one in a row is kept; that of a router's is no engine's."""
        before = self._by_uid.get(uid)
        since = time.time() if before is None or before.of_router is not of_router else before.since
        refusal = RefusedWrite(error.action, pool, error.status, error.message, since, error.is_passing, of_router)
        self._by_uid[uid] = refusal
        return refusal

    def ended(self, uid: str) -> None:
        """Forget the refusal of an object: all its writes were accepted."""
        self._by_uid.pop(uid, None)

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Forget the refusals of objects that no longer exist."""
        kept = set(uids)
        for uid in [uid for uid in self._by_uid if uid not in kept]:
            del self._by_uid[uid]
