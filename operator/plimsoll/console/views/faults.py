"""The reasons why a form's question has no answer, each at the field that it is about and in the words of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class FieldName(NamedTuple):
    """A field of a form: its name in the address, and its label."""

    field: str
    label: str


@dataclass(frozen=True, slots=True)
class FieldFault:
    """Why there is no answer. ``field`` is the name of the field that it is about; empty if it is about none."""

    field: str
    words: str


_NAMED = re.compile(r"(?:--)?([A-Za-z][\w.-]*): (.+)", re.DOTALL)
_OF_CLICK = re.compile(r"Invalid value for '--([a-z-]+)'[^:]*: (.+)", re.DOTALL)
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")


def fault_of(message: str, names: Mapping[str, FieldName]) -> FieldFault:
    """Return the fault of a command's message.

    ``names`` are the fields by what messages call them: an option without its dashes, or the last part of a path.
    """
    found = _OF_CLICK.match(message) or _NAMED.match(message)
    named = None if found is None else names.get(found[1]) or names.get(found[1].rpartition(".")[2])
    if found is None or named is None:
        return FieldFault("", _labelled(message, names))
    return FieldFault(named.field, _labelled(f"{named.label}: {found[2]}", names))


def _labelled(words: str, names: Mapping[str, FieldName]) -> str:
    """Return a sentence with the labels of the page for the options that it names."""

    def label(flag: re.Match[str]) -> str:
        named = names.get(flag[1])
        return flag[0] if named is None else f"\u201c{named.label}\u201d"

    return _FLAG.sub(label, words)
