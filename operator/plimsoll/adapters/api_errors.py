"""Errors of requests to the API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from plimsoll.domain.errors import PlimsollError

FORBIDDEN = 403
GONE = 404
CONFLICT = 409
TOO_MANY_REQUESTS = 429

_WORTH_ANOTHER_TRY = frozenset({408, TOO_MANY_REQUESTS, 500, 502, 503, 504})
"""Temporary statuses, so we retry. All our requests are safe to repeat: applies, deletes by uid and named events."""

_WEBHOOK_IS_DOWN = "failed calling webhook"
"""Text of the API server's answer, with status 500, when a required admission webhook does not answer. A retry does not
help: a person must repair or remove the webhook (k8s.io/apiserver/pkg/admission/plugin/webhook/errors)."""


class ClusterRefused(PlimsollError):
    """The API server refused a request.

    ``status`` is the HTTP status: 404 gone, 409 conflict, 403 forbidden, 422 invalid.
    ``action`` is the request, ``message`` the server's own sentence. ``retry_after`` is the pause in seconds that the
    server asks for; None where it asks for none.
    """

    def __init__(self, action: str, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{action}: {status} {message}")
        self.action = action
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed a moment later."""
        return self.status in _WORTH_ANOTHER_TRY and _WEBHOOK_IS_DOWN not in self.message


class NotLeading(PlimsollError):
    """This process does not hold the lease (any more), so it must not write."""


def server_message(body: object, reason: object) -> str:
    """Return the message of the Status object in the API server's answer, or else the HTTP reason phrase."""
    try:
        return str(json.loads(str(body))["message"])
    except (TypeError, ValueError, KeyError):
        return str(reason)


def retry_after_seconds(headers: Mapping[str, Any] | None) -> float | None:
    """Return the ``Retry-After`` header in seconds. None if it is missing or a date: the API server sends seconds."""
    text = str((headers or {}).get("Retry-After") or "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < len("10000") else None
