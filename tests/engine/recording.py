"""What the pinned engine answers: recorded per release, replayed by default, and asked again where a run says so.

``PLIMSOLL_ENGINE`` decides. Unset, the recorded answers are read, and no engine is needed. ``ask`` puts every question
to the real engine, and an answer that is not the recorded one fails. ``record`` asks, too, and keeps what is answered.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pytest

RECORDED: Final = Path(__file__).with_name("recorded")
"""One folder a release, in it one file a kind of question, in it one line a question."""

LONGEST_KEY: Final = 160
"""A longer question is known by its beginning and its digest."""


class Mode(StrEnum):
    REPLAY = "replay"
    ASK = "ask"
    RECORD = "record"


def mode_now() -> Mode:
    return Mode(os.environ.get("PLIMSOLL_ENGINE") or Mode.REPLAY)


def _as_it_is(answer: Any) -> Any:
    return answer


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question.

    Attributes:
        name: of its file.
        ask: the real engine's answers, one for each question. Both are values of JSON.
        lasting: the part of an answer that is the same each time; where a text has times and addresses, not all of it.
    """

    name: str
    ask: Callable[[Sequence[Any]], Sequence[Any]]
    lasting: Callable[[Any], Any] = _as_it_is


class Recording:
    """Answers of one release, and those that were given since the start.

    Args:
        folder: the release's files.
        mode: where answers come from.
    """

    def __init__(self, folder: Path, mode: Mode) -> None:
        self._folder = folder
        self._mode = mode
        self._recorded: dict[str, dict[str, Any]] = {}
        self._given: dict[str, dict[str, Any]] = {}

    def answers(self, kind: Kind, questions: Sequence[Any]) -> list[Any]:
        """One answer a question, in order; each question is put to the engine once.

        A question without a recorded answer fails the test, and so does an answer that is not the recorded one.
        """
        asked = {key_of(question): question for question in questions}
        known = self._given.setdefault(kind.name, {})
        new = {key: question for key, question in asked.items() if key not in known}
        known |= self._replayed(kind, new) if self._mode is Mode.REPLAY else self._real(kind, new)
        return [known[key_of(question)] for question in questions]

    def write(self) -> None:
        """Keep what was answered since the start, and nothing else, in the files of the kinds that were asked."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for kind, answers in self._given.items():
            lines = ",\n".join(f"{_text(key)}: {_text(answers[key])}" for key in sorted(answers))
            self._file(kind).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")

    def _replayed(self, kind: Kind, new: Mapping[str, Any]) -> dict[str, Any]:
        recorded = self._read(kind.name)
        missing = [key for key in new if key not in recorded]
        if missing:
            pytest.fail(_told(f"{self._file(kind.name)} has no answer to", missing), pytrace=False)
        return {key: recorded[key] for key in new}

    def _real(self, kind: Kind, new: Mapping[str, Any]) -> dict[str, Any]:
        if not new:
            return {}
        given = dict(zip(new, json.loads(json.dumps(list(kind.ask(list(new.values()))))), strict=True))
        recorded = self._read(kind.name)
        same = {key for key in given if key in recorded and kind.lasting(recorded[key]) == kind.lasting(given[key])}
        if self._mode is Mode.ASK and same != set(given):
            changed = [
                f"{key}\n    recorded: {_short(kind, recorded.get(key))}\n    answered: {_short(kind, given[key])}"
                for key in given
                if key not in same
            ]
            pytest.fail(_told(f"{self._file(kind.name)} is not what the engine answers to", changed), pytrace=False)
        # What was answered before stays, so that a new recording differs where the engine does.
        return given | ({key: recorded[key] for key in same} if self._mode is Mode.RECORD else {})

    def _read(self, kind: str) -> dict[str, Any]:
        if kind not in self._recorded:
            file = self._file(kind)
            self._recorded[kind] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return self._recorded[kind]

    def _file(self, kind: str) -> Path:
        return self._folder / f"{kind}.json"


def key_of(question: Any) -> str:
    """The question itself, or its beginning and its digest."""
    text = _text(question)
    if len(text) <= LONGEST_KEY:
        return text
    return f"{text[: LONGEST_KEY // 2]}... sha256:{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _short(kind: Kind, answer: Any) -> str:
    return "nothing" if answer is None else _text(kind.lasting(answer))[:2000]


def _told(begin: str, keys: Sequence[str]) -> str:
    shown = "\n".join(f"  {key}" for key in keys[:10])
    more = f"\n  and {len(keys) - 10} more" if len(keys) > 10 else ""
    return f"{begin}\n{shown}{more}\n`make record-engine` asks the real engine and records what it answers."
