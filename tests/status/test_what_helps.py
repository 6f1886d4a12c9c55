"""Everything that is not well says what helps: of each reason it is known, and in fields that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import plimsoll
from plimsoll.api.crd.schema import root_schema
from plimsoll.app.write.executor import LONGEST_NOTE, _cut
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.public_words import ConditionReason, LiveTrouble, PublicWord
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind
from plimsoll.rebalance.diagnosis.trouble import trouble_of
from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.status.severity import Sign, Signs, State, diagnosis_words, state_of
from plimsoll.status.words.what_helps import ALL_IS_WELL, WHAT_HELPS, help_sentence, why_and_help
from tests.support.tables import every_case

PACKAGE = Path(plimsoll.__file__).parent
REASONS: tuple[PublicWord, ...] = (*ConditionReason, *StartFailure, *LiveTrouble)


@every_case("reason", REASONS)
def test_of_each_reason_either_all_is_well_or_it_is_known_what_helps(reason: PublicWord) -> None:
    assert (reason in WHAT_HELPS) is not (reason in ALL_IS_WELL)
    assert bool(help_sentence(reason)) is (reason in WHAT_HELPS)


@every_case("words", tuple(WHAT_HELPS.values()))
def test_what_helps_names_fields_that_exist(words: str) -> None:
    assert not words.endswith(".")
    for path in re.findall(r"spec(?:\.\w+)+", words):
        part: Any = root_schema()
        for name in path.split("."):
            part = part["properties"][name] if "properties" in part else part["additionalProperties"]


def test_why_comes_first_and_ends_as_a_sentence() -> None:
    said = why_and_help(ConditionReason.CREATING_PODS, "0 of 1 pod exists")
    assert said == "0 of 1 pod exists. What helps: wait a moment."
    assert why_and_help(ConditionReason.SERVING, "1 of 1 replica serves.") == "1 of 1 replica serves."
    assert why_and_help(ConditionReason.NO_GPU_FITS, "Full.", "free 1 GPU") == "Full. What helps: free 1 GPU."
    assert (
        why_and_help("ReadFailed", "It failed.") == "It failed. What helps: report this with the log of the operator."
    )


def test_an_event_that_is_too_long_keeps_what_helps() -> None:
    long = why_and_help(ConditionReason.WAITING_FOR_GPUS, "x" * 2000)
    cut = _cut(long)
    assert len(cut) == LONGEST_NOTE
    assert cut.endswith(f"... {help_sentence(ConditionReason.WAITING_FOR_GPUS)}")
    assert _cut("y" * 2000) == "y" * LONGEST_NOTE
    assert _cut("short") == "short"


def test_every_warning_event_is_made_where_what_helps_is_added() -> None:
    """A note with ``warning=True`` is made by ``notes.warning``, or its message is that of a condition."""
    found = {
        (path.name, ast.unparse(node.args[1]) if len(node.args) > 1 else "")
        for path in sorted((PACKAGE / "app").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Note"
        and any(keyword.arg == "warning" for keyword in node.keywords)
    }
    assert found == {
        ("notes.py", "why_and_help(cause or reason, why, known or helps)"),
        ("notes.py", "planned_sentence(desired.report)"),
        ("notes.py", "now['message']"),
    }


def test_the_diagnoses_that_are_trouble_have_its_words() -> None:
    troubles = {kind.value for kind in DiagnosisKind if trouble_of(kind, DecisionReason.ARRIVALS_EXCEED_CAPACITY)}
    assert troubles == {each.value for each in LiveTrouble}
    assert trouble_of(DiagnosisKind.BATCH_BOUND, DecisionReason.BATCH_LIMIT_BINDS) is None


@every_case("kind", DiagnosisKind)
def test_a_diagnosis_is_said_in_words_and_never_as_a_verdict(kind: DiagnosisKind) -> None:
    words = diagnosis_words(kind.value)
    assert words not in ("healthy", "unknown", "serving")
    assert words == words.strip()
    assert not re.search("[a-z][A-Z]", words)


def test_what_changes_nothing_and_what_is_not_diagnosed_say_so() -> None:
    assert diagnosis_words(DiagnosisKind.NOTHING_TO_CHANGE.value) == "nothing to change"
    assert diagnosis_words(DiagnosisKind.NOT_DIAGNOSED.value) == "not diagnosed"
    assert diagnosis_words(DiagnosisKind.TOO_FEW_REPLICAS.value) == "too few replicas"


@every_case("trouble", LiveTrouble)
def test_every_trouble_has_a_state(trouble: LiveTrouble) -> None:
    conditions = {"Ready": Sign("True", "Serving", ""), "Troubled": Sign("True", trouble.value, "")}
    assert state_of(Signs(conditions)).state not in (State.SERVING, State.STARTING)
