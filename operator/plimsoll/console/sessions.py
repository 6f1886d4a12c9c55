"""Who asks, and with which view of the cluster.

The sessions of a console for many people: each one reads the cluster with their own token.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, Self

from aiohttp import web
from aiohttp.typedefs import Handler

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.bearer_access import BearerAccess
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console.guards.people import PersonSessions
from plimsoll.console.guards.person import PERSON, Person
from plimsoll.console.settings import OPERATOR, ConsoleSettings
from plimsoll.console.sources.reader import Reader
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey


@dataclass(frozen=True, slots=True)
class Session:
    """One person at the console: the user name, the API server with the person's credentials, and what was read.

    ``bearer`` are the credentials of a person who signed in; None for the person of a kubeconfig.
    """

    person: str
    cluster: Cluster
    reader: Reader
    bearer: BearerAccess | None = None


class Sessions(Protocol):
    """Finds the session of a request."""

    async def of(self, request: web.Request) -> Session:
        """Return the session of whoever sent the request. Raises aiohttp's HTTPUnauthorized for nobody."""
        ...

    async def __aenter__(self) -> Self:
        """Begin to read."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Stop reading."""
        ...


class OneSession:
    """The local console: everybody who has the cookie is the person of the kubeconfig."""

    def __init__(self, settings: ConsoleSettings, fallback: str) -> None:
        self._settings = settings
        self._fallback = fallback
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        cluster = await self._stack.enter_async_context(Cluster(self._settings.kubeconfig, self._settings.context))
        fallback = (self._fallback,) if self._fallback else ()
        reader = Reader(cluster, self._settings.namespaces, fallback, self._settings.operator)
        self._session = Session("", cluster, await self._stack.enter_async_context(reader))
        naming = asyncio.create_task(self._learn_name())
        self._stack.callback(naming.cancel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def of(self, request: web.Request) -> Session:  # noqa: ARG002 - one person, whatever is asked
        """Return the only session."""
        return self._session

    async def _learn_name(self) -> None:
        """Ask for the person's name, however long the API server does not answer. A page never waits for it."""
        with contextlib.suppress(ClusterRefused):  # an API server before 1.28 does not say it
            while True:
                try:
                    name = await self._session.cluster.user_name()
                except SourceUnavailable:
                    await asyncio.sleep(_NAME_PAUSE)
                else:
                    self._session = replace(self._session, person=name)
                    return


_NAME_PAUSE = 5.0
"""Seconds before the person's name is asked for again."""


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
        self.people = PersonSessions(self._session_for, most=MOST_PEOPLE)

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
