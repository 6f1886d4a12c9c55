"""Questions to the engine's own code, which need no server: its parser, its KV-cache planner, its model classes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from testbed.engine.arguments import Accepted, ParserAnswer, Refused, ask_parser
from testbed.engine.kv_capacity import KvAnswer, KvRefused, ask_kv_groups, ask_offload_regions
from testbed.engine.oracle.ask import ask
from testbed.engine.oracle.questions import Card, Question
from tests.engine.recording import Kind, Recording

MODEL: Final = "meta-llama/Llama-3.1-8B-Instruct"

OPTIONS: Final = "every option"
DEFAULTS: Final = f"what is parsed of {MODEL} alone"


def parse(recording: Recording, argument_lists: Sequence[Sequence[str]] = ()) -> ParserAnswer:
    """What the parser makes of argument lists, and every option."""
    asked = [OPTIONS, DEFAULTS, *(list(arguments) for arguments in argument_lists)]
    options, defaults, *answers = recording.answers(PARSER, asked)
    return ParserAnswer(
        tuple(
            Refused(answer["error"]) if "error" in answer else Accepted(defaults | answer["differs"])
            for answer in answers
        ),
        options,
    )


def kv_groups(recording: Recording, cases: Sequence[Mapping[str, Any]]) -> list[KvAnswer | KvRefused]:
    """What the planner makes of caches."""
    return [
        KvRefused(answer["error"])
        if "error" in answer
        else KvAnswer(**answer | {"block_bytes": tuple(answer["block_bytes"])})
        for answer in recording.answers(KV_GROUPS, [dict(case) for case in cases])
    ]


def offload_regions(recording: Recording, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """What native offloading makes of host memory, as ``testbed/engine/offload_region.py`` says it."""
    return recording.answers(OFFLOAD_REGIONS, [dict(case) for case in cases])


def asked(name: str, config: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """A question to the model classes: a name, what is in ``config.json``, and options of ``Question``."""
    return Question(config=name, folder="", **options).as_json() | {"folder": dict(config)}


def oracle(recording: Recording, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the model classes say, in rows as :func:`testbed.engine.oracle.ask.ask` gives them."""
    answers = recording.answers(ORACLE, [dict(question) for question in questions])
    return [row for rows in answers for row in rows]


def start(name: str, config: Mapping[str, Any], card: Card, arguments: Sequence[str]) -> dict[str, Any]:
    """A question whether a server would start on a card: what is in ``config.json``, and what follows the model."""
    return {"card": card.as_json(), **asked(name, config, arguments=tuple(arguments))}


def starts(recording: Recording, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the engine makes of each start: its settings, or the ``error`` that ends it."""
    return recording.answers(STARTS, [dict(question) for question in questions])


def types(recording: Recording, questions: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The type in which each start computes; None where the engine refuses it."""
    return [answer.get("dtype") for answer in recording.answers(TYPES, [dict(question) for question in questions])]


def _ask_starts(questions: Sequence[Any]) -> list[dict[str, Any]]:
    return [_kept(row, _OF_STARTS) for row in _start_rows(questions)]


def _ask_types(questions: Sequence[Any]) -> list[dict[str, Any]]:
    return [_kept(row, ("dtype",)) for row in _start_rows(questions)]


def _start_rows(questions: Sequence[Any]) -> list[dict[str, Any]]:
    """Put the questions of one card after the other: a process of the engine sees one card."""
    answers: dict[int, dict[str, Any]] = {}
    cards = {json.dumps(question["card"]): Card.from_text(json.dumps(question["card"])) for question in questions}
    for text, card in cards.items():
        mine = [number for number, question in enumerate(questions) if json.dumps(question["card"]) == text]
        with TemporaryDirectory() as scratch:
            asked_of_it = [{**questions[number]} for number in mine]
            for each in asked_of_it:
                del each["card"]
            placed = [_placed(each, Path(scratch) / str(number)) for number, each in enumerate(asked_of_it)]
            answers |= dict(zip(mine, ask(placed, card), strict=True))
    return [answers[number] for number in range(len(questions))]


def _kept(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What lasts of a row: the folder of the question is another one each time."""
    if "error" in row:
        return {"error": _FOLDER.sub("", str(row["error"]))}
    return {name: row[name] for name in names}


_OF_STARTS: Final = ("max_model_len", "max_num_batched_tokens", "whole_items", "largest_item")
_FOLDER: Final = re.compile(r"/\S+")


def _ask_parser(questions: Sequence[Any]) -> list[Any]:
    lists = [question for question in questions if not isinstance(question, str)]
    answer = ask_parser([[MODEL], *lists])
    alone, *results = answer.results
    assert isinstance(alone, Accepted), alone
    parsed = iter(results)
    told = {OPTIONS: answer.options, DEFAULTS: alone.values}
    return [
        told[question] if isinstance(question, str) else _parsed(next(parsed), alone.values) for question in questions
    ]


def _parsed(result: Accepted | Refused, defaults: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(result, Refused):
        return {"error": _AMBIGUOUS.sub(r"\1", result.error)}
    return {"differs": {name: value for name, value in result.values.items() if value != defaults.get(name)}}


def _ask_kv_groups(questions: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {"error": answer.error} if isinstance(answer, KvRefused) else asdict(answer)
        for answer in ask_kv_groups(questions)
    ]


def _ask_oracle(questions: Sequence[Any]) -> list[list[dict[str, Any]]]:
    with TemporaryDirectory() as scratch:
        placed = [_placed(question, Path(scratch) / str(number)) for number, question in enumerate(questions)]
        rows = ask(placed)
        return [_rows_of(question, rows) for question in placed]


def _placed(question: Mapping[str, Any], folder: Path) -> Question:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(question["folder"]), encoding="utf-8")
    return Question.from_json({**question, "folder": str(folder)})


def _rows_of(question: Question, rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """A refused question has one row, whatever it asks for."""
    first = next(rows)
    many = len(question.server.available_bytes) if question.server and "error" not in first else 1
    return [first, *islice(rows, many - 1)]


_AMBIGUOUS: Final = re.compile(r"(ambiguous option: \S+ could match) .*", re.DOTALL)
"""The options that it could match are not read, and there are up to all of them."""

_PASSING: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<= at )0x[0-9a-f]+")
"""An id that the engine draws anew for every parsed configuration, and the address of a function in its process."""


def _without_what_passes(answer: Any) -> Any:
    return json.loads(_PASSING.sub("", json.dumps(answer)))


PARSER: Final = Kind("parser", _ask_parser, lasting=_without_what_passes)
KV_GROUPS: Final = Kind("kv_groups", _ask_kv_groups)
OFFLOAD_REGIONS: Final = Kind("offload_regions", ask_offload_regions)
ORACLE: Final = Kind("oracle", _ask_oracle)
STARTS: Final = Kind("starts", _ask_starts)
TYPES: Final = Kind("types", _ask_types)
