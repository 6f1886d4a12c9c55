"""Writes proposals and answers approvals: after everything else of a deployment, and never in its way."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from plimsoll.adapters.cluster import APPROVALS, PROPOSALS, Cluster, ClusterRefused, Kind, NotLeading
from plimsoll.app.backoff import Backoff
from plimsoll.app.case import Case
from plimsoll.app.inbox import Mail
from plimsoll.app.store import Body, Store, key_of, uid_of
from plimsoll.domain.workload import Manifest

_GONE = 404

logger = logging.getLogger("plimsoll.postman")


@dataclass(slots=True)
class Postman:
    """Writes one deployment's mail. A write that fails stops no other one; the next pass after a pause repeats it."""

    cluster: Cluster
    store: Store
    backoff: Backoff = field(default_factory=Backoff)

    async def deliver(self, case: Case) -> None:
        """Write everything that is due. Raises :class:`NotLeading` only."""
        if case.mail.is_empty or not self.backoff.is_due(case.uid):
            return
        failures = [error for write in self._writes(case.mail) if (error := await _tried(write)) is not None]
        if not failures:
            self.backoff.succeeded(case.uid)
            return
        pause = self.backoff.failed(case.uid)
        more = "" if len(failures) == 1 else f" (and {len(failures) - 1} more)"
        logger.warning("%s: a proposal or an approval was not written: %s%s; again in %.0f s",
                       case.key, failures[0], more, pause)  # fmt: skip

    def _writes(self, mail: Mail) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield the writes. Answers come first: somebody waits for them."""
        yield from (partial(self._answer, body, status) for body, status in mail.answered)
        yield from (partial(self._delete, PROPOSALS, body) for body in mail.withdrawn)
        yield from (partial(self._post, manifest) for manifest in mail.posted)
        yield from (partial(self._delete, APPROVALS, body) for body in mail.spent)

    async def _answer(self, approval: Body, status: Mapping[str, Any]) -> None:
        try:
            written = await self.cluster.apply_status(APPROVALS, key_of(approval), uid_of(approval), status)
        except ClusterRefused as refusal:
            if refusal.status != _GONE:
                raise
            self.store.observe(APPROVALS, "DELETED", approval)
        else:
            self.store.observe(APPROVALS, "MODIFIED", written)

    async def _post(self, manifest: Manifest) -> None:
        self.store.observe(PROPOSALS, "MODIFIED", await self.cluster.apply(manifest))

    async def _delete(self, kind: Kind, body: Body) -> None:
        await self.cluster.delete(kind, key_of(body), uid_of(body))
        self.store.observe(kind, "DELETED", body)


async def _tried(write: Callable[[], Awaitable[None]]) -> Exception | None:
    """Return the error of a write; None if it succeeded."""
    try:
        await write()
    except NotLeading:
        raise
    except Exception as error:  # noqa: BLE001 - a proposal is advice: its failure must harm nothing else
        return error
    return None
