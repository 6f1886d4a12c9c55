"""Who asks, and with which view of the cluster."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol, Self

from aiohttp import web

from plimsoll.adapters.api_errors import ClusterRefused
from plimsoll.adapters.bearer_access import BearerAccess
from plimsoll.adapters.cluster import Cluster
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.reader import Reader
from plimsoll.domain.errors import SourceUnavailable


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
        """Ask the API server for the person's name. A page never waits for it."""
        with contextlib.suppress(ClusterRefused):  # an API server before 1.28 does not say it
            name = await _name(self._session.cluster)
            self._session = Session(name, self._session.cluster, self._session.reader)


async def _name(cluster: Cluster) -> str:
    """Return the person's name, however long the API server does not answer."""
    while True:
        try:
            return await cluster.user_name()
        except SourceUnavailable:
            await asyncio.sleep(_NAME_PAUSE)


_NAME_PAUSE = 5.0
"""Seconds before the person's name is asked for again."""
