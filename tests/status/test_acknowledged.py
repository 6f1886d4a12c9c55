"""Findings that people acknowledge: which may rest, for how long, and when each counts again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.status.record.acknowledged import (
    ACKNOWLEDGED,
    AcknowledgementOutcome,
    AskedAcknowledgement,
    acknowledged_by,
    answers_of,
    expiry_fault,
)
from plimsoll.status.record.reading import read
from plimsoll.status.severity import (
    Acknowledgement,
    Judged,
    LoadLine,
    Pressure,
    Severity,
    Sign,
    Signs,
    State,
    state_at,
    state_of,
)
from plimsoll.status.signs import acknowledgements_of
from tests.support.tables import every_case

LONGEST_SECONDS = 30 * 24 * 3600.0
MOST_ACKNOWLEDGED = 8

NOW = 1_800_000_000.0
UNTIL = NOW + 3600
WAITS = Judged(State.WAITS_FOR_GPUS, Severity.WAITING, Sign("False", "WaitingForGpus", "1 has no place."), serves=True)
FULL = replace(WAITS, state=State.KV_CACHE_FULL, severity=Severity.TROUBLE, why=Sign("True", "KvBound", "It is full."))
FINE = Judged(State.SERVING, Severity.FINE, Sign("True", "Serving", "Serves."), serves=True)
KNOWN = Acknowledgement("WaitingForGpus", 3, Severity.WAITING, True, "lena", UNTIL, "u1", "noon")  # noqa: FBT003
ASKED = AskedAcknowledgement("u1", "WaitingForGpus", 3, "lena", UNTIL, NOW - 60, "noon")


@every_case(
    ("judged", "generation", "at", "holds"),
    [
        pytest.param(WAITS, 3, NOW, True, id="as it was"),
        pytest.param(WAITS, 3, UNTIL, False, id="its time is over"),
        pytest.param(WAITS, 4, NOW, False, id="another spec"),
        pytest.param(replace(WAITS, severity=Severity.OUTAGE), 3, NOW, False, id="more severe"),
        pytest.param(replace(WAITS, serves=False), 3, NOW, False, id="nothing serves any more"),
        pytest.param(replace(WAITS, severity=Severity.PASSING), 3, NOW, True, id="less severe"),
        pytest.param(FULL, 3, NOW, True, id="hidden by another finding"),
        pytest.param(FINE, 3, NOW, True, id="gone for a while"),
    ],
)
def test_an_acknowledgement_ends_with_its_time_and_when_its_finding_gets_worse(
    judged: Judged,
    generation: int,
    at: float,
    holds: bool,  # noqa: FBT001 - a parameter
) -> None:
    assert KNOWN.holds(judged, generation, at) is holds


def test_only_the_finding_itself_rests() -> None:
    """One that takes its place counts, also while the first one holds."""
    conditions = {"Ready": Sign("False", "WaitingForGpus", "1 has no place."), "Available": Sign("True", "x", "y")}
    signs = Signs(conditions, generation=3, acknowledged=(KNOWN,))
    assert state_at(signs, NOW).known == KNOWN
    assert state_at(signs, UNTIL).known is None
    assert state_of(signs).known is None
    worse = replace(signs, conditions={**conditions, "Troubled": Sign("True", "KvBound", "It is full.")})
    assert (state_at(worse, NOW).finding, state_at(worse, NOW).known) == ("KvBound", None)
    assert KNOWN.words() == "WaitingForGpus is acknowledged by lena until 2027-01-15T09:00:00Z: noon"


@pytest.mark.parametrize(
    ("signs", "finding"),
    [
        (Signs({"Ready": Sign("True", "Serving", "Serves.")}), ""),
        (Signs({"Ready": Sign("True", "Serving", "Serves.")}, line=LoadLine.OVER), "OverLine"),
        (Signs({"Ready": Sign("True", "Serving", "Serves.")}, line=LoadLine.NEAR), ""),
        (Signs({"Ready": Sign("True", "Serving", "Serves.")}, pressure=Pressure(0.95, 3)), "KvBound"),
        (Signs({"Ready": Sign("False", "EnginesStarting", "Starts.")}), "EnginesStarting"),
    ],
)
def test_a_finding_has_a_word_if_an_alert_is_about_it(signs: Signs, finding: str) -> None:
    assert state_of(signs).finding == finding


@every_case(
    ("change", "judged", "kept", "outcome", "words"),
    [
        pytest.param({}, WAITS, (), "Acknowledged", "WaitingForGpus rests until 2027-01-15T09:00:00Z", id="new"),
        pytest.param({}, FULL, (), "Refused", "spec.finding: WaitingForGpus is not what is wrong. Write KvBound",
                     id="another finding"),
        pytest.param({}, FINE, (), "Refused", "spec.finding: the state is serving", id="nothing is wrong"),
        pytest.param({"generation": 2}, WAITS, (), "Stale", "It was for generation 2 of the spec, which is 3 now.",
                     id="seen with another spec"),
        pytest.param({"until": NOW - 61}, WAITS, (), "Refused", "spec.until: 2027-01-15T07:58:59Z is over", id="over"),
        pytest.param({"until": NOW + LONGEST_SECONDS}, WAITS, (), "Refused", "spec.until: 2027-02-14T08:00:00Z is more",
                     id="too far ahead"),
        pytest.param({"outcome": "Acknowledged", "until": NOW}, WAITS, (KNOWN,), "Expired", "It ended at", id="ended"),
        pytest.param({"outcome": "Acknowledged"}, FULL, (KNOWN,), "Acknowledged", "", id="hidden, and it holds"),
        pytest.param({"outcome": "Acknowledged"}, replace(WAITS, serves=False), (KNOWN,), "Stale", "WaitingForGpus got",
                     id="worse"),
        pytest.param({"outcome": "Acknowledged"}, WAITS, (), "Stale", "WaitingForGpus counts again", id="it was worse"),
    ],
)  # fmt: skip
def test_each_is_answered_with_what_to_write_instead(
    change: dict[str, Any], judged: Judged, kept: tuple[Acknowledgement, ...], outcome: str, words: str
) -> None:
    [answer] = answers_of([replace(ASKED, **change)], kept, judged, 3, NOW)
    assert (answer.outcome, answer.message[: len(words)]) == (outcome, words)
    held = acknowledged_by([answer], kept, judged)
    assert held == ((KNOWN,) if outcome == "Acknowledged" else ())


def test_the_last_acknowledgement_of_a_finding_counts_and_final_ones_are_not_answered_again() -> None:
    again = replace(ASKED, uid="u2", by="sam", until=UNTIL + 60)
    old = replace(ASKED, uid="u0", outcome="Expired")
    answers = answers_of([old, ASKED, again], (KNOWN,), WAITS, 3, NOW)
    assert [(each.asked.uid, each.outcome) for each in answers] == [
        ("u1", AcknowledgementOutcome.STALE),
        ("u2", AcknowledgementOutcome.HOLDS),
    ]
    [held] = acknowledged_by(answers, (KNOWN,), WAITS)
    assert (held.by, held.until, held.approval) == ("sam", UNTIL + 60, "u2")
    assert acknowledged_by((), (KNOWN,), WAITS) == (), "without its PlacementApproval it counts again"


def test_a_status_keeps_it_and_names_what_it_cannot_use() -> None:
    entry = {
        "finding": "WaitingForGpus", "generation": 3, "severity": "waiting", "serves": True, "by": "lena",
        "until": "2027-01-15T09:00:00Z", "approval": "u1", "reason": "noon",
    }  # fmt: skip
    record = read({"acknowledged": [entry, {**entry, "severity": "bad"}, {**entry, "until": "soon"}]})
    assert acknowledgements_of(record.status) == (KNOWN,)
    assert [each.split(":")[0] for each in record.complaints] == [
        "status.acknowledged[1] is ignored", "status.acknowledged[2] is ignored",
    ]  # fmt: skip
    assert ACKNOWLEDGED.fields(KNOWN)["severity"] == "waiting"
    many = [replace(ASKED, uid=f"u{index}", finding=f"F{chr(65 + index)}") for index in range(MOST_ACKNOWLEDGED + 2)]
    kept = tuple(replace(KNOWN, approval=each.uid, finding=each.finding) for each in many)
    assert len(acknowledged_by(answers_of(many, kept, FINE, 3, NOW), kept, FINE)) == MOST_ACKNOWLEDGED


def test_an_end_is_after_now_and_within_thirty_days() -> None:
    assert expiry_fault(NOW + 1, NOW) == expiry_fault(NOW + LONGEST_SECONDS, NOW) == ""
    assert expiry_fault(NOW, NOW) == "2027-01-15T08:00:00Z is over. Write a time before 2027-02-14T08:00:00Z"
    assert "more than 30 days ahead" in expiry_fault(NOW + LONGEST_SECONDS + 1, NOW)
