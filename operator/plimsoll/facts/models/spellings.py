"""Fields under their usual names, for classes that write them elsewhere."""

from __future__ import annotations

from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.traits import Architecture


def respelled(fields: Fields, traits: Architecture) -> Fields:
    """The fields with those of ``traits.spellings`` added under their usual names.

    A name that the class spells in its own way means what the class says, so its own spelling wins where it is set.
    """
    found = {usual: _at(fields, path) for usual, path in traits.spellings}
    known = {usual: value for usual, value in found.items() if value is not None}
    return Fields({**fields.values, **known}, fields.origin) if known else fields


def _at(fields: Fields, path: str) -> object:
    """The value at a dotted path, None where a section on the way is missing."""
    *sections, name = path.split(".")
    values = fields.values
    for section in sections:
        nested = mapping_of(values.get(section))
        if nested is None:
            return None
        values = nested
    return values.get(name)
