"""The sessions of a console for many people: each one reads the cluster with their own token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler

from plimsoll.adapters.bearer_access import BearerAccess
from plimsoll.adapters.cluster import Cluster
from plimsoll.adapters.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console.guards.people import People
from plimsoll.console.guards.person import PERSON, Person
from plimsoll.console.sessions import Session
from plimsoll.console.settings import OPERATOR
from plimsoll.console.sources.reader import Reader
from plimsoll.domain.keys import ObjectKey

MOST_PEOPLE = 32
"""Sessions at the same time. Each holds a copy of what its person may see."""

SWEEP_SECONDS = 60.0
"""How often idle sessions are looked for."""

SESSION = web.RequestKey("plimsoll_session", Session)

logger = logging.getLogger("plimsoll.console")


class PeopleSessions:
    """Finds the session of whoever the guards let in. Its middleware :meth:`with_session` belongs after the guards.

    Args:
        server: URL of the API server.
        ca_file: certificates in PEM to verify it with; None for the system's.
        namespaces: the namespaces to show; empty for all. A person sees those of them that they may list.
        operator: the Lease of the operator's election.
    """

    def __init__(
        self, server: str, ca_file: str | None, namespaces: Sequence[str] = (), operator: ObjectKey = OPERATOR
    ) -> None:
        self._server = server
        self._ca_file = ca_file
        self._namespaces = tuple(namespaces)
        self._operator = operator
        self.people = People(self._session_for, most=MOST_PEOPLE)

    async def __aenter__(self) -> Self:
        self._sweeping = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sweeping.cancel()
        await asyncio.gather(self._sweeping, return_exceptions=True)
        await self.people.close()

    async def of(self, request: web.Request) -> Session:
        """Return the session of this request."""
        return request[SESSION]

    @web.middleware
    async def with_session(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Hold the person's session as long as the request lasts, event streams included."""
        if PERSON not in request:
            return await handler(request)
        async with self.people.session_of(request[PERSON]) as session:
            request[SESSION] = session
            return await handler(request)

    @asynccontextmanager
    async def _session_for(self, person: Person) -> AsyncIterator[Session]:
        """Open a session. The API server says who the person is; a token that it does not accept gets no session."""
        access = BearerAccess(self._server, person.token, self._ca_file)
        async with Cluster(bearer=access) as cluster:
            name = await cluster.user_name()
            async with Reader(cluster, await self._visible(cluster), operator=self._operator) as reader:
                yield Session(name, cluster, reader, access)

    async def _visible(self, cluster: Cluster) -> Sequence[str]:
        """Return the namespaces that the person may see. The names of the others are not shown either."""
        allowed = await asyncio.gather(
            *(cluster.may("list", INFERENCE_DEPLOYMENTS, ObjectKey(namespace, "")) for namespace in self._namespaces)
        )
        return [namespace for namespace, may in zip(self._namespaces, allowed, strict=True) if may]

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.people.sweep()
            except Exception:
                logger.exception("closing idle seats failed")
