"""A refused request, and how everything that a handler raises becomes an answer with a word, a sentence and a fix.

No answer has a traceback, and neither an answer nor the log has a token.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from html import escape
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, ClusterRefused
from plimsoll.domain.errors import InvalidInput, PlimsollError, SourceUnavailable

log = logging.getLogger("plimsoll.console")


class ConsoleRefusal(PlimsollError):
    """The console does not answer this request.

    Args:
        status: HTTP status of the answer.
        word: the reason as one word, e.g. ``UnknownHost``.
        sentence: what is wrong. It never holds a token.
        fix: what the person can do, as an imperative sentence.
        headers: further headers of the answer, e.g. ``Retry-After``.
    """

    def __init__(
        self, status: int, word: str, sentence: str, fix: str, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(f"{word}: {sentence} {fix}")
        self.status = status
        self.word = word
        self.sentence = sentence
        self.fix = fix
        self.headers = headers


Draw = Callable[[web.Request, ConsoleRefusal], str]
"""Makes the HTML page of a refusal. The console's frame has one in its own layout."""

HIDDEN = "[hidden]"
_FIRST_ERROR = 400


REFUSAL_OF: web.RequestKey[Callable[[Exception], ConsoleRefusal]] = web.RequestKey("refusal_of")
"""Says what an error of this request is to its person, and writes a defect to the log."""


def plain_page(_: web.Request, refusal: ConsoleRefusal) -> str:
    """Return a page that needs no other file."""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(refusal.word)}</title><main><h1>{escape(refusal.word)}</h1>"
        f"<p>{escape(refusal.sentence)}</p><p>{escape(refusal.fix)}</p></main></html>"
    )


def answering_errors(draw: Draw, secrets_of: Callable[[web.Request], Iterable[str]]) -> Middleware:
    """Return the middleware that answers what others raise.

    Args:
        draw: makes the page.
        secrets_of: the secrets that must not be in the log of this request's failure.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[REFUSAL_OF] = lambda error: explained(error) or failed(request, error, secrets_of(request))
        try:
            return await handler(request)
        except web.HTTPException as answer:
            if answer.status < _FIRST_ERROR:
                raise
            return answered(request, of_http(answer), draw)
        except Exception as error:  # noqa: BLE001 - a traceback is for the log, never for the browser
            return answered(request, request[REFUSAL_OF](error), draw)

    return guard


def explained(error: Exception) -> ConsoleRefusal | None:
    """Return what a person should read about an error that is expected to happen; None for a defect."""
    match error:
        case ConsoleRefusal():
            return error
        case ClusterRefused(status=401):
            return ConsoleRefusal(401, "SignedOut", "The API server does not accept this sign-in.", "Sign in again.")
        case ClusterRefused(status=403):
            return ConsoleRefusal(
                FORBIDDEN, "Forbidden", f"The API server refuses it: {error.message}.", "Ask an admin for this right."
            )
        case ClusterRefused():
            return ConsoleRefusal(
                502, "ClusterRefused", f"The API server refuses it: {error.message}.", "Load the page again."
            )
        case InvalidInput():
            return ConsoleRefusal(422, "InvalidInput", f"{error.field}: this value {error.verdict}.", error.fix)
        case SourceUnavailable():
            return ConsoleRefusal(503, "Unavailable", f"{error}.", "Load the page again in a moment.")
        case _:
            return None


def of_http(answer: web.HTTPException) -> ConsoleRefusal:
    """Return the refusal for an error of the web server, e.g. an unknown address."""
    status = HTTPStatus(answer.status)
    kept = {name: answer.headers[name] for name in ("Allow", "Retry-After") if name in answer.headers}
    word = "".join(part.capitalize() for part in status.phrase.split())
    sentence = f"{status.description or status.phrase}.".replace("..", ".")
    return ConsoleRefusal(answer.status, word, sentence, "Go back to the start page.", kept)


def failed(request: web.Request, error: Exception, secrets: Iterable[str]) -> ConsoleRefusal:
    """Write a defect to the log, without the query and without secrets, and return what the person reads."""
    trace = "".join(traceback.format_exception(error))
    for secret in secrets:
        trace = trace.replace(secret, HIDDEN) if secret else trace
    log.error("%s %s failed\n%s", request.method, request.path, trace)
    return ConsoleRefusal(
        500,
        "ConsoleFault",
        "The console has a defect: it could not make this page.",
        "Load the page again. The log of the console has the details.",
    )


def answered(request: web.Request, refusal: ConsoleRefusal, draw: Draw) -> web.Response:
    """Return the answer: a page for a browser, plain text for other clients."""
    if "text/html" in request.headers.get("Accept", ""):
        text, kind = draw(request, refusal), "text/html"
    else:
        text, kind = f"{refusal.word}: {refusal.sentence} {refusal.fix}\n", "text/plain"
    return web.Response(status=refusal.status, text=text, content_type=kind, headers=refusal.headers)
