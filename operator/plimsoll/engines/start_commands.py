"""A command line that starts an engine's server: what it names, and what cannot be read of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from plimsoll.domain.outcomes import Split
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.start_options import StartOptions

_OPEN, _CLOSE = "\ue000", "\ue001"
_UNRESOLVED = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


def unresolved(expression: str) -> str:
    """Return the text that stands in a word for an expression whose value is not known, e.g. ``${PORT}``."""
    return f"{_OPEN}{expression.replace(_OPEN, '').replace(_CLOSE, '')}{_CLOSE}"


def unresolved_in(word: str) -> str | None:
    """Return the first such expression in a word; None where the whole word is known."""
    found = _UNRESOLVED.search(word)
    return None if found is None else found[1]


def as_written(word: str) -> str:
    """Return a word with its expressions as they were written."""
    return _UNRESOLVED.sub(lambda found: found[1], word).replace(_OPEN, "").replace(_CLOSE, "")


@dataclass(frozen=True, slots=True)
class StartCommand:
    """The start that a command line describes.

    Attributes:
        engine: the engine's name.
        model: the model as it is written; None where the command names none.
        revision: the revision of the model; None for the newest.
        split: how the replica is divided.
        options: the options that the memory law has a place for, and those that it has none for.
        harmless: flags that change no GPU memory, by their full names.
        notes: sentences about flags that are not known, or that the engine does not take.
        spread: whether further containers run parts of the same replica.
        cache_word: the engine's own word for the format of the KV cache, where one is named.
        formats: flags that name the format of the model's files, each with its value.
        fits_context: whether the engine shortens the context to what fits (``--max-model-len auto``).
    """

    engine: str
    model: str | None
    revision: str | None
    split: Split
    options: StartOptions
    harmless: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spread: bool = False
    fits_context: bool = False
    cache_word: str | None = None
    formats: tuple[tuple[str, str], ...] = ()


class Misfit(NamedTuple):
    """A flag with which the engine does not start for the model that it serves: its value, and what to write."""

    flag: str
    value: object
    fix: str


@dataclass(frozen=True, slots=True)
class ImageRelease:
    """The release that an image's tag names. ``is_plain`` means that the tag names that release and nothing else."""

    version: EngineVersion
    is_plain: bool = True
