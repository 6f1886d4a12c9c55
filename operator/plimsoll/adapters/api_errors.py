"""What can go wrong with a request to the API server, in our own words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from plimsoll.domain.errors import PlimsollError

GONE = 404
CONFLICT = 409
TOO_MANY_REQUESTS = 429

_WORTH_ANOTHER_TRY = frozenset({408, TOO_MANY_REQUESTS, 500, 502, 503, 504})
"""Statuses that say "not now". Every request of ours may be repeated: applies, deletes by uid and named events."""

_WEBHOOK_IS_DOWN = "failed calling webhook"
"""What the API server says, with status 500, where an admission webhook must be asked and does not answer: somebody
has to mend or remove it (k8s.io/apiserver/pkg/admission/plugin/webhook/errors)."""


class ClusterRefused(PlimsollError):
    """The API server answered no. ``status`` is the HTTP status: 404 gone, 409 conflict, 403 forbidden, 422 invalid.

    ``action`` is what was asked, ``message`` the server's own sentence; ``retry_after`` the pause in seconds that it
    asks for, if it does.
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
    """The API server's own sentence, out of the Status object that it answers with; else the reason phrase."""
    try:
        return str(json.loads(str(body))["message"])
    except (TypeError, ValueError, KeyError):
        return str(reason)


def retry_after_seconds(headers: Mapping[str, Any] | None) -> float | None:
    """The ``Retry-After`` header in seconds. None where there is none, or a date: the API server sends seconds."""
    text = str((headers or {}).get("Retry-After") or "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < len("10000") else None
