"""Read the section of a tower: fields with several names, each with the default of its class."""

from __future__ import annotations

from plimsoll.facts.models.fields import Fields


def tower_section(fields: Fields, *keys: str) -> Fields:
    """The first of several sections that is set; one without fields if none is set.

    Raises:
        InvalidInput: it is no object.
    """
    key = fields.first(keys)
    section = fields.section(key) if key is not None else None
    return section if section is not None else Fields({}, f"{fields.origin}: {keys[0]}")


def size(section: Fields, *keys: str, default: int) -> int:
    """Return the first field that is set, a whole number, or the default of the class.

    A list of sides, ``[448, 448]``, counts as its longest.

    Raises:
        InvalidInput: it is no whole number, or absurd.
    """
    key = section.first(keys)
    if key is None:
        return default
    value = section.values[key]
    if isinstance(value, list | tuple) and value and all(isinstance(side, int) for side in value):
        return Fields({key: max(value)}, section.origin).integer((key,))
    return section.integer((key,))


def model_type(section: Fields) -> str:
    """The section's ``model_type``; empty if the section has none."""
    return section.text("model_type") or ""


def neighbours(section: Fields, key: str) -> int:
    """Patches that become one if ``key`` is the ratio of edges, 0.5 by default: four.

    Raises:
        InvalidInput: it is no number, or absurd.
    """
    return max(1, round(1 / section.number(key, default=0.5))) ** 2
