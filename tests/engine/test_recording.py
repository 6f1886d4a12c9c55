"""Is a question without a recorded answer told, and an answer that is not the recorded one?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engine.recording import Kind, Mode, Recording, key_of


class Engine:
    """Doubles numbers, plus an error, and remembers what it was asked."""

    def __init__(self, error: int = 0) -> None:
        self.asked: list[int] = []
        self._error = error

    def answer(self, questions: Sequence[Any]) -> list[int]:
        self.asked += questions
        return [2 * number + self._error for number in questions]

    @property
    def doubles(self) -> Kind:
        return Kind("doubles", self.answer)

    @property
    def about(self) -> Kind:
        """An answer lasts but for its last digit."""
        return Kind("doubles", self.answer, lambda answer: answer // 10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a recording of 2 and 20 lies."""
    recording = Recording(tmp_path / "engine-1.0", Mode.RECORD)
    assert recording.answers(Engine().doubles, [20, 2]) == [40, 4]
    recording.write()
    return tmp_path / "engine-1.0"


def test_recorded_answers_need_no_engine(folder: Path) -> None:
    engine = Engine()
    assert Recording(folder, Mode.REPLAY).answers(engine.doubles, [2, 20, 2]) == [4, 40, 4]
    assert engine.asked == []


def test_a_question_that_is_not_recorded_fails_by_name(folder: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"(?s)no answer to\n  3\n.*`make record-engine`"):
        Recording(folder, Mode.REPLAY).answers(Engine().doubles, [2, 3])


def test_a_release_without_a_recording_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="no answer to"):
        Recording(tmp_path / "engine-2.0", Mode.REPLAY).answers(Engine().doubles, [2])


def test_the_engine_is_asked_once_and_its_answer_compared(folder: Path) -> None:
    engine = Engine()
    recording = Recording(folder, Mode.ASK)
    assert recording.answers(engine.doubles, [2, 2]) == recording.answers(engine.doubles, [2, 2]) == [4, 4]
    assert engine.asked == [2]


@pytest.mark.parametrize("question", [2, 3], ids=["another answer", "a new question"])
def test_what_is_not_as_recorded_fails_by_name(folder: Path, question: int) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"(?s)not what the engine answers to\n  {question}\n"):
        Recording(folder, Mode.ASK).answers(Engine(error=1).doubles, [question])


def test_only_what_lasts_is_compared(folder: Path) -> None:
    assert Recording(folder, Mode.ASK).answers(Engine(error=1).about, [2, 20]) == [5, 41]
    with pytest.raises(pytest.fail.Exception, match=r"(?s)answers to\n  20\n"):
        Recording(folder, Mode.ASK).answers(Engine(error=10).about, [20])


def test_a_new_recording_keeps_what_lasts_and_forgets_what_is_not_asked(folder: Path) -> None:
    recording = Recording(folder, Mode.RECORD)
    recording.answers(Engine(error=1).about, [20, 3])
    recording.write()
    assert (folder / "doubles.json").read_text() == '{\n"20": 40,\n"3": 7\n}\n'


def test_long_questions_differ_by_their_end() -> None:
    long, longer = ["x" * 1000], ["x" * 1001]
    assert key_of(long) == key_of(["x" * 1000])
    assert key_of(long) != key_of(longer)
    assert max(len(key_of(long)), len(key_of(longer))) < 200
