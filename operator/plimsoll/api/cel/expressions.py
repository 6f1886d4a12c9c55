"""Turns the text of an expression into a function of its variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from plimsoll.api.cel.values import (
    METHODS,
    OPERATORS,
    CelError,
    Token,
    TokenKind,
    field,
    has,
    members,
    size,
    tokens,
    truth,
)

Scope = Mapping[str, Any]
Expression = Callable[[Scope], Any]

_LITERALS = {"true": True, "false": False, "null": None}
_RELATIONS = frozenset({"==", "!=", "<", ">", "<=", ">=", "in"})
_MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})


@lru_cache(maxsize=1024)
def expression(text: str) -> Expression:
    """Read an expression once.

    Raises:
        CelError: it is none, or uses a part of the language that no rule has used so far.
    """
    reader = _Reader(list(tokens(text)))
    found = reader.choice()
    if reader.ahead().kind is not TokenKind.END:
        raise CelError(f"unexpected {reader.ahead().text!r} in {text!r}")
    return found


class _Reader:
    """A recursive-descent parser: one method for each level of precedence, the weakest first."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0

    def ahead(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _accepts(self, *words: str) -> str | None:
        token = self.ahead()
        if token.kind in (TokenKind.MARK, TokenKind.NAME) and token.text in words:
            return self._take().text
        return None

    def _expect(self, word: str) -> None:
        if self._accepts(word) is None:
            raise CelError(f"{word!r} is missing before {self.ahead().text!r}")

    def choice(self) -> Expression:
        condition = self._either()
        if self._accepts("?") is None:
            return condition
        chosen = self._either()
        self._expect(":")
        other = self.choice()
        return lambda scope: chosen(scope) if truth(condition(scope)) else other(scope)

    def _either(self) -> Expression:
        left = self._both()
        while self._accepts("||"):
            left = _decided_by(True, left, self._both())  # noqa: FBT003 - the value itself
        return left

    def _both(self) -> Expression:
        left = self._relation()
        while self._accepts("&&"):
            left = _decided_by(False, left, self._relation())  # noqa: FBT003 - the value itself
        return left

    def _relation(self) -> Expression:
        left = self._sum()
        while word := self._accepts(*_RELATIONS):
            left = _binary(word, left, self._sum())
        return left

    def _sum(self) -> Expression:
        left = self._unary()
        while word := self._accepts("+", "-"):
            left = _binary(word, left, self._unary())
        return left

    def _unary(self) -> Expression:
        if self._accepts("!"):
            inner = self._unary()
            return lambda scope: not truth(inner(scope))
        if self._accepts("-"):
            number = self._unary()
            return lambda scope: OPERATORS["-"](0, number(scope))
        return self._member()

    def _member(self) -> Expression:
        value = self._primary()
        while self._accepts("."):
            name = self._take().text
            value = self._call(value, name) if self._accepts("(") else _field(value, name)
        return value

    def _call(self, value: Expression, name: str) -> Expression:
        if name in _MACROS:
            variable = self._take().text
            self._expect(",")
            body = self.choice()
            self._expect(")")
            return _macro(name, value, variable, body)
        arguments = self._list(")")
        count, method = METHODS.get(name, (-1, size))
        if count != len(arguments):
            raise CelError(f"there is no method {name} with {len(arguments)} arguments")
        return lambda scope: method(value(scope), *(each(scope) for each in arguments))

    def _list(self, end: str) -> list[Expression]:
        found: list[Expression] = []
        while self._accepts(end) is None:
            if found:
                self._expect(",")
            found.append(self.choice())
        return found

    def _primary(self) -> Expression:
        token = self._take()
        if token.kind is TokenKind.STRING:
            return lambda _: token.text
        if token.kind is TokenKind.NUMBER:
            number = int(token.text)
            return lambda _: number
        if token.kind is TokenKind.MARK and token.text == "(":
            inner = self.choice()
            self._expect(")")
            return inner
        if token.kind is TokenKind.MARK and token.text == "[":
            entries = self._list("]")
            return lambda scope: [each(scope) for each in entries]
        if token.kind is TokenKind.NAME:
            return self._named(token.text)
        raise CelError(f"unexpected {token.text!r}")

    def _named(self, name: str) -> Expression:
        if name in _LITERALS:
            return lambda _: _LITERALS[name]
        if name == "has" and self._accepts("("):
            return self._has()
        if name == "size" and self._accepts("("):
            (argument,) = self._list(")")
            return lambda scope: size(argument(scope))
        return lambda scope: field(scope, name)

    def _has(self) -> Expression:
        """The macro ``has(a.b.c)``: everything before the last dot must have a value."""
        names = [self._take().text]
        while self._accepts("."):
            names.append(self._take().text)
        self._expect(")")
        owner: Expression = lambda scope: field(scope, names[0])  # noqa: E731 - extended below
        for name in names[1:-1]:
            owner = _field(owner, name)
        return lambda scope: has(owner(scope), names[-1])


def _field(value: Expression, name: str) -> Expression:
    return lambda scope: field(value(scope), name)


def _binary(word: str, left: Expression, right: Expression) -> Expression:
    work = OPERATORS[word]
    return lambda scope: work(left(scope), right(scope))


def _decided_by(decisive: bool, left: Expression, right: Expression) -> Expression:  # noqa: FBT001 - the value itself
    """``||`` or ``&&``: one side with the decisive value is enough, even if the other one has no value."""

    def decide(scope: Scope) -> bool:
        try:
            first = truth(left(scope))
        except CelError:
            if truth(right(scope)) is decisive:
                return decisive
            raise
        return first if first is decisive else truth(right(scope))

    return decide


def _macro(name: str, value: Expression, variable: str, body: Expression) -> Expression:
    def each(scope: Scope) -> list[tuple[Any, Any]]:
        return [(member, body({**scope, variable: member})) for member in members(value(scope))]

    match name:
        case "all":
            return lambda scope: all(truth(result) for _, result in each(scope))
        case "exists":
            return lambda scope: any(truth(result) for _, result in each(scope))
        case "exists_one":
            return lambda scope: sum(truth(result) for _, result in each(scope)) == 1
        case "filter":
            return lambda scope: [member for member, result in each(scope) if truth(result)]
        case _:
            return lambda scope: [result for _, result in each(scope)]
