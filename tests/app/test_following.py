"""Kopf keeps the watches going, and has nothing else to do."""

from __future__ import annotations

import kopf

from plimsoll.adapters.cluster.watch_streams import Follower
from plimsoll.app.operator import WatchSession, build_registry, watch_session
from plimsoll.app.settings import Settings
from plimsoll.app.shell import Shell


def test_no_handler_reads_changed_fields() -> None:
    registry = build_registry(Shell(Settings(), lambda: None))
    kinds = {name: getattr(registry, name).get_all_handlers() for name in ("_watching", "_changing", "_spawning")}
    assert kinds.pop("_watching")
    assert not any(kinds.values())


async def test_kopf_notices_the_credentials_that_were_refused() -> None:
    def session(token: str) -> WatchSession:
        access = kopf.ConnectionInfo(server="https://any.example", token=token)
        return watch_session(access, Follower((), print, print))

    first, again, other = session("a"), session("a"), session("b")
    assert first == again
    assert first != other
    for each in (first, again, other):
        await each.aiohttp_session.close()
