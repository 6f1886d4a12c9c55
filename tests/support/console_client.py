"""A browser without JavaScript, for the console as a process."""

from __future__ import annotations

from dataclasses import dataclass
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

from tests.support.proposals import Seen, read_html

_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Read:
    """An answer: its HTTP status, the address after redirects, and the page."""

    status: int
    url: str
    page: Seen


class ConsoleClient:
    """Enters with the printed address and keeps the cookie."""

    def __init__(self, entry: str, origin: str) -> None:
        self._origin = origin
        self._opener: OpenerDirector = build_opener(HTTPCookieProcessor(CookieJar()))
        self._send(Request(entry))  # noqa: S310 - our own loopback address

    def get(self, path: str) -> Read:
        """Open a page."""
        return self._send(Request(f"{self._origin}{path}"))  # noqa: S310 - the same

    def post(self, path: str, **form: str) -> Read:
        """Send a form as a page of the console does, and follow the redirect."""
        headers = {"Sec-Fetch-Site": "same-origin", "Origin": self._origin}
        return self._send(Request(f"{self._origin}{path}", urlencode(form).encode(), headers))  # noqa: S310 - the same

    def _send(self, request: Request) -> Read:
        request.add_header("Accept", "text/html")
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return Read(answer.status, answer.url, read_html(answer.read().decode()))
        except HTTPError as error:
            with error:
                return Read(error.code, error.url, read_html(error.read().decode()))
