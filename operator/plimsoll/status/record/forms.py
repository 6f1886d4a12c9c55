"""One description of how a value of the core stands in a status: it writes the value, and reads it back.

A :class:`Form` describes a dataclass, attribute by attribute: a :class:`Field` or a :class:`Spread` for each. An
attribute that no description names is the same in the field of its own name. An attribute, or a field of an entry, that
is forgotten is an error when the module is imported.
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

from plimsoll.api.v1alpha1.base import LARGEST_BOUND
from plimsoll.api.v1alpha1.status import StatusModel
from plimsoll.domain.units import from_rfc3339, to_rfc3339

Value = TypeVar("Value")
Fields = dict[str, Any]
"""The fields of an entry by their names in Python."""

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


@dataclass(frozen=True, slots=True)
class Spread:
    """An attribute in several fields of an entry, which ``fields`` makes of it, and ``read`` makes it of.

    ``read`` raises :class:`Unusable`.
    """

    names: tuple[str, ...]
    fields: Callable[[Any], Fields]
    read: Callable[[Any], Any]


class Form(Generic[Value]):
    """The description of a value: an ``entry`` of its own, or without one an attribute that stands in others' fields.

    Attributes that are ``unkept`` are not written: what is read has their defaults. ``beside`` are fields of the entry
    in which no attribute stands. ``doubt`` says what is wrong with a value that was read; empty if nothing is.
    """

    def __init__(
        self,
        kind: type[Value],
        entry: type[StatusModel] | None = None,
        /,
        *,
        unkept: Iterable[str] = (),
        beside: Iterable[str] = (),
        doubt: Callable[[Value], str] = lambda _: "",
        **parts: Field | Spread | Form[Any],
    ) -> None:
        attributes = [each.name for each in dataclasses.fields(kind)]  # type: ignore[arg-type]
        odd = {*parts, *unkept} - set(attributes)
        described = {each: parts.get(each) or Field(each) for each in attributes if each not in unkept}
        single = {name: each for name, each in described.items() if isinstance(each, Field)}
        self._spread = {name: each for name, each in described.items() if not isinstance(each, Field)}
        self._writers = [(each.name, attrgetter(name), each.to_field) for name, each in single.items()]
        self._readers = [(name, attrgetter(each.name), each.to_attribute) for name, each in single.items()]
        self._doubt = doubt
        self.kind, self.entry, self.attributes = kind, entry, tuple(described)
        self.names: list[str] = [each.name for each in single.values()]
        self.names += [name for each in self._spread.values() for name in each.names]
        if entry is not None and sorted((*self.names, *beside)) != sorted(entry.model_fields):
            odd |= {*self.names, *beside} ^ set(entry.model_fields) or {"a field that is named twice"}
        if odd:
            raise TypeError(f"The description of {kind.__name__} is wrong about {', '.join(sorted(odd))}")

    def fields(self, value: Value, **beside: object) -> Fields:
        """Return the fields of an entry that has the value, with the fields ``beside`` it."""
        for name, get, convert in self._writers:
            beside[name] = get(value) if convert is None else convert(get(value))
        for attribute, spread in self._spread.items():
            beside |= spread.fields(getattr(value, attribute))
        return beside

    def read(self, entry: Any) -> Value:
        """Make the value of a validated entry.

        Raises:
            Unusable: the fields have the right types, and no value can be made of them.
        """
        found: Fields = {}
        for attribute, get, convert in self._readers:
            found[attribute] = get(entry) if convert is None else convert(get(entry))
        for attribute, spread in self._spread.items():
            found[attribute] = spread.read(entry)
        value = self.kind(**found)
        if wrong := self._doubt(value):
            raise Unusable(wrong)
        return value

    def usable(self, entry: Any) -> Value | None:
        """Make the value of an entry; None if there is none, or if it cannot be used."""
        try:
            return None if entry is None else self.read(entry)
        except Unusable:
            return None


# Attributes in one field


def number(name: str, least: int, most: float | None = None, *, absent: int | None = None) -> Field:
    """A number within bounds, or the one that stands for None. It is written as a whole number."""

    def to_attribute(value: int | None) -> int | None:
        if value is None:
            return absent
        if least <= value <= (LARGEST_BOUND if most is None else most):
            return value
        if value > LARGEST_BOUND:
            raise Unusable(BEYOND)
        bounds = f"less than {least}" if most is None else f"not between {least} and {most:.0f}"
        raise Unusable(f"{to_camel(name)} {value} is {bounds}")

    return Field(name, lambda value: None if value in (None, absent) else round(value), to_attribute)


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
    """An attribute that is left out if it has its usual value."""
    return Field(name, lambda value: None if value == usual else value, lambda value: usual if value is None else value)


def listed(name: str) -> Field:
    """A tuple of plain values."""
    return Field(name, list, lambda values: tuple(values or ()))


def part(name: str, form: Form[Any]) -> Field:
    """A value that may be None. One that cannot be used is None."""
    return Field(name, lambda value: None if value is None else form.fields(value), form.usable)


def entries(name: str, form: Form[Any], *, most: int = 0) -> Field:
    """A tuple of values, of which the last ``most`` are written. An entry that cannot be used is left out."""

    def to_attribute(found: Iterable[Any] | None) -> tuple[Any, ...]:
        return tuple(value for each in found or () if (value := form.usable(each)) is not None)

    return Field(name, partial(_written, form, most), to_attribute)


def all_entries(name: str, form: Form[Any]) -> Field:
    """A tuple of values. If one cannot be used, none of the others can."""
    return Field(name, partial(_written, form, 0), lambda found: tuple(map(form.read, found or ())))


def _written(form: Form[Any], most: int, values: tuple[Any, ...]) -> list[Fields]:
    return [form.fields(each) for each in values[-most:]]


def is_beyond(entry: StatusModel) -> bool:
    """Whether a number of an entry is beyond what the API server and all readers of JSON keep as it is."""
    return any(abs(value) > LARGEST_BOUND for value in vars(entry).values() if isinstance(value, int))
