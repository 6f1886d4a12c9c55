"""The Kopf part: watches fill the store, and background tasks run in Kopf's event loop.

Only low-level event handlers are used: they add no annotation and no finalizer to any object.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import kopf

from plimsoll.adapters.cluster import Kind
from plimsoll.app.no_diffs import NoDiffs
from plimsoll.app.settings import Settings
from plimsoll.app.shell import Shell, watched

DEEPEST_JSON = 20_000
"""Python's recursion limit for reading an object. The API server stores JSON of 10,000 levels, and one object that
Python cannot read would fail the LIST of all of them."""


def build_registry(shell: Shell) -> kopf.OperatorRegistry:
    """All handlers of the process."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: object) -> None:
        configure(settings, shell.settings)
        await shell.start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: object) -> None:
        await shell.stop()

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    for kind in watched(shell.settings):
        _watch(registry, shell, kind)
    return registry


def _watch(registry: kopf.OperatorRegistry, shell: Shell, kind: Kind) -> None:
    """Register the handler of one kind. It only passes events to the store."""

    @kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"watch-{kind.plural}")
    async def seen(event: kopf.RawEvent, **_: object) -> None:
        shell.seen(kind, event["type"], event["object"])


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
    settings.watching.chunk_size = 500
    settings.persistence.diffbase_storage = NoDiffs()
    settings.queueing.idle_timeout = 1.0
    settings.queueing.exit_timeout = 0.5
    settings.process.ultimate_exiting_timeout = 20
    for kind, selector in watched(ours).items():
        if selector is not None:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = selector


def run(settings: Settings) -> None:
    """Run the operator until it is asked to stop. Ends the process with status 1 if it must not continue."""
    sys.setrecursionlimit(DEEPEST_JSON)
    kopf.configure(verbose=settings.log_level == "DEBUG", quiet=settings.log_level in ("WARNING", "ERROR"))
    if settings.log_level != "DEBUG":
        for chatty in ("kopf.objects", "aiohttp.access"):  # a line per watch event and per probe
            logging.getLogger(chatty).setLevel(logging.WARNING)
    stop_flag = threading.Event()
    shell = Shell(settings, stop_flag.set)
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
