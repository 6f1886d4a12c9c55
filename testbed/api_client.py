"""A plain HTTP client of the API server: no cache, safe to use from many threads.

Connections are kept: a handshake with certificates on both sides costs more than most requests. It tries again only
where the server asks for that with ``Retry-After``, e.g. while it learns a kind that has changed.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3

from testbed.certificates import KeyPair

_TIMEOUT_SECONDS = 30.0
"""Generous for a loaded machine; only a server that is away or stands still takes longer than a moment."""
_CONNECTIONS = 16
"""Kept at the same time; a thread more makes one of its own."""
_AS_THE_SERVER_ASKS = urllib3.Retry(
    total=60, connect=0, read=0, redirect=0, other=0, allowed_methods={"GET"}, raise_on_status=False
)
"""Reads only: who writes wants to see the first answer."""
AT_ONCE = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
"""Options of a DELETE after which a pod is gone, whatever its kubelet does."""
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class ApiError(RuntimeError):
    """The API server answered with an error.

    Args:
        status: HTTP status.
        message: the server's words.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


@contextmanager
def absence_is_fine() -> Iterator[None]:
    """Go on where what a request is about is not there: somebody else has deleted it meanwhile."""
    try:
        yield
    except ApiError as error:
        if error.status != http.client.NOT_FOUND:
            raise


def http_text(
    url: str,
    *,
    tls: ssl.SSLContext | None = None,
    method: str = "GET",
    body: str | None = None,
    content_type: str | None = None,
    timeout: float = _TIMEOUT_SECONDS,
) -> str:
    """One request on a connection of its own; the answer's body as text.

    Raises:
        ApiError: an error status.
        OSError: nobody answers, or not in HTTP.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port
    connection = (
        http.client.HTTPConnection(host, port, timeout=timeout)
        if parts.scheme == "http"
        else http.client.HTTPSConnection(host, port, context=tls, timeout=timeout)
    )
    try:
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, path, body, {"Content-Type": content_type} if content_type else {})
        answer = connection.getresponse()
        text = answer.read().decode()
    except http.client.HTTPException as error:
        raise ConnectionError(f"{method} {url}: {error!r}") from error
    finally:
        connection.close()
    if answer.status >= http.client.BAD_REQUEST:
        raise ApiError(answer.status, text)
    return text


class ApiClient:
    """Requests as one client certificate.

    Args:
        server: base URL.
        authority: the CA certificate to trust.
        client: certificate and key to show.
    """

    def __init__(self, server: str, authority: Path, client: KeyPair) -> None:
        self._server = server
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._tls.load_cert_chain(client.certificate, client.key)
        self._pool = urllib3.PoolManager(
            ssl_context=self._tls, retries=_AS_THE_SERVER_ASKS, timeout=_TIMEOUT_SECONDS, maxsize=_CONNECTIONS
        )

    @property
    def tls(self) -> ssl.SSLContext:
        """The trust and the certificate of this client, for other HTTP libraries."""
        return self._tls

    def health(self, url: str) -> bool:
        """Whether a health endpoint (of any component) answers well."""
        try:
            http_text(url, tls=self._tls, timeout=2)
        except (ApiError, OSError):
            return False
        return True

    def get(self, path: str, **query: str) -> Any:
        """GET a path of the API server and decode JSON. Raises like :func:`http_text`."""
        return json.loads(self._text("GET", f"{path}?{urlencode(query)}"))

    def rows(self, path: str) -> list[dict[str, Any]]:
        """The rows of ``kubectl get``, by column; far smaller than the objects. Raises like :func:`http_text`."""
        query = urlencode({"includeObject": "None", "resourceVersion": "0"})
        table = json.loads(self._text("GET", f"{path}?{query}", headers={"Accept": _TABLE}))
        names = [column["name"] for column in table["columnDefinitions"]]
        return [dict(zip(names, row["cells"], strict=True)) for row in table.get("rows") or ()]

    def count(self, path: str) -> int:
        """How many objects there are, from a list of one. Raises like :func:`http_text`."""
        page = self.get(path, limit="1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)

    def exists(self, path: str) -> bool:
        """Whether there is an object at this path. Raises like :func:`http_text`, except for 404."""
        try:
            self.get(path)
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def merge_patch(self, path: str, patch: dict[str, Any]) -> Any:
        """Send a JSON merge patch and return the object. Raises like :func:`http_text`."""
        return self.send("PATCH", path, patch, content_type="application/merge-patch+json")

    def send(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """Any other request, with a JSON body, and its decoded answer. Raises like :func:`http_text`."""
        text = None if body is None else json.dumps(body)
        return json.loads(self._text(method, path, text, {} if body is None else {"Content-Type": content_type}))

    def pods(self, label_selector: str) -> list[dict[str, Any]]:
        """Pods of every namespace that match a label selector. Raises like :func:`http_text`."""
        items: list[dict[str, Any]] = self.get("/api/v1/pods", labelSelector=label_selector)["items"]
        return items

    def cached_pods(self, label_selector: str) -> list[dict[str, Any]]:
        """The same as the API server remembers them: as cheap as can be, for whoever asks again and again.

        They may be older than the last write by a moment. Raises like :func:`http_text`.
        """
        items: list[dict[str, Any]] = self.get("/api/v1/pods", labelSelector=label_selector, resourceVersion="0")[
            "items"
        ]
        return items

    def _text(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> str:
        try:
            answer = self._pool.request(method, f"{self._server}{path}", body=body, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        text = answer.data.decode()
        if answer.status >= http.client.BAD_REQUEST:
            raise ApiError(answer.status, text)
        return text
