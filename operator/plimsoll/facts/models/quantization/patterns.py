"""Patterns of module names: shell wildcards, and the part of regular expressions that checkpoints use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.facts.models.quantization.automaton import ANYTHING, EMPTY, NOTHING, Characters, Expressions
from plimsoll.facts.models.quantization.pattern_reader import ANY_CHARACTER, OutsideSubsetError, PatternReader


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern, or the rest of one: ``expression`` is a number of its ``expressions``."""

    expressions: Expressions
    expression: int

    def matches(self, text: str) -> bool:
        """Whether the text matches.

        Raises:
            TooComplexError: the pattern unfolds without end.
        """
        return self.expressions.accepts_end(self.expressions.after(self.expression, text))

    def after(self, starts: Iterable[str]) -> tuple[Pattern, ...]:
        """Return the different patterns that remain after each of ``starts``, without the impossible ones.

        Raises:
            TooComplexError: the pattern unfolds without end.
        """
        left = {self.expressions.after(self.expression, start): None for start in starts}
        return tuple(Pattern(self.expressions, expression) for expression in left if expression != NOTHING)


def wildcard(text: str) -> Pattern:
    """Shell wildcards ``*``, ``?`` and ``[...]``; the whole name must match, or that of a module around it.

    Raises:
        OutsideSubsetError: a class is not closed, or the pattern is too long.
    """
    reader = PatternReader(text)
    below = reader.expressions.then(reader.expressions.characters(Characters(frozenset("."))), ANYTHING)
    expression = reader.expressions.either(EMPTY, below)
    pieces = []
    while not reader.at_end:
        character = reader.take()
        if character == "*":
            pieces.append(ANYTHING)
        elif character == "?":
            pieces.append(reader.expressions.characters(ANY_CHARACTER))
        elif character == "[":
            pieces.append(reader.expressions.characters(reader.character_class("!")))
        else:
            pieces.append(reader.expressions.characters(Characters(frozenset(character))))
    for piece in reversed(pieces):
        expression = reader.expressions.then(piece, expression)
    return Pattern(reader.expressions, expression)


def regular_expression(text: str) -> Pattern:
    """A regular expression; the name must begin with a match, as with ``re.match``.

    Raises:
        OutsideSubsetError: it uses what is not translated.
    """
    reader = PatternReader(text)
    expression = reader.alternatives(depth=0)
    if not reader.at_end:
        raise OutsideSubsetError
    return Pattern(reader.expressions, expression)
