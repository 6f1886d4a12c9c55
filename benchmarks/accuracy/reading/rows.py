"""Rows of other people's files: JSON lists or JSON lines, keys under several names, figures written as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cases import BadRow

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "none", "null", "")
_LISTS = ("rows", "runs", "records", "logs", "cases", "data", "oracle", "results")


class UnreadableRow(ValueError):
    """A row whose fields make no sense; the message names the field."""


class Row:
    """One row: each field may stand under any of several keys, and may be missing."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Keep the row's values by the spelling-insensitive form of their keys."""
        self._values = {_plain(key): value for key, value in values.items()}

    def first(self, *keys: str) -> Any:
        """The first value that is there and not null."""
        return next((value for key in keys if (value := self._values.get(_plain(key))) is not None), None)

    def text(self, *keys: str) -> str | None:
        """A text; an empty one counts as missing."""
        value = self.first(*keys)
        return None if value is None or not str(value).strip() else str(value).strip()

    def number(self, *keys: str) -> float | None:
        """A number, also one that is written as text with commas or a unit behind it.

        Raises:
            UnreadableRow: there is a value and it begins with no number.
        """
        value = self.first(*keys)
        if value is None or isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            return float(value)
        found = _NUMBER.match(str(value).strip())
        if found is None:
            if not str(value).strip() or str(value).strip().lower() in {"null", "none", "n/a", "na", "auto", "-"}:
                return None
            raise UnreadableRow(f"{keys[0]}: {value!r} is not a number")
        return float(found[0].replace(",", ""))

    def integer(self, *keys: str) -> int | None:
        """A number without its fraction."""
        value = self.number(*keys)
        return None if value is None else int(value)

    def flag(self, *keys: str) -> bool | None:
        """A truth value, also as 0 and 1 or as a word.

        Raises:
            UnreadableRow: the value is neither.
        """
        value = self.first(*keys)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        if word.isdigit():
            return int(word) > 1  # a degree of expert parallelism
        raise UnreadableRow(f"{keys[0]}: {value!r} is neither true nor false")


def read_rows(path: Path, bad: list[BadRow]) -> Iterator[tuple[str, Row]]:
    """Every row of a JSON list, of an object with one list, or of JSON lines; with its place in the file as a name.

    What is no JSON object is put on ``bad``.
    """
    for number, value in enumerate(_documents(path, bad), start=1):
        name = f"{path.name}:{number}"
        if isinstance(value, Mapping):
            yield name, Row(value)
        else:
            bad.append(BadRow(name, f"not a JSON object: {str(value)[:60]}"))


def _documents(path: Path, bad: list[BadRow]) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        return _lines(path, text, bad)
    if isinstance(whole, list):
        return whole
    if isinstance(whole, Mapping):
        listed = next((whole[key] for key in _LISTS if isinstance(whole.get(key), list)), None)
        return [whole] if listed is None else list(listed)
    return [whole]


def _lines(path: Path, text: str, bad: list[BadRow]) -> list[Any]:
    documents = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            documents.append(json.loads(line))
        except json.JSONDecodeError as error:
            bad.append(BadRow(f"{path.name}:{number}", f"not JSON: {error.msg}"))
    return documents


def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())
