"""Figures as people read them: GiB to one decimal, tokens with separators, ``unknown`` if nothing is known.

Prices of a status as numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.units import GIB

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its value in words."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Sign:
    """A symbol, a word and a CSS class: never a colour alone."""

    symbol: str
    word: str
    kind: str


MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def gib(size: float | None) -> str:
    """Bytes in GiB, without the unit."""
    return UNKNOWN if size is None else f"{size / GIB:,.1f}"


def signed_gib(size: float) -> str:
    """A difference of bytes in GiB, with its sign."""
    return f"{size / GIB:+,.1f}"


def count(number: int | None) -> str:
    """A number with separators."""
    return UNKNOWN if number is None else f"{number:,}"


def times(part: int, whole: int) -> str:
    """How often ``whole`` goes into ``part``, as ``2.7x``; ``unknown`` if nothing is needed."""
    return UNKNOWN if whole <= 0 else f"{part / whole:.1f}\u00d7"


def percent(share: float | None) -> str:
    """A share of 1, in whole percent."""
    return UNKNOWN if share is None else f"{100 * share:,.0f} %"


def dollars(price: str | None) -> str:
    """US dollars per hour, with separators."""
    if price is None:
        return UNKNOWN
    known = dollars_of(price)
    return f"${price}" if known is None or abs(known) >= BEYOND_ANY_PRICE else f"${known:,f}"


BEYOND_ANY_PRICE = 10**9
"""US dollars an hour. A status may hold any figure; one like this is not written out."""


_LONG_NUMBER = re.compile(r"(?<![\w.])\d{4,15}(?![\w.])")


def separated(text: str) -> str:
    """Return a text of plain numbers, such as ``1024/1024``, with separators in each of them."""
    return _LONG_NUMBER.sub(lambda found: f"{int(found[0]):,}", text)


def age(seconds: float | None) -> str:
    """A span of time in one unit, as ``4 s`` or ``3 h``."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    for unit, word in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if whole >= 2 * unit or (whole >= unit and whole % unit == 0):
            return f"{whole // unit} {word}"
    return f"{whole} s"


def clock(at: float | None) -> str:
    """A moment as date and time in UTC."""
    return UNKNOWN if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def split_words(split: Split) -> str:
    """Return how a replica is divided over GPUs."""
    words = [f"\u00d7 {split.tensor_parallel}"]
    if split.pipeline_parallel > 1:
        words.append(f"\u00d7 {split.pipeline_parallel} stages")
    if split.data_parallel > 1:
        words.append(f"\u00d7 {split.data_parallel} engines")
    if split.expert_parallel:
        words.append("whole experts")
    return " ".join(words)


def dollars_of(text: str | None) -> Decimal | None:
    """Return US dollars; None for a price that is missing or no finite number."""
    try:
        price = Decimal(text or "NaN")
    except InvalidOperation:
        return None
    return price if price.is_finite() else None
