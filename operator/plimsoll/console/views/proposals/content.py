"""The content of a PlacementProposal as far as it can be read: anybody with enough rights may have written it.

The answers of people to a proposal, and their outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from plimsoll.api.crd.inbox_schema import STATE_LABEL
from plimsoll.api.v1alpha1.inbox import ProposalContent, ProposalState
from plimsoll.console.views.rows import key_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import from_rfc3339

Body = Mapping[str, Any]

_FIELDS = tuple(field.alias or name for name, field in ProposalContent.model_fields.items())

_UNREAD: Body = {
    "deployment": "unknown",
    "id": "0" * 12,
    "generation": 0,
    "change": "unknown",
    "summary": "unknown",
    "reason": "unknown",
    "message": "",
    "bill": {"summary": "unknown"},
    "createdAt": "",
    "expiresAt": "",
}
"""These stand if a field that a proposal must have cannot be read. Such a proposal cannot be answered."""


@dataclass(frozen=True, slots=True)
class Content:
    """The readable fields of a proposal. ``complaints`` name the others.

    ``state`` is the value of its label. ``expires`` is in POSIX seconds; None if it is no time.
    """

    key: ObjectKey
    fields: ProposalContent
    state: str
    expires: float | None
    complaints: tuple[str, ...] = ()

    @property
    def deployment(self) -> ObjectKey:
        """The deployment that would be changed."""
        return ObjectKey(self.key.namespace, self.fields.deployment)

    def state_at(self, now: float) -> str:
        """Return Open, Approved, Rejected or Expired at this time (POSIX seconds); another label as it is."""
        return "Expired" if self.expires is not None and self.expires <= now else self.state

    def is_answerable(self, now: float) -> bool:
        """Whether a person can decide it: it is read as a whole, and it has not expired."""
        known = {each.value for each in ProposalState}
        return not self.complaints and self.state_at(now) in known


def content_of(body: Body) -> Content:
    """Return everything of a proposal that can be read."""
    fields, complaints = _read({name: body[name] for name in _FIELDS if name in body})
    labels, expires = body["metadata"].get("labels") or {}, from_rfc3339(fields.expires_at)
    if expires is None and not complaints:
        complaints = ("expiresAt is left out: it is no time",)
    return Content(
        key_of(body),
        fields,
        str(labels.get(STATE_LABEL) or "unknown"),
        expires,
        complaints,
    )


def _read(raw: dict[str, Any]) -> tuple[ProposalContent, tuple[str, ...]]:
    try:
        return _whole(raw), ()
    except ValidationError as error:
        faults = {str(each["loc"][0]): each["msg"] for each in error.errors(include_url=False, include_input=False)}
    usable = {name: value for name, value in raw.items() if name not in faults}
    return _whole({**_UNREAD, **usable}), tuple(f"{name} is left out: {why}" for name, why in faults.items())


def _whole(raw: Body) -> ProposalContent:
    return ProposalContent.model_validate(raw, extra="ignore", by_alias=True, by_name=False)


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
