"""Exceptions of one object: how long they block it, and what ends them."""

from __future__ import annotations

import logging

import pytest

from plimsoll.app.backoff import FIRST_SECONDS
from plimsoll.app.faults import Faults
from plimsoll.decision.supervisor import PassStep
from plimsoll.domain.kubernetes_names import ObjectKey

CHAT = ObjectKey("ns", "chat")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("plimsoll.app.backoff.time.monotonic", lambda: now[0])
    return now


@pytest.fixture(name="counted")
def counted_steps() -> list[str]:
    return []


@pytest.fixture
def faults(counted: list[str]) -> Faults:
    return Faults(counted.append)


def test_a_fault_blocks_its_object_at_its_generation_until_the_next_try(faults: Faults, clock: list[float]) -> None:
    fault = faults.note(CHAT, "a", 3, PassStep.PLAN, KeyError("x"))
    assert faults.standing("a", 3) == faults.latest("a", 3) == fault
    assert faults.standing("a", 4) is faults.latest("a", 4) is None
    assert faults.standing("b", 3) is faults.latest("b", 3) is None
    clock[0] += FIRST_SECONDS
    assert faults.standing("a", 3) is None
    assert faults.latest("a", 3) == fault


def test_the_status_names_the_step_and_the_error(faults: Faults) -> None:
    problem = faults.note(CHAT, "a", 1, PassStep.RENDER, ValueError("lots")).problem()
    assert (problem.reason, problem.permanent) == ("RenderFailed", True)
    assert problem.message.startswith("Rendering the objects failed: ValueError: lots. Nothing of this object")


def test_a_long_error_is_cut_to_300_characters(faults: Faults) -> None:
    assert faults.note(CHAT, "a", 1, PassStep.READ, ValueError("x" * 400)).error == "ValueError: " + "x" * 288


def test_every_exception_is_counted_and_only_a_new_one_is_logged_with_its_traceback(
    faults: Faults, counted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "plimsoll.faults"):
        for error in (KeyError("x"), KeyError("x"), KeyError("y")):
            faults.note(CHAT, "a", 1, PassStep.WRITE, error)
    assert counted == ["WriteFailed"] * 3
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, True]


def test_success_clears_the_fault_and_starts_the_pauses_anew(faults: Faults, clock: list[float]) -> None:
    for _ in range(5):
        faults.note(CHAT, "a", 1, PassStep.PLAN, KeyError("x"))
    faults.cleared("a")
    assert faults.latest("a", 1) is None
    assert faults.next_due_in_seconds() is None
    faults.note(CHAT, "a", 1, PassStep.PLAN, KeyError("x"))
    clock[0] += FIRST_SECONDS
    assert faults.standing("a", 1) is None


def test_only_objects_that_exist_keep_their_faults(faults: Faults) -> None:
    for uid in ("a", "b"):
        faults.note(CHAT, uid, 1, PassStep.PLAN, KeyError("x"))
    faults.forget_all_but(["b"])
    assert faults.latest("a", 1) is None
    assert faults.latest("b", 1) is not None
    assert faults.backoff.is_due("a")


def test_the_next_try_is_that_of_the_first_object_with_a_fault(faults: Faults, clock: list[float]) -> None:
    assert faults.next_due_in_seconds() is None
    for _ in range(8):
        faults.note(CHAT, "slow", 1, PassStep.PLAN, KeyError("x"))
    clock[0] += 1
    faults.note(CHAT, "quick", 1, PassStep.PLAN, KeyError("x"))
    due = faults.next_due_in_seconds()
    assert due is not None
    assert FIRST_SECONDS / 2 <= due <= FIRST_SECONDS
