"""The documents of a text, read one by one: a broken one is reported and does not hide those after it.

Texts are not trusted, so nesting and aliases are limited. A few lines of aliases of aliases can stand for gigabytes,
and libyaml ends the whole process on brackets that are nested deeply enough.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

MAX_DEPTH = 100
"""Collections within collections; Kubernetes' own objects have about ten."""

MAX_ALIASED = 100_000
"""Values that the aliases of one document may stand for, all together."""

# libyaml is several times as fast; the wheels of PyYAML have it, some distributions' packages do not.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BETWEEN = re.compile(r"^---(?=\s|$)", re.MULTILINE)
"""YAML forbids such a line inside a document, in block and quoted scalars too."""


_TOO_DEEP = "nesting depth"
"""The words of PyYAML about too many levels, from 6.0.4 on: it stops at 1,000 of them, and before us."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document and its number in the text, from 1; empty ones are not counted."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class Broken:
    """A document that cannot be read, and the place of the error if the parser reports one."""

    number: int
    problem: str
    at: str = ""

    @property
    def why(self) -> str:
        """The error as a sentence."""
        return f"It is not YAML{self.at}: {self.problem}."


class _Refused(ValueError):
    """The text is YAML, but its nesting or its aliases are not allowed."""


def read_documents(text: str, *, is_json: bool = False) -> Iterator[Document | Broken]:
    """Every document that is not empty, in order; JSON has only one.

    Args:
        text: the content of a file.
        is_json: report errors in JSON's terms. Text that begins like a JSON object is read as JSON in any case.
    """
    for number, (line, chunk) in enumerate(_chunks(text), start=1):
        try:
            values = _values(chunk, is_json=is_json)
        except json.JSONDecodeError as error:
            yield Broken(number, f"as JSON, {error.msg}", f" at line {line + error.lineno}, column {error.colno}")
        except yaml.YAMLError as error:
            yield Broken(number, _problem(error), _place(error, line, chunk))
        except RecursionError:
            yield Broken(number, f"it nests more than {MAX_DEPTH} levels")
        except ValueError as error:  # a date or number that Python cannot hold, or a refusal of ours
            yield Broken(number, str(error))
        else:
            for value in values:
                yield Document(number, value)


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text of each document with the number of lines before it; documents without content are left out."""
    starts = [0, *(match.start() for match in _BETWEEN.finditer(text)), len(text)]
    pending = ""
    for begin, end in pairwise(starts):
        chunk = text[begin:end]
        written = [line for line in chunk.removeprefix("---").splitlines() if line.strip() and line.lstrip()[0] != "#"]
        if written and all(line.startswith("%") for line in written):
            pending = chunk  # directives belong to the document that follows
        elif written and written != ["..."]:
            yield text.count("\n", 0, begin - len(pending)), pending + chunk
            pending = ""


def _values(chunk: str, *, is_json: bool) -> list[Any]:
    """The values of one chunk; more than one only if `...` ends the first."""
    if is_json or chunk.lstrip().startswith("{"):
        try:
            return [json.loads(chunk)]
        except json.JSONDecodeError:
            if is_json:
                raise
    _refuse_bombs(chunk)
    return [value for value in yaml.load_all(chunk, Loader=_LOADER) if value is not None]


def _refuse_bombs(chunk: str) -> None:
    """Count the values that the parser's events stand for. The cost grows only with the length of the text."""
    sizes: dict[str, int] = {}
    open_anchors: list[str | None] = []
    open_sizes = [0]
    aliased = 0
    for event in yaml.parse(chunk, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in open_anchors:
                raise _Refused(f"the alias *{event.anchor} stands for itself")
            aliased += sizes.get(str(event.anchor), 0)
            if aliased > MAX_ALIASED:
                raise _Refused(f"its aliases stand for more than {MAX_ALIASED} values")
            open_sizes[-1] += sizes.get(str(event.anchor), 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_anchors) == MAX_DEPTH:
                raise _Refused(f"it nests more than {MAX_DEPTH} levels")
            open_anchors.append(event.anchor)
            open_sizes.append(1)
        elif isinstance(event, yaml.CollectionEndEvent):
            _close(open_anchors.pop(), open_sizes, sizes)
        elif isinstance(event, yaml.ScalarEvent):
            open_sizes.append(1)
            _close(event.anchor, open_sizes, sizes)


def _close(anchor: str | None, open_sizes: list[int], sizes: dict[str, int]) -> None:
    """Add the innermost value to the one around it, and remember its size under its anchor."""
    size = open_sizes.pop()
    open_sizes[-1] += size
    if anchor is not None:
        sizes[anchor] = size


def _problem(error: yaml.YAMLError) -> str:
    """The parser's error message, without its excerpts of the text."""
    said = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).strip()
    return f"it nests more than {MAX_DEPTH} levels" if _TOO_DEEP in said else said


def _place(error: yaml.YAMLError, line: int, chunk: str) -> str:
    """Line and column of the mistake, counted in the whole text."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f" at line {line + mark.line + 1}, column {mark.column + 1}"
    position = getattr(error, "position", None)
    return "" if position is None else f" at line {line + chunk.count(chr(10), 0, position) + 1}"
