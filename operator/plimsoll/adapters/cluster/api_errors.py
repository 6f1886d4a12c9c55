"""Errors of requests to the API server, and the retries of one request.

The pauses follow the server's ``Retry-After``, and the total time is limited.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from plimsoll.domain.errors import PlimsollError, SourceUnavailable

FORBIDDEN = 403
GONE = 404
CONFLICT = 409
TOO_MANY_REQUESTS = 429

_WORTH_ANOTHER_TRY = frozenset({408, TOO_MANY_REQUESTS, 500, 502, 503, 504})
"""Temporary statuses, so we retry. All our requests are safe to repeat: applies, deletes by uid and named events."""

_WEBHOOK_IS_DOWN = "failed calling webhook"
"""Text of the API server's answer, with status 500, when a required admission webhook does not answer. A retry does not
help: a person must repair or remove the webhook (k8s.io/apiserver/pkg/admission/plugin/webhook/errors)."""

_PRECONDITION = "precondition"
"""A word of the API server's answers, with status 409, when the object has another uid than the one that is named
(k8s.io/apiserver: ``Preconditions.Check`` in pkg/storage/interfaces.go, ``BeforeDelete`` in
pkg/registry/rest/delete.go)."""


class ClusterRefused(PlimsollError):
    """The API server refused a request.

    ``status`` is the HTTP status: 404 gone, 409 conflict, 403 forbidden, 422 invalid.
    ``action`` is the request, ``message`` the server's own sentence. ``retry_after`` is the pause in seconds that the
    server asks for; None if it asks for none.
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

    @property
    def says_gone(self) -> bool:
        """Whether there is no such object, or another one of its name. A conflict alone says nothing of that."""
        return self.status == GONE or (self.status == CONFLICT and _PRECONDITION in self.message.lower())


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


T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits on the tries of one request: ``total_seconds`` from the first try to the start of the last one.

    ``reach_seconds`` is the same for a server that cannot be reached, and the most for opening a connection; None: such
    a server has the time of all others.
    """

    total_seconds: float = 30.0
    tries: int = 8
    reach_seconds: float | None = None


OF_PEOPLE = Patience(reach_seconds=2.0)
"""Of a person at a terminal: a wrong address is said at once, and a busy server is waited for."""

IMPATIENT = Patience(total_seconds=0.0, tries=1)
"""One try only: for a request that the caller repeats soon anyway."""


async def patiently(attempt: Callable[[], Awaitable[T]], patience: Patience) -> T:
    """Retry until there is an answer that another try would not change, or until the limits are reached.

    Raises:
        ClusterRefused: the last refusal.
        SourceUnavailable: the last failure to reach the server.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    end = begun + patience.total_seconds
    unreached = end if patience.reach_seconds is None else begun + patience.reach_seconds
    for number in range(1, patience.tries + 1):
        try:
            return await attempt()
        except ClusterRefused as refusal:
            if not refusal.is_passing or number == patience.tries:
                raise
            pause = _pause(number, refusal.retry_after)
            if loop.time() + pause > end:
                raise
        except SourceUnavailable:
            pause = _pause(number, None)
            if number == patience.tries or loop.time() + pause > unreached:
                raise
        await asyncio.sleep(pause)
    raise AssertionError("patience ends with an answer or an error")


def _pause(number: int, asked: float | None) -> float:
    """Return the pause before the next try: the server's plus a little, or else doubled each time with jitter."""
    if asked is not None:
        return asked + random.random() / 4  # noqa: S311 - spreads retries, guards no secret
    ceiling = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (number - 1))
    return ceiling * (0.5 + random.random() / 2)  # noqa: S311 - same
