"""Findings that people know of: what may be acknowledged, for how long, and what a status keeps of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from plimsoll.api.v1alpha1.status import AcknowledgedStatus
from plimsoll.domain.units import to_rfc3339
from plimsoll.status.record.forms import Field, Form, Unusable, number, time, unless
from plimsoll.status.severity import Acknowledgement, Judged, Severity

LONGEST_SECONDS = 30 * 24 * 3600.0
"""How long a finding may rest: what is known for longer is to be mended, or not to be asked for."""

MOST_ACKNOWLEDGED = 8
"""The most acknowledgements in a status. The oldest go first."""


def _severity(word: str) -> Severity:
    found = {each.name.lower(): each for each in Severity}
    if word not in found:
        raise Unusable(f"severity {word!r} is none of {', '.join(found)}")
    return found[word]


ACKNOWLEDGED = Form(
    Acknowledgement,
    AcknowledgedStatus,
    generation=number("generation", 0),
    severity=Field("severity", lambda severity: severity.name.lower(), _severity),
    until=time("until"),
    reason=unless("reason", ""),
)


class AcknowledgementOutcome(StrEnum):
    """The state of a PlacementApproval that acknowledges a finding. All but HOLDS are final."""

    HOLDS = "Acknowledged"
    REFUSED = "Refused"
    STALE = "Stale"
    EXPIRED = "Expired"


@dataclass(frozen=True, slots=True)
class AskedAcknowledgement:
    """A PlacementApproval that acknowledges a finding. Times are POSIX seconds.

    ``outcome`` is empty until the operator has answered it.
    """

    uid: str
    finding: str
    generation: int
    by: str
    until: float
    created: float
    reason: str = ""
    outcome: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it has no final outcome yet."""
        return self.outcome in ("", AcknowledgementOutcome.HOLDS)


@dataclass(frozen=True, slots=True)
class AcknowledgementAnswer:
    """The outcome of one of them, as a word and as a sentence."""

    asked: AskedAcknowledgement
    outcome: AcknowledgementOutcome
    message: str


def expiry_fault(until: float, now: float) -> str:
    """Return what is wrong with an end, and what to write instead; empty if nothing is. Both are POSIX seconds."""
    latest = to_rfc3339(now + LONGEST_SECONDS)
    if until <= now:
        return f"{to_rfc3339(until)} is over. Write a time before {latest}"
    if until > now + LONGEST_SECONDS:
        return f"{to_rfc3339(until)} is more than 30 days ahead. Write a time before {latest}"
    return ""


def finding_fault(finding: str, judged: Judged) -> str:
    """Return what is wrong with a finding's word, and what to write instead; empty if it is the one that stands."""
    if not judged.finding:
        return f"the state is {judged.state}, so there is nothing to acknowledge"
    if finding == judged.finding:
        return ""
    return f"{finding} is not what is wrong. Write {judged.finding}: its state is {judged.state}"


def answers_of(
    asked: Sequence[AskedAcknowledgement], known: Sequence[Acknowledgement], judged: Judged, generation: int, now: float
) -> tuple[AcknowledgementAnswer, ...]:
    """Return the outcome of every open one, the oldest first.

    Args:
        asked: those of one deployment, the oldest first.
        known: what its status keeps.
        judged: its state now.
        generation: that of its spec.
        now: POSIX seconds.
    """
    kept = {each.approval: each for each in known}
    last = {each.finding: each.uid for each in asked if each.is_open}
    return tuple(
        _answer(each, kept.get(each.uid), judged, generation, now, is_last=last[each.finding] == each.uid)
        for each in asked
        if each.is_open
    )


def _answer(
    asked: AskedAcknowledgement,
    kept: Acknowledgement | None,
    judged: Judged,
    generation: int,
    now: float,
    *,
    is_last: bool,
) -> AcknowledgementAnswer:
    outcome = AcknowledgementOutcome
    if not is_last:
        return AcknowledgementAnswer(asked, outcome.STALE, f"Somebody acknowledged {asked.finding} again, later.")
    if fault := expiry_fault(asked.until, asked.created):
        return AcknowledgementAnswer(asked, outcome.REFUSED, f"spec.until: {fault} into another PlacementApproval.")
    if now >= asked.until:
        return AcknowledgementAnswer(asked, outcome.EXPIRED, f"It ended at {to_rfc3339(asked.until)}.")
    if asked.generation != generation:
        words = f"It was for generation {asked.generation} of the spec, which is {generation} now."
        return AcknowledgementAnswer(asked, outcome.STALE, words)
    if kept is None and asked.outcome:
        words = f"{asked.finding} counts again: it got worse, or the status has lost its entry."
        return AcknowledgementAnswer(asked, outcome.STALE, words)
    if kept is None and (fault := finding_fault(asked.finding, judged)):
        return AcknowledgementAnswer(asked, outcome.REFUSED, f"spec.finding: {fault}.")
    if kept is not None and not kept.holds(judged, generation, now):
        return AcknowledgementAnswer(asked, outcome.STALE, f"{asked.finding} got worse, so it counts again.")
    words = f"{asked.finding} rests until {to_rfc3339(asked.until)}, or until it gets worse or the spec changes."
    return AcknowledgementAnswer(asked, outcome.HOLDS, words)


def acknowledged_by(
    answers: Sequence[AcknowledgementAnswer], known: Sequence[Acknowledgement], judged: Judged
) -> tuple[Acknowledgement, ...]:
    """Return what the status keeps after these answers."""
    return tuple(_held(answers, {each.approval: each for each in known}, judged))[-MOST_ACKNOWLEDGED:]


def _held(
    answers: Sequence[AcknowledgementAnswer], kept: dict[str, Acknowledgement], judged: Judged
) -> Iterator[Acknowledgement]:
    for answer in answers:
        asked = answer.asked
        if answer.outcome is AcknowledgementOutcome.HOLDS:
            yield kept.get(asked.uid) or Acknowledgement(
                asked.finding,
                asked.generation,
                judged.severity,
                judged.serves,
                asked.by,
                asked.until,
                asked.uid,
                asked.reason,
            )
