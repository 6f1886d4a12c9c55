"""Pattern matching that takes one step for each character, for every pattern.

Patterns come with a checkpoint, so a pattern must not be able to make matching slow. They are matched by Brzozowski's
derivatives (J. A. Brzozowski, "Derivatives of Regular Expressions", JACM 11(4), 1964): the derivative of an expression
by a character is the expression that the rest of the text must match. Derivatives are cached, the method also supports
intersection and complement, and it never backtracks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_EXPRESSIONS = 1_000
"""Most expressions that one pattern may expand to. Patterns of the surveyed checkpoints stay below 100."""


class TooComplexError(Exception):
    """The pattern expands to more expressions than any real pattern."""


@dataclass(frozen=True, slots=True)
class Characters:
    """A set of characters, or all but a set."""

    members: frozenset[str]
    negated: bool = False

    def __contains__(self, character: str) -> bool:
        return (character in self.members) is not self.negated


@dataclass(frozen=True, slots=True)
class _Then:
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class _Either:
    options: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Many:
    inner: int


@dataclass(frozen=True, slots=True)
class _Not:
    inner: int


@dataclass(frozen=True, slots=True)
class _Both:
    first: int
    second: int


_Expression = Characters | _Then | _Either | _Many | _Not | _Both | None

NOTHING = 0
"""Matches no text."""
EMPTY = 1
"""Matches the empty text."""
ANYTHING = 3
"""Matches every text."""

_SETTLED = (NOTHING, ANYTHING)


@dataclass(slots=True)
class Expressions:
    """The expressions of one pattern. Each has a number, and equal expressions have the same number."""

    _all: list[_Expression] = field(default_factory=list)
    _numbers: dict[_Expression, int] = field(default_factory=dict)
    _nullable: list[bool] = field(default_factory=list)
    _derivatives: dict[tuple[int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._add(None, nullable=False)
        self._add(None, nullable=True)
        any_character = self._number(Characters(frozenset(), negated=True), nullable=False)
        self._number(_Many(any_character), nullable=True)

    def characters(self, characters: Characters) -> int:
        """One character of a set."""
        return self._number(characters, nullable=False)

    def then(self, first: int, second: int) -> int:
        """One after the other."""
        if NOTHING in (first, second):
            return NOTHING
        if first == EMPTY:
            return second
        if second == EMPTY or first == second == ANYTHING:
            return first
        return self._number(_Then(first, second), nullable=self._nullable[first] and self._nullable[second])

    def either(self, *choices: int) -> int:
        """One of them."""
        options = frozenset().union(*(self._options(choice) for choice in choices)) - {NOTHING}
        if ANYTHING in options:
            return ANYTHING
        if len(options) <= 1:
            return next(iter(options), NOTHING)
        return self._number(_Either(options), nullable=any(self._nullable[option] for option in options))

    def many(self, inner: int) -> int:
        """Any number of it, none included."""
        if inner in (NOTHING, EMPTY):
            return EMPTY
        if isinstance(self._all[inner], _Many):
            return inner
        return self._number(_Many(inner), nullable=True)

    def neither(self, inner: int) -> int:
        """Every text that it does not match."""
        if inner == NOTHING:
            return ANYTHING
        if inner == ANYTHING:
            return NOTHING
        return self._number(_Not(inner), nullable=not self._nullable[inner])

    def both(self, first: int, second: int) -> int:
        """Texts that both match."""
        if NOTHING in (first, second):
            return NOTHING
        if first in (ANYTHING, second):
            return second
        if second == ANYTHING:
            return first
        return self._number(_Both(first, second), nullable=self._nullable[first] and self._nullable[second])

    def after(self, expression: int, text: str) -> int:
        """Return the expression that the rest must match after ``text`` was read.

        Raises:
            TooComplexError: the pattern expands to too many expressions.
        """
        for character in text:
            if expression in _SETTLED:
                break
            expression = self._derivative(expression, character)
        return expression

    def accepts_end(self, expression: int) -> bool:
        """Whether the text may end here."""
        return self._nullable[expression]

    def _derivative(self, expression: int, character: str) -> int:
        known = self._derivatives.get((expression, character))
        if known is None:
            known = self._derive(self._all[expression], character)
            self._derivatives[expression, character] = known
        return known

    def _derive(self, expression: _Expression, character: str) -> int:
        match expression:
            case None:
                return NOTHING
            case Characters():
                return EMPTY if character in expression else NOTHING
            case _Then():
                return self._derive_sequence(expression, character)
            case _Either(options):
                return self.either(*(self._derivative(option, character) for option in options))
            case _Many(inner):
                return self.then(self._derivative(inner, character), self.many(inner))
            case _Not(inner):
                return self.neither(self._derivative(inner, character))
            case _Both(first, second):
                return self.both(self._derivative(first, character), self._derivative(second, character))

    def _derive_sequence(self, sequence: _Then, character: str) -> int:
        """Derive a sequence with a loop, not by recursion: a sequence may be as long as its pattern."""
        found = []
        while True:
            found.append(self.then(self._derivative(sequence.first, character), sequence.second))
            if not self._nullable[sequence.first]:
                return self.either(*found)
            rest = self._all[sequence.second]
            if not isinstance(rest, _Then):
                return self.either(*found, self._derivative(sequence.second, character))
            sequence = rest

    def _options(self, expression: int) -> frozenset[int]:
        known = self._all[expression]
        return known.options if isinstance(known, _Either) else frozenset({expression})

    def _number(self, expression: _Expression, *, nullable: bool) -> int:
        known = self._numbers.get(expression)
        if known is None:
            known = self._add(expression, nullable=nullable)
            self._numbers[expression] = known
        return known

    def _add(self, expression: _Expression, *, nullable: bool) -> int:
        if len(self._all) >= MOST_EXPRESSIONS:
            raise TooComplexError
        self._all.append(expression)
        self._nullable.append(nullable)
        return len(self._all) - 1
