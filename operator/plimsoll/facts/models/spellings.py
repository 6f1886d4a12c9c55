"""Fields under their usual names, for classes that write them elsewhere."""

from __future__ import annotations

from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.traits import Architecture


def respelled(fields: Fields, traits: Architecture) -> Fields:
    """Return the fields with those of ``traits.spellings`` added under their usual names.

    If the file has the class's own spelling, its value has priority over a field with the usual name.
    """
    found = {usual: _at(fields, path) for usual, path in traits.spellings}
    known = {usual: value for usual, value in found.items() if value is not None}
    return Fields({**fields.values, **known}, fields.origin) if known else fields


def _at(fields: Fields, path: str) -> object:
    """Return the value at a dotted path; None if a section of the path is missing."""
    *sections, name = path.split(".")
    values = fields.values
    for section in sections:
        nested = mapping_of(values.get(section))
        if nested is None:
            return None
        values = nested
    return values.get(name)
