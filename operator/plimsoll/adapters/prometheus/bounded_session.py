"""HTTP requests with limits: a deadline for each reading, a size limit for each body, a stable text for each error.

The limits are those of a transport adapter, the place that requests provides for them. So a session with limits is a
:class:`requests.Session`, and a library that takes one keeps them, whatever it asks for.
"""

from __future__ import annotations

import io
import time
from functools import partial
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from typing_extensions import override

from plimsoll.adapters.garbage import read_json
from plimsoll.domain.errors import SourceUnavailable

_CHUNK_BYTES = 64 * 1024
_QUOTED_CHARACTERS = 200


_REFUSALS = frozenset({requests.codes.bad_request, requests.codes.unprocessable_entity})


class QueryRefused(SourceUnavailable):
    """The server is there, but it does not take this query (HTTP 400 or 422). Another query may work."""


class ReplyTooLarge(SourceUnavailable):
    """The reply has more bytes than are read. That to a smaller question may have fewer."""


class TooSlow(SourceUnavailable):
    """The server did not answer in time. It may answer a smaller question."""


class LimitedAdapter(HTTPAdapter):
    """A transport for a few requests, with a time limit for all of them and a size limit for each reply.

    The timeout of requests itself is one for each wait on the socket, which a server that sends byte by byte never
    reaches, and replies of any size are read. There are no retries.

    Use an adapter in one thread. Its deadline starts when it is made, and again with :meth:`begin`; its connections
    stay. A server may close one of them while it is idle, so a request that it leaves without an answer is sent once
    more. The error texts appear in the conditions of objects. So they hold no addresses, ports or queries, which would
    make two reports of one failure differ.

    Args:
        neighbour: name of the server for the error texts: ``Prometheus``.
        timeout_seconds: for all requests of one reading together.
        max_body_bytes: for each reply, after decompression.
    """

    def __init__(self, neighbour: str, *, timeout_seconds: float, max_body_bytes: int) -> None:
        super().__init__(max_retries=0)
        self.neighbour = neighbour
        self._max_body_bytes = max_body_bytes
        self._has_answered = False
        self.begin(timeout_seconds)

    def begin(self, timeout_seconds: float) -> None:
        """Begin another reading, which may take so long."""
        self._timeout_seconds = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds

    @override
    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send one request and read the whole reply, whatever its status.

        Raises:
            SourceUnavailable: no connection, no reply in time, or a reply that is too large.
        """
        send = partial(super().send, request, True, verify=verify, cert=cert, proxies=proxies)  # noqa: FBT003
        try:
            try:
                answered = send(timeout=self._remaining())
            except requests.ConnectionError as error:
                if not (self._has_answered and _is_left(error)):
                    raise
                answered = send(timeout=self._remaining())
            with answered as response:
                body = self._read(response)
        except (requests.Timeout, urllib3.exceptions.TimeoutError) as error:
            raise self._too_slow() from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise unreachable(self.neighbour, error) from error
        self._has_answered = True
        response.raw = io.BytesIO(body)
        return response

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise self._too_slow()
        return remaining

    def _too_slow(self) -> TooSlow:
        return TooSlow(f"{self.neighbour} did not answer within {self._timeout_seconds:g} s")

    def _read(self, response: requests.Response) -> bytes:
        """Read the reply in pieces and check the deadline after each: a socket timeout never ends a very slow reply."""
        body = bytearray()
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self._max_body_bytes:
                raise ReplyTooLarge(f"{self.neighbour} sent more than {self._max_body_bytes} bytes")
            self._remaining()
        return bytes(body)


class QueryAdapter(LimitedAdapter):
    """A limited transport for queries to Prometheus. It accepts only status 200 with the JSON envelope of success.

    So a session never sees a redirect, which it would follow with all headers, and a credential among them.
    """

    @override
    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send one query and read the whole reply.

        Raises:
            QueryRefused: the server does not take the query.
            SourceUnavailable: no connection, no reply in time, a reply that is too large, another status than 200, or
                no JSON that reports success.
        """
        response = super().send(request, *args, **kwargs)
        reply = _envelope(response.raw.getvalue())
        self._check(response.status_code, reply)
        response.json = lambda **_: reply  # type: ignore[method-assign]  # a reply of megabytes is parsed once
        return response

    def _check(self, status: int, reply: object) -> None:
        reported = reply.get("error") if isinstance(reply, dict) else None
        detail = f": {str(reported)[:_QUOTED_CHARACTERS]}" if reported else ""
        if status != requests.codes.ok:
            kind = QueryRefused if status in _REFUSALS else SourceUnavailable
            raise kind(f"{self.neighbour} answered HTTP {status}{detail}")
        if not isinstance(reply, dict):
            raise SourceUnavailable(f"{self.neighbour} did not answer with JSON")
        if reply.get("status") != "success":
            raise SourceUnavailable(f"{self.neighbour} reported an error{detail}")


def _is_left(error: requests.ConnectionError) -> bool:
    """Whether the server closed a connection without an answer."""
    return bool(error.args) and isinstance(error.args[0], urllib3.exceptions.ProtocolError)


def _envelope(body: bytes) -> object:
    try:
        found: object = read_json(body)
    except (ValueError, RecursionError):
        return None
    return found


def session_with(adapter: LimitedAdapter, *, proxies: bool = True) -> requests.Session:
    """Return a session whose requests all go through an adapter, and which asks for replies that are not packed.

    Args:
        adapter: the transport.
        proxies: whether the proxies, passwords and certificates of the process's environment count.
    """
    session = requests.Session()
    session.trust_env = proxies
    session.headers["Accept-Encoding"] = "identity"  # unpacking took a tenth of the processor time
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return session


def unreachable(neighbour: str, error: Exception) -> SourceUnavailable:
    """Return the error for a server that cannot be asked at all."""
    return SourceUnavailable(f"{neighbour} cannot be reached ({type(error).__name__})")
