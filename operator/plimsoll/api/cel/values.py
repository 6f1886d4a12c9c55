"""Operators and functions on values as JSON has them.

The text of an expression as tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any


class CelError(Exception):
    """An expression cannot be read, or has no value for this object."""


class TokenKind(StrEnum):
    """The kinds of tokens."""

    STRING = "string"
    NUMBER = "number"
    NAME = "name"
    MARK = "mark"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; the text of a string is its value."""

    kind: TokenKind
    text: str


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>r?'(?:[^'\\]|\\.)*'|r?"(?:[^"\\]|\\.)*")
    | (?P<number>\d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<mark>\|\||&&|[<>=!]=|[-+<>!.,?:()\[\]])
    )""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression. Raises :class:`CelError` at text that is none."""
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise CelError(f"unknown text at {text[position : position + 20]!r}")
        position = found.end()
        kind, word = TokenKind(found.lastgroup), found.group(found.lastgroup)
        yield Token(kind, _unquoted(word) if kind is TokenKind.STRING else word)
    yield Token(TokenKind.END, "")


def _unquoted(word: str) -> str:
    """The value of a string. A raw one (``r'...'``) keeps its backslashes."""
    if word.startswith("r"):
        return word[2:-1]
    return re.sub(r"\\(.)", lambda each: _ESCAPES.get(each.group(1), each.group(1)), word[1:-1], flags=re.DOTALL)


def field(value: Any, name: str) -> Any:
    """A field of a mapping; a field that is absent has no value."""
    if not isinstance(value, Mapping) or name not in value:
        raise CelError(f"there is no {name}")
    return value[name]


def has(value: Any, name: str) -> bool:
    """Whether a field is present."""
    if not isinstance(value, Mapping):
        raise CelError(f"there is no {name}")
    return name in value


def truth(value: Any) -> bool:
    """A boolean, and nothing else."""
    if not isinstance(value, bool):
        raise CelError(f"{value!r} is neither true nor false")
    return value


def members(value: Any) -> list[Any]:
    """The members of a list, or the keys of a mapping."""
    if not isinstance(value, list | Mapping):
        raise CelError(f"{value!r} is no list")
    return list(value)


def size(value: Any) -> int:
    """The length of a text, a list or a mapping."""
    if not isinstance(value, str | list | Mapping):
        raise CelError(f"{value!r} has no size")
    return len(value)


def matches(value: Any, pattern: Any) -> bool:
    """Whether a text contains a match of a regular expression of RE2."""
    if not isinstance(value, str) or not isinstance(pattern, str):
        raise CelError(f"{value!r} is no text")
    return _compiled(pattern).search(value) is not None


def _compiled(pattern: str) -> re.Pattern[str]:
    """RE2's classes are ASCII, and its ``$`` matches at the end alone, not before a last line break."""
    parts = re.findall(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[]", pattern, re.DOTALL)
    return re.compile("".join(r"\Z" if part == "$" else part for part in parts), re.ASCII)


def _numbers(one: Any, other: Any) -> tuple[int, int]:
    for each in (one, other):
        if isinstance(each, bool) or not isinstance(each, int):
            raise CelError(f"{each!r} is no whole number")
    return one, other


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    left, right = _numbers(one, other)
    return left + right


def _difference(one: Any, other: Any) -> int:
    left, right = _numbers(one, other)
    return left - right


def _less(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one < other
    left, right = _numbers(one, other)
    return left < right


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _within(one: Any, other: Any) -> bool:
    return any(_equal(one, each) for each in members(other))


OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "==": _equal,
        "!=": lambda one, other: not _equal(one, other),
        "<": _less,
        ">": lambda one, other: _less(other, one),
        "<=": lambda one, other: not _less(other, one),
        ">=": lambda one, other: not _less(one, other),
        "in": _within,
        "+": _sum,
        "-": _difference,
    }
)
METHODS: Mapping[str, tuple[int, Callable[..., Any]]] = MappingProxyType(
    {
        "size": (0, size),
        "matches": (1, matches),
        "startsWith": (1, lambda value, start: str(value).startswith(start)),
        "endsWith": (1, lambda value, end: str(value).endswith(end)),
        "contains": (1, lambda value, part: part in str(value)),
    }
)
"""Methods of texts and collections, each with the number of its arguments."""
