"""HTTP requests with limits: a deadline for each session, a size limit for each body, a stable text for each error."""

from __future__ import annotations

import io
import time
from typing import Any

import requests
import urllib3

from plimsoll.domain.errors import SourceUnavailable

_CHUNK_BYTES = 64 * 1024
_QUOTED_CHARACTERS = 200


_REFUSALS = frozenset({requests.codes.bad_request, requests.codes.unprocessable_entity})


class QueryRefused(SourceUnavailable):
    """The server is there, but it does not take this query (HTTP 400 or 422). Another query may work."""


class LimitedSession:
    """A session for a few requests, with a time limit for all of them and a size limit for each reply.

    It does not follow redirects: the headers may carry a credential, which no other host may see. Use a session in one
    thread and for one reading; its deadline starts when it is made.

    The error texts appear in the conditions of objects. So they hold no addresses, ports or queries, which would make
    two reports of one failure differ.

    Args:
        neighbour: name of the server for the error texts: ``Prometheus``.
        timeout_seconds: for all requests of the session together.
        max_body_bytes: for each reply, after decompression.
        proxies: whether the proxies, passwords and certificates of the process's environment count.
    """

    def __init__(self, neighbour: str, *, timeout_seconds: float, max_body_bytes: int, proxies: bool = True) -> None:
        self._neighbour = neighbour
        self._timeout_seconds = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds
        self._max_body_bytes = max_body_bytes
        self._session = requests.Session()
        self._session.trust_env = proxies
        self.verify: bool | str = True
        self.cert: str | tuple[str, str] | None = None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def fetch(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        """Send one request and read the whole reply, whatever its status.

        Raises:
            SourceUnavailable: no connection, no reply in time, or a reply that is too large.
        """
        kwargs |= {"stream": True, "allow_redirects": False, "timeout": self._remaining()}
        try:
            with self._session.request(method, url, **kwargs) as response:
                body = self._read(response)
        except (requests.Timeout, urllib3.exceptions.TimeoutError) as error:
            raise self._too_slow() from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise SourceUnavailable(f"{self._neighbour} cannot be reached ({type(error).__name__})") from error
        response.raw = io.BytesIO(body)
        return response

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise self._too_slow()
        return remaining

    def _too_slow(self) -> SourceUnavailable:
        return SourceUnavailable(f"{self._neighbour} did not answer within {self._timeout_seconds:g} s")

    def _read(self, response: requests.Response) -> bytes:
        """Read the reply in pieces and check the deadline after each: a socket timeout never ends a very slow reply."""
        body = bytearray()
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self._max_body_bytes:
                raise SourceUnavailable(f"{self._neighbour} sent more than {self._max_body_bytes} bytes")
            self._remaining()
        return bytes(body)


class BoundedSession(LimitedSession):
    """A limited session for queries to Prometheus: the part of :class:`requests.Session` that PrometheusConnect uses.

    PrometheusConnect's own session has a timeout for each wait on the socket, which a server that sends byte by byte
    never reaches. It reads replies of any size, follows redirects with all headers, and its errors hold addresses.
    """

    def mount(self, prefix: str, adapter: requests.adapters.HTTPAdapter) -> None:
        """Use the adapter for addresses that begin with ``prefix``."""
        self._session.mount(prefix, adapter)

    def request(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        """Send one query and read the whole reply.

        Raises:
            QueryRefused: the server does not take the query.
            SourceUnavailable: no connection, no reply in time, a reply that is too large, another status than 200, or
                no JSON that reports success.
        """
        response = self.fetch(method, url, **kwargs)
        self._check(response)
        return response

    def _check(self, response: requests.Response) -> None:
        """Accept only status 200 with Prometheus' JSON envelope of success."""
        try:
            reply = response.json()
        except (ValueError, RecursionError):
            reply = None
        reported = reply.get("error") if isinstance(reply, dict) else None
        detail = f": {str(reported)[:_QUOTED_CHARACTERS]}" if reported else ""
        if response.status_code != requests.codes.ok:
            kind = QueryRefused if response.status_code in _REFUSALS else SourceUnavailable
            raise kind(f"{self._neighbour} answered HTTP {response.status_code}{detail}")
        if not isinstance(reply, dict):
            raise SourceUnavailable(f"{self._neighbour} did not answer with JSON")
        if reply.get("status") != "success":
            raise SourceUnavailable(f"{self._neighbour} reported an error{detail}")
