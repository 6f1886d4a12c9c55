"""Reads patterns, character by character, into the expressions that match them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from functools import reduce
from string import ascii_letters, digits

from plimsoll.facts.models.quantization.automaton import ANYTHING, EMPTY, NOTHING, Characters, Expressions

LONGEST_PATTERN = 400
"""Characters. The longest of the surveyed checkpoints has 39."""

_DEEPEST = 8
_MOST_REPEATS = 16
_WORD = frozenset(ascii_letters + digits + "_")
_ESCAPES = {
    "d": Characters(frozenset(digits)),
    "D": Characters(frozenset(digits), negated=True),
    "w": Characters(_WORD),
    "W": Characters(_WORD, negated=True),
}
ANY_CHARACTER = Characters(frozenset(), negated=True)
"""The meaning of a dot."""


class OutsideSubsetError(ValueError):
    """The pattern uses an unsupported feature: back references, look-behind, flags, word boundaries."""


class _Mark(Enum):
    END = auto()


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A condition on the rest of the text."""

    condition: int


@dataclass(slots=True)
class PatternReader:
    """Reads one pattern, left to right.

    Raises:
        OutsideSubsetError: the pattern is longer than any real pattern.
    """

    text: str
    position: int = 0
    expressions: Expressions = field(default_factory=Expressions)

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST_PATTERN:
            raise OutsideSubsetError

    @property
    def at_end(self) -> bool:
        """Whether all of it has been read."""
        return self.position >= len(self.text)

    def sees(self, token: str) -> bool:
        """Whether the token comes next."""
        return self.text.startswith(token, self.position)

    def take(self) -> str:
        """The next character, which must be there."""
        if self.at_end:
            raise OutsideSubsetError
        self.position += 1
        return self.text[self.position - 1]

    def skip(self, token: str) -> bool:
        """Read past the token where it comes next; whether it did."""
        found = self.sees(token)
        self.position += len(token) if found else 0
        return found

    def alternatives(self, *, depth: int) -> int:
        """Read ``a|b``. Only at the outermost level may more text follow, or must the text end."""
        if depth > _DEEPEST:
            raise OutsideSubsetError
        found = self._sequence(depth=depth)
        while self.skip("|"):
            found = self.expressions.either(found, self._sequence(depth=depth))
        return found

    def _sequence(self, *, depth: int) -> int:
        if depth == 0:
            self.skip("^")
        items: list[int | _Ahead | _Mark] = []
        while not self.at_end and not self.sees("|") and not self.sees(")"):
            items.append(self._item(depth=depth))
        ends = bool(items) and items[-1] is _Mark.END
        return self._joined(items[:-1] if ends else items, EMPTY if ends or depth else ANYTHING)

    def _joined(self, items: list[int | _Ahead | _Mark], rest: int) -> int:
        for item in reversed(items):
            if isinstance(item, _Mark):
                raise OutsideSubsetError
            if isinstance(item, _Ahead):
                rest = self.expressions.both(item.condition, rest)
            else:
                rest = self.expressions.then(item, rest)
        return rest

    def _item(self, *, depth: int) -> int | _Ahead | _Mark:
        if depth == 0 and self.skip("$"):
            return _Mark.END
        if depth == 0 and (self.sees("(?!") or self.sees("(?=")):
            return self._ahead()
        return self._repeated(self._atom(depth=depth))

    def _ahead(self) -> _Ahead:
        self.position += len("(?")
        negative = self.take() == "!"
        inner = self._looked_for()
        return _Ahead(self.expressions.neither(inner) if negative else inner)

    def _looked_for(self) -> int:
        """Read alternatives within a look-ahead: any text may follow each, unless it requires the end."""
        found = NOTHING
        while True:
            items = []
            while not (self.sees("|") or self.sees(")") or self.sees("$")):
                items.append(self._repeated(self._atom(depth=1)))
            rest = EMPTY if self.skip("$") else ANYTHING
            found = self.expressions.either(found, self._joined([*items], rest))
            if self.skip(")"):
                return found
            if not self.skip("|"):
                raise OutsideSubsetError

    def _atom(self, *, depth: int) -> int:
        character = self.take()
        if character == "(":
            return self._group(depth=depth)
        if character == "[":
            return self.expressions.characters(self.character_class("^"))
        if character == ".":
            return self.expressions.characters(ANY_CHARACTER)
        if character == "\\":
            return self.expressions.characters(self._escaped())
        if character in "*+?{^$":
            raise OutsideSubsetError
        return self.expressions.characters(Characters(frozenset(character)))

    def _group(self, *, depth: int) -> int:
        if self.sees("?") and not self.skip("?:"):
            raise OutsideSubsetError
        inner = self.alternatives(depth=depth + 1)
        if not self.skip(")"):
            raise OutsideSubsetError
        return inner

    def _escaped(self) -> Characters:
        character = self.take()
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character.isalnum():
            raise OutsideSubsetError
        return Characters(frozenset(character))

    def _repeated(self, atom: int) -> int:
        """Read the quantifiers after an atom. Lazy ones match the same names; possessive ones do not always."""
        then, either, many = self.expressions.then, self.expressions.either, self.expressions.many
        if self.skip("*"):
            found = many(atom)
        elif self.skip("+"):
            found = then(atom, many(atom))
        elif self.skip("?"):
            found = either(EMPTY, atom)
        elif self.skip("{"):
            found = self._counted(atom)
        else:
            return atom
        if self.sees("+") or self.sees("*"):
            raise OutsideSubsetError
        self.skip("?")
        return found

    def _counted(self, atom: int) -> int:
        body, closed, _ = self.text[self.position :].partition("}")
        least, comma, most = body.partition(",")
        bounds = [int(bound) for bound in (least, most) if bound.isascii() and bound.isdigit() and len(bound) <= 2]  # noqa: PLR2004
        if not closed or len(bounds) != 1 + bool(comma) or not bounds[0] <= bounds[-1] <= _MOST_REPEATS:
            raise OutsideSubsetError
        self.position += len(body) + 1
        optional = self.expressions.either(EMPTY, atom)
        pieces = [atom] * bounds[0] + [optional] * (bounds[-1] - bounds[0])
        return reduce(lambda rest, piece: self.expressions.then(piece, rest), reversed(pieces), EMPTY)

    def character_class(self, negation: str) -> Characters:
        """Read the characters between brackets; the opening bracket is already read."""
        negated = self.skip(negation)
        members: set[str] = set()
        first = True
        while first or not self.sees("]"):
            first = False
            members |= self._class_members(escapes=negation == "^")
        self.position += 1
        return Characters(frozenset(members), negated)

    def _class_members(self, *, escapes: bool) -> frozenset[str]:
        character = self.take()
        if escapes and character == "\\":
            escaped = self._escaped()
            if escaped.negated:
                raise OutsideSubsetError
            if len(escaped.members) > 1:
                return escaped.members
            (character,) = escaped.members
        if self.sees("-") and not self.sees("-]"):
            self.position += 1
            last = self.take()
            if not (character.isascii() and last.isascii() and character <= last) or last == "\\":
                raise OutsideSubsetError
            return frozenset(map(chr, range(ord(character), ord(last) + 1)))
        return frozenset(character)
