"""The text of an expression as tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


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
