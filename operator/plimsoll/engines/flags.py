"""Engine flags that the operator sets itself, and flags that an engine does not take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plimsoll.domain.engines.engine_choice import EngineVersion


@dataclass(frozen=True, slots=True)
class OwnedFlag:
    """A flag that the operator sets: its full name, the pattern of its spellings, and the spec field to use instead.

    ``pattern`` matches the lower-case name without its leading dashes, with ``-`` for ``_``. It is valid in RE2 and in
    Python, and contains no range like ``[a-z]``, because the CRD's rule writes every dash as ``[-_]``.
    """

    name: str
    pattern: str
    instead: str


class Misuse(NamedTuple):
    """A user's argument with which the engine cannot start.

    Attributes:
        position: its place among the arguments.
        value: the argument.
        fix: what to write instead, as sentences.
        release: the release of the engine whose flags were compared.
    """

    position: int
    value: str
    fix: str
    release: EngineVersion


def every_spelling(flags: Sequence[OwnedFlag]) -> str:
    """Return one pattern with all patterns as alternatives, with normalised dashes."""
    return "|".join(flag.pattern for flag in flags)


def owned_flag(argument: str, flags: Sequence[OwnedFlag]) -> OwnedFlag | None:
    """Return the flag of ``flags`` that this argument sets; None if the user may pass the argument.

    An argument that does not start with a dash is a value, so the result is None.
    """
    if not argument.startswith("-"):
        return None
    name = argument.split("=", 1)[0].lstrip("-").replace("_", "-").lower()
    return next((flag for flag in flags if re.fullmatch(flag.pattern, name)), None)
