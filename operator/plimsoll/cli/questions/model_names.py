"""The model that ``plimsoll estimate`` is about: a name in any capitals, or the address of its page on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from plimsoll.adapters.catalog import catalogued_models
from plimsoll.adapters.similar_models import catalogued_spelling
from plimsoll.domain.errors import InvalidInput
from plimsoll.facts.models.hub_address import read_hub_address


class Named(NamedTuple):
    """The source that was meant, and notes for the user where it is not the one that was typed."""

    source: str
    notes: tuple[str, ...] = ()


def named(source: str, field: str = "MODEL") -> Named:
    """Return the source as the sources of facts know it. Files and folders stay as they are.

    Raises:
        InvalidInput: ``field`` holds the address of a revision, which the command cannot look up.
    """
    return Named(source) if Path(source).exists() else named_model(source, field)


def named_model(source: str, field: str = "MODEL") -> Named:
    """Return the name of the model that was meant, without a look at any file.

    Raises:
        InvalidInput: ``field`` holds the address of a revision, which the command cannot look up.
    """
    if source in catalogued_models():
        return Named(source)
    name = _without_address(source, field)
    known = catalogued_spelling(name)
    if known is None or known == name:
        return Named(name)
    return Named(known, (f"{name} is read as {known}: names on the Hub never differ in capitals alone.",))


def _without_address(source: str, field: str) -> str:
    found = read_hub_address(source)
    if found is None:
        return source
    if found.revision is not None:
        fix = f"Name {found.name}, or write a manifest with spec.model.revision {found.revision}."
        raise InvalidInput(field, source, fix)
    return found.name
