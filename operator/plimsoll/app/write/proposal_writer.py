"""Writes proposals and answers approvals: after everything else of a deployment, and never in its way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from plimsoll.adapters.cluster.api_errors import GONE, ClusterRefused, NotLeading
from plimsoll.adapters.cluster.client import APPROVALS, PROPOSALS, Cluster, ObjectKind
from plimsoll.app.backoff import Backoff
from plimsoll.app.plan.inbox import ProposalWrites
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.watch.store import Body, Store, key_of, uid_of
from plimsoll.domain.requests.workload import Manifest

_ORPHANS = ""
"""Stands for the uid of a deployment in the pauses after failures."""

logger = logging.getLogger("plimsoll.proposals")


@dataclass(slots=True)
class ProposalWriter:
    """Writes one deployment's outbox. A write that fails stops no other one; the next pass after a pause repeats it."""

    cluster: Cluster
    store: Store
    backoff: Backoff = field(default_factory=Backoff)
    _answering: asyncio.Task[None] | None = None

    async def deliver(self, desired: Desired) -> None:
        """Write everything about one deployment that is due. Raises :class:`NotLeading` only."""
        await self._deliver(desired.outbox, desired.uid, str(desired.key))

    def answer(self, orphans: ProposalWrites) -> None:
        """Begin to answer approvals that name no deployment, if the last such answers are written."""
        if not orphans.is_empty and (self._answering is None or self._answering.done()):
            self._answering = asyncio.create_task(self._answer_orphans(orphans))

    async def close(self) -> None:
        """Cancel what is not written; the next start repairs it."""
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.gather(self._answering, return_exceptions=True)

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Forget the failures of deployments that no longer exist."""
        self.backoff.forget_all_but({*uids, _ORPHANS})

    async def _answer_orphans(self, orphans: ProposalWrites) -> None:
        with suppress(NotLeading):
            await self._deliver(orphans, _ORPHANS, "approvals without a deployment")

    async def _deliver(self, outbox: ProposalWrites, uid: str, about: str) -> None:
        if outbox.is_empty or not self.backoff.is_due(uid):
            return
        failures = [error for write in self._writes(outbox) if (error := await _tried(write)) is not None]
        if not failures:
            self.backoff.succeeded(uid)
            return
        pause = self.backoff.failed(uid)
        more = "" if len(failures) == 1 else f" (and {len(failures) - 1} more)"
        logger.warning(
            "%s: a proposal or an approval was not written: %s%s; again in %.0f s", about, failures[0], more, pause
        )

    def _writes(self, outbox: ProposalWrites) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield the writes. Answers come first: somebody waits for them."""
        yield from (partial(self._answer, body, status) for body, status in outbox.answered)
        yield from (partial(self._delete, PROPOSALS, body) for body in outbox.withdrawn)
        yield from (partial(self._post, manifest) for manifest in outbox.posted)
        yield from (partial(self._delete, APPROVALS, body) for body in outbox.spent)

    async def _answer(self, approval: Body, status: Mapping[str, Any]) -> None:
        stored = self.store.get(APPROVALS, key_of(approval))
        known = stored if stored is not None and uid_of(stored) == uid_of(approval) else approval
        try:
            written = await self.cluster.put_status(APPROVALS, known, status)
        except ClusterRefused as refusal:
            if refusal.status != GONE:
                raise
            self.store.observe(APPROVALS, "DELETED", approval)
        else:
            self.store.observe(APPROVALS, "MODIFIED", written)

    async def _post(self, manifest: Manifest) -> None:
        self.store.observe(PROPOSALS, "MODIFIED", await self.cluster.apply(manifest))

    async def _delete(self, kind: ObjectKind, body: Body) -> None:
        await self.cluster.delete(kind, key_of(body), uid_of(body))
        self.store.observe(kind, "DELETED", body)


async def _tried(write: Callable[[], Awaitable[None]]) -> Exception | None:
    try:
        await write()
    except NotLeading:
        raise
    except Exception as error:  # noqa: BLE001 - a proposal is advice: its failure must harm nothing else
        return error
    return None
