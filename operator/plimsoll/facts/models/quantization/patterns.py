"""Patterns of module names: shell wildcards, and the part of regular expressions that checkpoints use.

Regular expressions that take one step for each character, for every pattern.

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
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
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


LONGEST_PATTERN = 400
"""Characters. The longest of the surveyed checkpoints has 39."""

_DEEPEST = 8
_MOST_REPEATS = 16

_TOKEN = re.compile(
    r"""(?P<one> \\[dDwW] | \\\W | \[\^?\]?(?:\\[dw]|\\\W|(?!--|&&|~~|\|\|)[^]\\[])*\] | [^\\[(){*+?|^$] )
      | (?P<many> (?:[*+?] | \{\d\d?(?:,\d\d?)?\})\?? )
      | \(\?[:=!] | [()|^$]""",
    re.VERBOSE | re.ASCII,
)
"""One character or a class of them, a number of repetitions (lazy ones match the same names), or another sign."""

_REPETITIONS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_WILDCARD = re.compile(r"\[!?\]?[^]]*\]|.", re.DOTALL)


class OutsideSubsetError(ValueError):
    """The pattern uses an unsupported feature: back references, look-behind, flags, word boundaries."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern, or the rest of one: ``expression`` is a number of its ``expressions``."""

    expressions: Expressions
    expression: int

    def matches(self, text: str) -> bool:
        """Whether the text matches.

        Raises:
            TooComplexError: the pattern expands to too many expressions.
        """
        return self.expressions.accepts_end(self.expressions.after(self.expression, text))

    def after(self, starts: Iterable[str]) -> tuple[Pattern, ...]:
        """Return the different patterns that remain after each of ``starts``, without the impossible ones.

        Raises:
            TooComplexError: the pattern expands to too many expressions.
        """
        left = {self.expressions.after(self.expression, start): None for start in starts}
        return tuple(Pattern(self.expressions, expression) for expression in left if expression != NOTHING)


def wildcard(text: str) -> Pattern:
    """Read shell wildcards ``*``, ``?`` and ``[...]``; they match the whole name, or that of a module around it.

    Raises:
        OutsideSubsetError: a class is not closed, or the pattern is longer than any real pattern.
        TooComplexError: the pattern expands to too many expressions.
    """
    if len(text) > LONGEST_PATTERN:
        raise OutsideSubsetError
    return _Reader(_WILDCARD.sub(_as_regular, text) + r"(\..*)?$").pattern()


def regular_expression(text: str) -> Pattern:
    """Read a regular expression; the name must begin with a match, as with ``re.match``.

    Raises:
        OutsideSubsetError: the pattern uses an unsupported feature, or it is longer than any real pattern.
        TooComplexError: the pattern expands to too many expressions.
    """
    if len(text) > LONGEST_PATTERN:
        raise OutsideSubsetError
    return _Reader(text).pattern()


def _as_regular(found: re.Match[str]) -> str:
    """Return a character of a shell pattern, or a class, as a regular expression. An open class stays as it is."""
    sign = found.group()
    if sign in ("*", "?"):
        return ".*" if sign == "*" else "."
    if len(sign) == 1:
        return sign if sign == "[" else re.escape(sign)
    members = re.sub(r"[^\w-]", r"\\\g<0>", sign[1:-1].removeprefix("!"))
    return f"[^{members}]" if sign[1] == "!" else f"[{members}]"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield each token after its kind. Signs are their own kind, and the last token is empty."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise OutsideSubsetError
        yield found.lastgroup or found.group(), found.group()
        position = found.end()
    yield "", ""


class _Reader:
    def __init__(self, text: str) -> None:
        self._expressions = Expressions()
        self._left = deque(_tokens(text))

    def pattern(self) -> Pattern:
        expression = self._alternatives("", depth=0, ends_early=True)
        return Pattern(self._expressions, expression)

    def _alternatives(self, end: str, *, depth: int, ends_early: bool) -> int:
        """Read ``a|b`` up to ``end``. With ``ends_early``, any text may follow each, unless it requires the end."""
        if depth > _DEEPEST:
            raise OutsideSubsetError
        found = NOTHING
        while True:
            if depth == 0:
                self._skip("^")
            items = list(self._items(depth=depth, ends_early=ends_early))
            rest = ANYTHING if ends_early and not self._skip("$") else EMPTY
            for item in reversed(items):
                rest = item(rest)
            found = self._expressions.either(found, rest)
            if self._skip(end):
                return found
            if not self._skip("|"):
                raise OutsideSubsetError

    def _items(self, *, depth: int, ends_early: bool) -> Iterator[Callable[[int], int]]:
        """Yield the items of a sequence. Each turns the expression of the rest into that of the item and the rest."""
        while self._left[0][0] not in ("", "|", ")", "$"):
            kind, token = self._left.popleft()
            if kind in ("(?=", "(?!") and ends_early:
                ahead = self._alternatives(")", depth=depth + 1, ends_early=True)
                yield partial(self._expressions.both, self._expressions.neither(ahead) if kind == "(?!" else ahead)
            elif kind in ("(", "(?:"):
                inner = self._alternatives(")", depth=depth + 1, ends_early=False)
                yield partial(self._expressions.then, self._repeated(inner))
            elif kind == "one":
                yield partial(self._expressions.then, self._repeated(self._one(token)))
            else:
                raise OutsideSubsetError

    def _one(self, token: str) -> int:
        try:
            return self._expressions.one(re.compile(token, re.ASCII))
        except re.error:
            raise OutsideSubsetError from None

    def _repeated(self, inner: int) -> int:
        if self._left[0][0] != "many":
            return inner
        _, token = self._left.popleft()
        bounds = [int(bound) for bound in re.findall(r"\d+", token)]
        least, most = _REPETITIONS[token[0]] if not bounds else (bounds[0], bounds[-1])
        if most is not None and not least <= most <= _MOST_REPEATS:
            raise OutsideSubsetError
        found = self._expressions.many(inner) if most is None else EMPTY
        optional = self._expressions.either(EMPTY, inner)
        for _ in range((most or least) - least):
            found = self._expressions.then(optional, found)
        for _ in range(least):
            found = self._expressions.then(inner, found)
        return found

    def _skip(self, kind: str) -> bool:
        """Read past the next token if it is of this kind; whether it was."""
        found = self._left[0][0] == kind
        if found and kind:
            self._left.popleft()
        return found
