"""The audit log: who wrote what, in order. The ground truth about an operator's behaviour."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

SWEEPER = "system:serviceaccount:kube-system:namespace-controller"
"""Who empties a deleted namespace. It begins after five seconds, so it writes while the next tests run."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One request that the API server has answered.

    Attributes:
        user: e.g. ``system:serviceaccount:plimsoll-system:plimsoll``.
        verb: Kubernetes' verb, e.g. ``patch``.
        resource: plural, with the subresource after a slash: ``deployments/status``.
        namespace: empty for cluster-scoped objects.
        name: empty for a create whose name the server makes.
        status: HTTP status of the answer.
        timestamp: when it arrived, RFC 3339.
        body: what was sent, None for a delete without options.
    """

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    status: int
    timestamp: str
    body: Any


class AuditLog:
    """Reads a log file that the API server still writes.

    Args:
        path: ``ControlPlane.audit_log``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def offset(self) -> int:
        """Where the log ends now, to read on from there later."""
        return self._path.stat().st_size if self._path.exists() else 0

    def events(
        self,
        since: int = 0,
        *,
        user: str | None = None,
        verbs: Collection[str] = WRITES,
        resource: str | None = None,
    ) -> list[AuditEvent]:
        """Events after an offset, in order, filtered by the whole user name, verbs and the whole resource name.

        Without a user, the events of everybody but ``SWEEPER``.
        """
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(since)
            written = log.read()
        complete = written[: written.rfind(b"\n") + 1]  # the last line may be half written
        events = [read_event(json.loads(line)) for line in complete.splitlines()]
        return [
            event
            for event in events
            if (event.user == user if user else event.user != SWEEPER)
            and event.verb in verbs
            and resource in (None, event.resource)
        ]


def read_event(raw: dict[str, Any]) -> AuditEvent:
    """Take one event of ``audit.k8s.io/v1`` apart."""
    target = raw.get("objectRef") or {}
    return AuditEvent(
        user=raw["user"].get("username", ""),  # a token that is refused names nobody
        verb=raw["verb"],
        resource="/".join(part for part in (target.get("resource", ""), target.get("subresource")) if part),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        status=(raw.get("responseStatus") or {}).get("code", 0),
        timestamp=raw["requestReceivedTimestamp"],
        body=raw.get("requestObject"),
    )
