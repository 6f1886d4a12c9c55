"""Which engine release a record means by its version text."""

from __future__ import annotations

import re

from plimsoll.domain.engines.engine_choice import EngineVersion

_RELEASE = re.compile(r"(?<![\d.])v?(\d+)\.(\d+)(?![\dx])(?:\.(\d+))?")
"""``0.13.0rc2.dev112+g763963aa7``, ``~0.11``, ``>=0.21``, ``v0.9.x (2025-06)``; not ``0.2x``."""

_MONTH = re.compile(r"(20\d\d)-(\d\d)")
_NAMED_MONTH = re.compile(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w*\s+(20\d\d)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_FIRST_MONTH = (
    ((2025, 1), EngineVersion(0, 7)),
    ((2025, 3), EngineVersion(0, 8)),
    ((2025, 6), EngineVersion(0, 9)),
    ((2025, 8), EngineVersion(0, 10)),
    ((2025, 10), EngineVersion(0, 11)),
    ((2025, 12), EngineVersion(0, 12)),
    ((2026, 1), EngineVersion(0, 13)),
    ((2026, 2), EngineVersion(0, 15)),
    ((2026, 3), EngineVersion(0, 17)),
    ((2026, 4), EngineVersion(0, 19)),
    ((2026, 5), EngineVersion(0, 21)),
    ((2026, 6), EngineVersion(0, 22)),
    ((2026, 7), EngineVersion(0, 25)),
    ((2026, 8), EngineVersion(0, 27)),
    ((2026, 9), EngineVersion(0, 29)),
    ((2026, 10), EngineVersion(0, 30)),
)
"""The newest release at the beginning of a month; from the dates in development versions of the carried records
(0.8.3 in 2025-04, 0.11.2.dev in 2025-12, 0.14.0rc1 in 2026-01, 0.26.1rc1 in 2026-07) and the release notes."""


def parse_version(text: str | None) -> EngineVersion | None:
    """The release a text names; by its date, where it gives a date alone; None where it gives neither.

    Development builds and release candidates count as the release they lead to, forks as what they say they are.
    """
    if text is None:
        return None
    if found := _RELEASE.search(text):
        return EngineVersion(int(found[1]), int(found[2]), int(found[3] or 0))
    return _by_date(text)


def is_exact(text: str | None) -> bool:
    """Whether a version text is a release or a build of one, rather than a guess at one."""
    return text is not None and re.match(r"v?\d+\.\d+\.\d+", text) is not None and "era" not in text


def _by_date(text: str) -> EngineVersion | None:
    if found := _MONTH.search(text):
        month = (int(found[1]), int(found[2]))
    elif found := _NAMED_MONTH.search(text):
        month = (int(found[2]), _MONTHS.index(found[1]) + 1)
    else:
        return None
    return next((version for first, version in reversed(_FIRST_MONTH) if first <= month), None)
