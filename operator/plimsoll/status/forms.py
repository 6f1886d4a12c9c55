"""One description of how a value of the core stands in a status: it writes the value, and reads it back.

A :class:`Field` describes one attribute of a value, and a :class:`Group` all attributes of a dataclass. A :class:`Form`
is a group that is an entry of its own. An attribute that no description names stands in the field of its own name. An
attribute, or a field of an entry, that is forgotten is an error when the module is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

from pydantic.alias_generators import to_camel

from plimsoll.api.v1alpha1.base import LARGEST_BOUND, ApiModel
from plimsoll.domain.times import from_rfc3339, to_rfc3339

Value = TypeVar("Value")
Entry = TypeVar("Entry", bound=ApiModel)
Fields = dict[str, Any]

BEYOND = f"a number is beyond {LARGEST_BOUND}"


class Unusable(ValueError):
    """The reason why an entry cannot be used, as text."""


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute in the field ``name``, converted on its way there and back. None: it is the same there.

    ``to_attribute`` raises :class:`Unusable`.
    """

    name: str
    to_field: Callable[[Any], Any] | None = None
    to_attribute: Callable[[Any], Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The field alone."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Spread:
    """An attribute in several fields: ``fields`` gives them by name, and ``read`` makes it of a validated entry.

    ``read`` raises :class:`Unusable`.
    """

    names: tuple[str, ...]
    fields: Callable[[Any], Fields]
    read: Callable[[Any], Any]


class Group(Generic[Value]):
    """The description of a value whose attributes stand in an entry together with others.

    Attributes that are ``unkept`` are not written: what is read has their defaults. ``doubt`` says what is wrong with a
    value that was read; empty where it holds together.
    """

    def __init__(
        self,
        kind: type[Value],
        /,
        *,
        unkept: Iterable[str] = (),
        doubt: Callable[[Value], str] | None = None,
        **parts: Field | Spread | Group[Any],
    ) -> None:
        attributes = [each.name for each in dataclasses.fields(kind)]  # type: ignore[arg-type]
        if unknown := {*parts, *unkept} - set(attributes):
            raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
        all_parts = {each: parts.get(each) or Field(each) for each in attributes if each not in unkept}
        self.kind, self.attributes = kind, tuple(all_parts)
        self.names: tuple[str, ...] = tuple(name for each in all_parts.values() for name in each.names)
        self._doubt = doubt
        single = [(attribute, each) for attribute, each in all_parts.items() if isinstance(each, Field)]
        self._writers = [(each.name, attrgetter(attribute), each.to_field) for attribute, each in single]
        self._readers = [(attribute, attrgetter(each.name), each.to_attribute) for attribute, each in single]
        self._spread = [(name, each) for name, each in all_parts.items() if not isinstance(each, Field)]

    def fields(self, value: Value, **beside: object) -> Fields:
        """Return the fields of an entry with the value and what stands ``beside`` it, by their names in Python."""
        for name, get, convert in self._writers:
            beside[name] = get(value) if convert is None else convert(get(value))
        for attribute, spread in self._spread:
            beside |= spread.fields(getattr(value, attribute))
        return beside

    def read(self, entry: Any) -> Value:
        """Make the value of an entry.

        Raises:
            Unusable: the fields have the right types, and no value can be made of them.
        """
        found: Fields = {}
        for attribute, get, convert in self._readers:
            found[attribute] = get(entry) if convert is None else convert(get(entry))
        for attribute, spread in self._spread:
            found[attribute] = spread.read(entry)
        value = self.kind(**found)
        if self._doubt is not None and (wrong := self._doubt(value)):
            raise Unusable(wrong)
        return value


class Form(Group[Value], Generic[Value, Entry]):
    """The description of a value that is an entry of its own. ``beside`` are fields that no attribute stands in."""

    def __init__(
        self,
        kind: type[Value],
        entry: type[Entry],
        /,
        *,
        beside: Iterable[str] = (),
        unkept: Iterable[str] = (),
        doubt: Callable[[Value], str] | None = None,
        **parts: Field | Spread | Group[Any],
    ) -> None:
        super().__init__(kind, unkept=unkept, doubt=doubt, **parts)
        if sorted((*self.names, *beside)) != sorted(entry.model_fields):
            odd = {*self.names, *beside} ^ set(entry.model_fields)
            raise TypeError(f"{kind.__name__} and {entry.__name__} differ in {', '.join(sorted(odd))}")
        self._entry = entry

    def entry(self, value: Value, **beside: object) -> Entry:
        """Return the value as an entry, with the fields ``beside`` it.

        Raises:
            ValidationError: the value does not fit the API's model.
        """
        return self._entry(**self.fields(value, **beside))


# Attributes in one field


def number(name: str, least: int, most: float | None = None) -> Field:
    """A number within bounds, or None. It is written as a whole number."""

    def to_attribute(value: int | None) -> int | None:
        if value is None or least <= value <= (LARGEST_BOUND if most is None else most):
            return value
        if value > LARGEST_BOUND:
            raise Unusable(BEYOND)
        bounds = f"less than {least}" if most is None else f"not between {least} and {most:.0f}"
        raise Unusable(f"{to_camel(name)} {value} is {bounds}")

    return Field(name, lambda value: None if value is None else round(value), to_attribute)


def time(name: str) -> Field:
    """POSIX seconds, written as RFC 3339 in whole seconds."""

    def to_attribute(text: str) -> float:
        at = from_rfc3339(text)
        if at is None:
            raise Unusable(f"{to_camel(name)} {text!r} is no time")
        return at

    return Field(name, to_rfc3339, to_attribute)


def word(name: str, words: type[Enum]) -> Field:
    """A member of an enumeration, written as its value."""
    members = {each.value: each for each in words}
    values = {each: each.value for each in words}

    def to_attribute(text: str) -> Enum:
        if text not in members:
            raise Unusable(f"{to_camel(name)} {text!r} is none of {', '.join(members)}")
        return members[text]

    return Field(name, values.__getitem__, to_attribute)


def unless(name: str, usual: object) -> Field:
    """An attribute that is left out where it has its usual value."""
    return Field(name, lambda value: None if value == usual else value, lambda value: usual if value is None else value)


def listed(name: str) -> Field:
    """A tuple of plain values."""
    return Field(name, list, lambda values: tuple(values or ()))


def entries(name: str, form: Group[Any], *, most: int = 0, all_or_none: bool = False) -> Field:
    """A tuple of values, of which the last ``most`` are written.

    An entry that cannot be used is left out. With ``all_or_none``, nothing can be used then.
    """
    read = form.read if all_or_none else partial(_usable, form)

    def to_attribute(found: Iterable[Any] | None) -> tuple[Any, ...]:
        return tuple(value for each in found or () if (value := read(each)) is not None)

    return Field(name, lambda values: [form.fields(each) for each in values[-most:]], to_attribute)


def part(name: str, form: Group[Any]) -> Field:
    """A value that may be None. One that cannot be used is None."""
    return Field(
        name,
        lambda value: None if value is None else form.fields(value),
        lambda entry: None if entry is None else _usable(form, entry),
    )


def _usable(form: Group[Value], entry: Any) -> Value | None:
    try:
        return form.read(entry)
    except Unusable:
        return None


def is_beyond(entry: ApiModel) -> bool:
    """Whether a number of an entry is beyond what the API server and all readers of JSON keep as it is."""
    return any(abs(value) > LARGEST_BOUND for value in vars(entry).values() if isinstance(value, int))
