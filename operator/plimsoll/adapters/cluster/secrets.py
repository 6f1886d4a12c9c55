"""Read one entry of a Secret. Each cause of failure is a separate error, with its own remedy and retry pause."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, ClusterRefused
from plimsoll.adapters.cluster.kinds import SECRETS, ObjectKind
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest

_MOST_KEYS_NAMED = 10

Get = Callable[[ObjectKind, ObjectKey], Awaitable[Manifest | None]]
"""Reads one object; None if it does not exist."""


class SecretMissing(PlimsollError):
    """The Secret, or the entry in it, does not exist yet. It may appear at any moment."""


class SecretUnreadable(PlimsollError):
    """The operator has no right to read the Secret. An admin must grant it."""


async def read_entry(get: Get, secret: ObjectKey, entry: str) -> str:
    """Return the text of one entry.

    Args:
        get: reads an object, for example :meth:`Cluster.get`.
        secret: namespace and name.
        entry: the key in its data.

    Raises:
        SecretMissing: there is no such Secret, or no text under that key.
        SecretUnreadable: the API server does not let the operator read it.
        ClusterRefused: the API server refused for another reason.
        SourceUnavailable: the API server did not answer.
    """
    try:
        found = await get(SECRETS, secret)
    except ClusterRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        raise SecretUnreadable(
            f"the operator may not read Secret {secret}. Grant its service account a Role with get on this Secret in "
            f"namespace {secret.namespace}, or give the operator a token of its own with the chart's hub.tokenSecret."
        ) from refusal
    if found is None:
        raise SecretMissing(f"Secret {secret} does not exist yet.")
    data = found.get("data") or {}
    if entry not in data:
        raise SecretMissing(f"Secret {secret} has no key {entry!r}; its keys are: {_named(sorted(data))}.")
    text = _text(data[entry])
    if not text:
        raise SecretMissing(f"Secret {secret} has no text under its key {entry!r}.")
    return text


def _named(keys: list[str]) -> str:
    more = len(keys) - _MOST_KEYS_NAMED
    return ", ".join(keys[:_MOST_KEYS_NAMED]) + (f" and {more} more" if more > 0 else "") if keys else "none"


def _text(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode().strip()
    except ValueError:
        return ""
