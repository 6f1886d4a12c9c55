"""The web application: pages, static files, the event stream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from aiohttp import web

from plimsoll.console.guards import InCluster, Local, guard
from plimsoll.console.guards.errors import REFUSAL_OF, ConsoleRefusal
from plimsoll.console.guards.posts import LARGEST_FORM
from plimsoll.console.pages.live import known_pressures
from plimsoll.console.pages.routes import PAGES
from plimsoll.console.parts import in_parts
from plimsoll.console.rendering import STATIC, asset, rendered
from plimsoll.console.sessions import Session, Sessions
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.live import live_source
from plimsoll.console.streams import OPEN, OpenStreams, stream
from plimsoll.console.views.frame import frame_of
from plimsoll.console.views.proposals.inbox import counts_of
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import ConsolePage, Redirect, Tools, View, Visit

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
_MENU = [(view.path, view.word) for view in PAGES if view.word]
_FOR_EVER = "public, max-age=31536000, immutable"


def make_app(
    sessions: Sessions, settings: ConsoleSettings, guards: Local | InCluster, tools: Tools | None = None
) -> web.Application:
    """Return the application. ``guards`` say who may ask for what; ``tools`` are made from the settings by default."""
    app = web.Application(client_max_size=LARGEST_FORM)
    guard(app, guards, lambda request, refusal: error_text(request.path, refusal))
    app[OPEN] = OpenStreams()
    tools = tools or Tools(settings, live=live_source(settings.prometheus_url or ""))
    app.cleanup_ctx.append(_reading(sessions, tools))
    app.on_shutdown.append(_end_streams)
    for view in (each for each in PAGES if settings.allow_approvals or not each.writes):
        app.router.add_route(view.method, view.path, partial(_answer, view=view, sessions=sessions, tools=tools))
    app.router.add_get("/stream", partial(stream, sessions=sessions))
    app.router.add_get("/healthz", _healthy)
    app.router.add_get("/static/{digest}/{name}", _static)
    return app


def _reading(sessions: Sessions, tools: Tools) -> Callable[[web.Application], AsyncIterator[None]]:
    async def context(_: web.Application) -> AsyncIterator[None]:
        try:
            async with sessions:
                yield
        finally:
            tools.live.close()

    return context


async def _end_streams(app: web.Application) -> None:
    await app[OPEN].end()


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _static(request: web.Request) -> web.Response:
    """Return a static file. Its address has its digest: another digest is another file."""
    name = request.match_info["name"]
    known = {each.name for each in STATIC.iterdir()}
    if name not in known or request.path != asset(name):
        raise web.HTTPNotFound
    kind = _TYPES.get(name[name.rindex(".") :], "application/octet-stream")
    return web.Response(
        body=(STATIC / name).read_bytes(), content_type=kind, charset="utf-8", headers={"Cache-Control": _FOR_EVER}
    )


async def _answer(request: web.Request, view: View, sessions: Sessions, tools: Tools) -> web.StreamResponse:
    visit = await _visit(request, await sessions.of(request), tools)
    if view.meanwhile is not None:
        return await _in_parts(request, view, view.meanwhile, visit)
    found = await view.handler(visit)
    if isinstance(found, Redirect):
        raise web.HTTPSeeOther(found.to)
    return web.Response(text=page_text(found, visit, request.path_qs), status=found.status, content_type="text/html")


async def _in_parts(
    request: web.Request, view: View, meanwhile: Callable[[Visit], ConsolePage], visit: Visit
) -> web.StreamResponse:
    """Answer with a page whose answer may take long."""

    async def whole() -> str:
        found = await view.handler(visit)
        assert isinstance(found, ConsolePage)  # noqa: S101 - only an answer to a proposal leads elsewhere
        return page_text(found, visit, request.path_qs)

    def refused(error: Exception) -> str:
        return rendered("refused.html", refusal=request[REFUSAL_OF](error))

    return await in_parts(
        request, whole(), lambda: page_text(meanwhile(visit), visit, request.path_qs), view.progress, refused
    )


async def _visit(request: web.Request, session: Session, tools: Tools) -> Visit:
    form = {key: str(value) for key, value in (await request.post()).items()} if request.method == "POST" else {}
    return Visit(
        path=request.path,
        query={key: tuple(request.query.getall(key)) for key in request.query},
        parts=dict(request.match_info),
        person=session.person,
        world=session.reader.world,
        cluster=session.cluster,
        tools=tools,
        now=time.time(),
        form=form,
        bearer=session.bearer,
    )


def page_text(page: ConsolePage, visit: Visit, here: str) -> str:
    """Return the HTML of a page with its frame. ``here`` is the address that a live page is fetched from again."""
    counts = counts_of(visit.world, visit.now, known_pressures(visit))
    frame = frame_of(visit.world, visit.path, _MENU, counts, visit.now)
    return rendered(
        page.template,
        **page.values,
        title=page.title,
        here=here,
        is_live=page.is_live,
        menu=frame.menu,
        freshness=frame.freshness,
        banners=frame.banners,
        person=visit.person,
        scope=visit.world.namespaces,
        allow_approvals=visit.tools.settings.allow_approvals,
        now=visit.now,
        world=visit.world,
    )


def error_text(path: str, refusal: ConsoleRefusal) -> str:
    """Return the page of a refusal, with the navigation. It shows nothing of the cluster."""
    frame = frame_of(ClusterView(), path, _MENU, {}, 0.0)
    return rendered(
        "error.html",
        refusal=refusal,
        title=refusal.word,
        here=path,
        is_live=False,
        menu=frame.menu,
        freshness=None,
        banners=(),
        person="",
        scope=(),
        allow_approvals=False,
    )
