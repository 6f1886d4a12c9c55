"""Regular expressions that take one step for each character, for every pattern.

Patterns come with a checkpoint, so a pattern must not be able to make matching slow. They are matched by Brzozowski's
derivatives (J. A. Brzozowski, "Derivatives of Regular Expressions", JACM 11(4), 1964): the derivative of an expression
by a character is the expression that the rest of the text must match. Derivatives are cached, the method also supports
complement and intersection (look-ahead), and it never backtracks.

RE2 (``google-re2``) takes linear time as well, but it refuses look-ahead, which published checkpoints use, and it
cannot say which pattern remains after a prefix (:meth:`Expressions.after`). This layer needs no distribution, so that
it runs in a browser, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

MOST_EXPRESSIONS = 1_000
"""Most expressions that one pattern may expand to. Patterns of the surveyed checkpoints stay below 100."""

NOTHING, EMPTY, ANYTHING = 0, 1, 3
"""The numbers of the expressions that match no text, the empty text, and every text."""


class TooComplexError(Exception):
    """The pattern expands to more expressions than any real pattern."""


@dataclass(frozen=True, slots=True)
class _Expression:
    kind: Literal["nothing", "empty", "one", "then", "either", "many", "not"]
    parts: tuple[int, ...] = ()
    character: re.Pattern[str] | None = None


class Expressions:
    """The expressions of one pattern. Each has a number, and equal expressions have the same number."""

    def __init__(self) -> None:
        """Begin with the expressions that every pattern has."""
        self._all: list[_Expression] = []
        self._numbers: dict[_Expression, int] = {}
        self._nullable: list[bool] = []
        self._derivatives: dict[tuple[int, str], int] = {}
        self._number(_Expression("nothing"), nullable=False)
        self._number(_Expression("empty"), nullable=True)
        self.many(self.one(re.compile(r"[\s\S]")))

    def one(self, character: re.Pattern[str]) -> int:
        """One character that matches ``character``."""
        return self._number(_Expression("one", character=character), nullable=False)

    def then(self, first: int, second: int) -> int:
        """One after the other."""
        if NOTHING in (first, second):
            return NOTHING
        if first == EMPTY:
            return second
        if second == EMPTY or first == second == ANYTHING:
            return first
        nullable = self._nullable[first] and self._nullable[second]
        return self._number(_Expression("then", (first, second)), nullable=nullable)

    def either(self, *choices: int) -> int:
        """One of them."""
        options = {option for choice in choices for option in self._options(choice)} - {NOTHING}
        if ANYTHING in options:
            return ANYTHING
        if len(options) <= 1:
            return next(iter(options), NOTHING)
        nullable = any(self._nullable[option] for option in options)
        return self._number(_Expression("either", tuple(sorted(options))), nullable=nullable)

    def many(self, inner: int) -> int:
        """Any number of it, none included."""
        return self._number(_Expression("many", (inner,)), nullable=True)

    def neither(self, inner: int) -> int:
        """Every text that it does not match."""
        if inner in (NOTHING, ANYTHING):
            return NOTHING if inner == ANYTHING else ANYTHING
        if self._all[inner].kind == "not":
            return self._all[inner].parts[0]
        return self._number(_Expression("not", (inner,)), nullable=not self._nullable[inner])

    def both(self, first: int, second: int) -> int:
        """Texts that both match."""
        return self.neither(self.either(self.neither(first), self.neither(second)))

    def accepts_end(self, expression: int) -> bool:
        """Whether the text may end here."""
        return self._nullable[expression]

    def after(self, expression: int, text: str) -> int:
        """Return the expression that the rest must match after ``text`` was read.

        Raises:
            TooComplexError: the pattern expands to too many expressions.
        """
        for character in text:
            if expression in (NOTHING, ANYTHING):
                break
            expression = self._derivative(expression, character)
        return expression

    def _derivative(self, number: int, character: str) -> int:
        known = self._derivatives.get((number, character))
        if known is None:
            known = self._derivatives[number, character] = self._derive(number, character)
        return known

    def _derive(self, number: int, character: str) -> int:
        """Derive a sequence with a loop, not by recursion: a sequence may be as long as its pattern."""
        found = []
        while self._all[number].kind == "then":
            first, rest = self._all[number].parts
            found.append(self.then(self._derivative(first, character), rest))
            if not self._nullable[first]:
                return self.either(*found)
            number = rest
        return self.either(*found, self._derive_last(number, character))

    def _derive_last(self, number: int, character: str) -> int:
        expression = self._all[number]
        inner = [self._derivative(part, character) for part in expression.parts]
        match expression.kind:
            case "either":
                return self.either(*inner)
            case "many":
                return self.then(inner[0], number)
            case "not":
                return self.neither(inner[0])
            case _:
                return EMPTY if expression.character and expression.character.match(character) else NOTHING

    def _options(self, number: int) -> tuple[int, ...]:
        return self._all[number].parts if self._all[number].kind == "either" else (number,)

    def _number(self, expression: _Expression, *, nullable: bool) -> int:
        if expression not in self._numbers:
            if len(self._all) >= MOST_EXPRESSIONS:
                raise TooComplexError
            self._numbers[expression] = len(self._all)
            self._all.append(expression)
            self._nullable.append(nullable)
        return self._numbers[expression]
