"""The answers of people to a proposal, and their outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.domain.times import from_rfc3339

Body = Mapping[str, Any]

_KINDS = {"CarriedOut": "good", "Rejected": "note", "Stale": "warn", "Expired": "warn"}
_SYMBOLS = {"good": "\u2713", "note": "\u25c6", "warn": "\u25b2", "muted": "\u2026"}
_NOT_YET = "The operator has not answered yet. It answers within some seconds while it runs."


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One PlacementApproval. ``state`` is the operator's answer, with its CSS class and symbol."""

    name: str
    by: str
    decision: str
    reason: str
    created: float | None
    state: str
    kind: str
    symbol: str
    message: str


def answers_of(bodies: Iterable[Body], deployment: str, proposal: str) -> tuple[AnswerLine, ...]:
    """Return the answers to one proposal of a deployment, the newest first."""
    found = [body for body in bodies if _is_about(body, deployment, proposal)]
    return tuple(sorted(map(_line, found), key=lambda line: (-(line.created or 0.0), line.name)))


def _is_about(body: Body, deployment: str, proposal: str) -> bool:
    spec = _mapping(body.get("spec"))
    return spec.get("deployment") == deployment and spec.get("proposal") == proposal


def _line(body: Body) -> AnswerLine:
    head, spec, status = body["metadata"], _mapping(body.get("spec")), _mapping(body.get("status"))
    state = str(status.get("state") or "Waiting")
    kind = _KINDS.get(state, "muted")
    return AnswerLine(
        name=str(head.get("name") or ""),
        by=str(spec.get("by") or "unknown"),
        decision=str(spec.get("decision") or "unknown"),
        reason=str(spec.get("reason") or ""),
        created=from_rfc3339(str(head.get("creationTimestamp") or "")),
        state=state,
        kind=kind,
        symbol=_SYMBOLS[kind],
        message=str(status.get("message") or _NOT_YET),
    )


def _mapping(value: Any) -> Body:
    return value if isinstance(value, Mapping) else {}
