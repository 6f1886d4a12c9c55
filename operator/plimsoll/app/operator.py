"""The Kopf part: it keeps the watches going that fill the store, and background tasks run in its event loop.

No object gets an annotation or a finalizer.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import kopf

from plimsoll.adapters.cluster.client import DEEPEST_JSON, Cluster, ObjectKind
from plimsoll.adapters.cluster.watch_streams import Follower, NoObjects, WatchStreams
from plimsoll.adapters.garbage import collect_seldom
from plimsoll.app.settings import Settings
from plimsoll.app.shell import Shell, watched


def build_registry(shell: Shell) -> kopf.OperatorRegistry:
    """All handlers of the process."""
    registry, kinds = kopf.OperatorRegistry(), watched(shell.settings)
    follower = Follower(tuple(kinds), shell.began, shell.seen)

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: object) -> None:
        configure(settings, shell.settings)
        await shell.start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: object) -> None:
        await shell.stop()

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> WatchSession | None:
        found = kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
        return None if found is None else watch_session(found, follower)

    for kind in kinds:
        _watch(registry, kind)
    return registry


@dataclass(frozen=True, kw_only=True)
class WatchSession(kopf.AiohttpSession):
    """A session for Kopf, equal to another one of the same credentials.

    So Kopf notices when it gets credentials again that the API server has refused, and ends the process.
    """

    access: kopf.ConnectionInfo
    aiohttp_session: aiohttp.ClientSession = field(compare=False)


def watch_session(access: kopf.ConnectionInfo, follower: Follower) -> WatchSession:
    """Return a session like Kopf's own, in which watches are read by ``follower``, and lists are empty."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=access.as_ssl_context()),
        headers=access.as_http_headers(),
        proxy=access.proxy_url,
        trust_env=access.trust_env,
        response_class=NoObjects,
        middlewares=(WatchStreams(follower),),
    )
    return WatchSession(
        server=access.server,
        priority=access.priority,
        default_namespace=access.default_namespace,
        expiration=access.expiration,
        access=access,
        aiohttp_session=session,
    )


def _watch(registry: kopf.OperatorRegistry, kind: ObjectKind) -> None:
    """Register a handler: Kopf watches the kinds that have one. Their events are read before Kopf sees them."""

    @kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"watch-{kind.plural}")
    async def seen(**_: object) -> None:
        pass


async def _check_access() -> None:
    async with Cluster():
        pass


def configure(settings: kopf.OperatorSettings, ours: Settings) -> None:
    """Set Kopf's options. After about a minute of watch failures the process ends; Kubernetes restarts it cheaply."""
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = (0.5, 1, 2, 4, 8, 15, 15, 15)
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.inactivity_timeout = 70
    settings.watching.reconnect_backoff = 1.0
    settings.process.ultimate_exiting_timeout = 20
    for kind, selector in watched(ours).items():
        if selector is not None:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = selector


def run(settings: Settings) -> None:
    """Run the operator until it is asked to stop. Ends the process with status 1 if it must not continue.

    Raises:
        NoCluster: neither a service account nor a kubeconfig names a cluster.
    """
    asyncio.run(_check_access())  # Kopf would print a traceback, and go on
    sys.setrecursionlimit(DEEPEST_JSON)  # also before the first client of the API server is made
    kopf.configure(verbose=settings.log_level == "DEBUG", quiet=settings.log_level in ("WARNING", "ERROR"))
    if settings.log_level != "DEBUG":
        logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # a line per probe
    stop_flag = threading.Event()
    shell = Shell(settings, stop_flag.set)
    collect_seldom()
    kopf.run(
        registry=build_registry(shell),
        settings=kopf.OperatorSettings(),
        clusterwide=not settings.watch_namespaces,
        namespaces=settings.watch_namespaces,
        standalone=True,
        stop_flag=stop_flag,
    )
    if shell.ending:
        sys.exit(f"plimsoll: {shell.ending}")
