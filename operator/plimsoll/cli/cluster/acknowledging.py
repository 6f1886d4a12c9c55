"""``plimsoll acknowledge``: which finding is meant, until when, and the object that acknowledges it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.api.v1alpha1.inbox import PlacementApprovalSpec, Verdict
from plimsoll.cli.cluster.answering import approval_body
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import API_VERSION, APPROVAL_PLURAL, KIND, ObjectKey
from plimsoll.domain.units import from_rfc3339, to_rfc3339
from plimsoll.status.record.acknowledged import expiry_fault, finding_fault
from plimsoll.status.record.reading import record_of, whole_status
from plimsoll.status.severity import state_of
from plimsoll.status.signs import signs_of

Body = Mapping[str, Any]

_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
_FORM = "Write how long (30m, 4h or 3d) or a time (2026-01-31T08:00:00Z), at most 30 days ahead."


@dataclass(frozen=True, slots=True)
class FindingAnswer:
    """The wish of a person: ``until`` is a time or how long. ``finding`` is its word; None for the one that stands."""

    deployment: str
    until: str
    namespace: str | None = None
    finding: str | None = None
    reason: str | None = None


def end_of(text: str, now: float) -> float:
    """Return the end that somebody wrote, in POSIX seconds, as ``now`` is.

    Raises:
        InvalidInput: it is no time, over, or too far ahead.
    """
    length = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", text.strip())
    until = from_rfc3339(text.strip()) if length is None else now + int(length[1]) * _SECONDS[length[2]]
    if until is None:
        raise InvalidInput("--until", text, _FORM)
    if fault := expiry_fault(until, now):
        raise InvalidInput("--until", text, f"{fault}.")
    return until


def acknowledgement(answer: FindingAnswer, body: Body, by: str, now: float) -> PlacementApprovalSpec:
    """Return what is asked of the cluster by somebody who acknowledges what is wrong with a deployment.

    Raises:
        InvalidInput: nothing is wrong, another finding is named, or the end cannot be used.
    """
    head = body["metadata"]
    judged = state_of(signs_of(whole_status(record_of(body)), head))
    finding = answer.finding or judged.finding
    if fault := finding_fault(finding, judged):
        field, value = ("NAME", answer.deployment) if answer.finding is None else ("--finding", answer.finding)
        raise InvalidInput(field, value, f"{fault[0].upper()}{fault[1:]}.")
    return PlacementApprovalSpec(
        deployment=answer.deployment,
        decision=Verdict.ACKNOWLEDGE,
        finding=finding,
        generation=head["generation"],
        until=to_rfc3339(end_of(answer.until, now)),
        by=by,
        reason=answer.reason or None,
    )


def acknowledgement_body(spec: PlacementApprovalSpec, deployment: Body) -> dict[str, Any]:
    """Return the PlacementApproval. It ends with its deployment."""
    head = deployment["metadata"]
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": head["name"], "uid": head["uid"]}
    return approval_body(_document(spec), head["namespace"], [owner])


def _document(spec: PlacementApprovalSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class GivenAcknowledgement:
    """An acknowledgement that the cluster has taken: its spec, and the PlacementApproval's key."""

    spec: PlacementApprovalSpec
    key: ObjectKey

    @property
    def message(self) -> str:
        """Return a sentence about the outcome."""
        spec = self.spec
        return f"{spec.by} acknowledged {spec.finding} of {spec.deployment} until {spec.until}."

    def text(self) -> str:
        """Return what was done, how to follow it, and how to take it back."""
        where = f"{APPROVAL_PLURAL} {self.key.name} -n {self.key.namespace}"
        return f"{self.message}\nTo see the outcome: kubectl get {where} -o wide\nTo end it: kubectl delete {where}"

    def document(self) -> dict[str, Any]:
        """The same as data."""
        about = {"namespace": self.key.namespace, **_document(self.spec)}
        return about | {"approval": self.key.name, "message": self.message}
