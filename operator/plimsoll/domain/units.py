"""Bytes, quantities, money, times and numbers with nouns: parsers and formatters for their usual notations.

Byte counts are plain ``int`` in the whole core; every name that holds one ends in ``_bytes``. Prices are
:class:`decimal.Decimal` US dollars per hour, so that no float ever reaches the API.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

KIB = 1024
MIB = 1024**2
GIB = 1024**3

_SUFFIXES: dict[str, Decimal] = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
}
"""Kubernetes quantity suffixes. Source: ``k8s.io/apimachinery/pkg/api/resource`` (exabytes left out on purpose)."""

_QUANTITY = re.compile(r"^(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)(?P<suffix>[A-Za-z]{0,2})$")


def to_percent(share: float | Decimal) -> int:
    """Return a share in whole percent."""
    return round(100 * share)


def to_milliseconds(seconds: float) -> int:
    """Return seconds in whole milliseconds."""
    return round(1000 * seconds)


def to_nanoseconds(seconds: float) -> int:
    """Return seconds in whole nanoseconds."""
    return round(1e9 * seconds)


def to_per_minute(per_second: float) -> int:
    """Return a rate a second as a whole number a minute."""
    return round(60 * per_second)


def parse_quantity(text: str | int) -> Decimal:
    """Read a Kubernetes quantity such as ``80Gi``, ``1500m`` or ``4``.

    Raises:
        ValueError: the text is not a quantity; the message quotes it and gives an example.
    """
    match = _QUANTITY.match(str(text).strip())
    if match is None or match["suffix"] not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity; write for example 16Gi or 500m")
    try:
        return Decimal(match["number"]) * _SUFFIXES[match["suffix"]]
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a quantity; write for example 16Gi or 500m") from error


def parse_bytes(text: str | int) -> int:
    """Read a byte quantity and round it down to whole bytes. Raises ``ValueError`` like :func:`parse_quantity`."""
    return int(parse_quantity(text))


def format_gib(count: int) -> str:
    """Format bytes as GiB: ``71.27 GiB``."""
    return f"{count / GIB:.2f} GiB"


def format_price(price: Decimal) -> str:
    """Format US dollars with two decimals, as the API shows them: ``12.50``."""
    return f"{price:.2f}"


def exact_price(price: Decimal | None) -> str:
    """Write US dollars as a figure, equal ones alike: ``5`` for 5 and for 5.0; ``unknown`` for None."""
    return "unknown" if price is None else f"{price.normalize():f}"


def ceil_div(dividend: int, divisor: int) -> int:
    """Divide two integers and round up."""
    return -(-dividend // divisor)


def agreed(number: int | str, one: str, many: str) -> str:
    """Return the words for this number: those for one thing, or those for several and for none."""
    return one if str(number) == "1" else many


def grouped(number: int | str) -> str:
    """Return a number as sentences write it, with a comma between thousands; a text as it is."""
    return f"{number:,}" if isinstance(number, int) else number


def counted(number: int | str, noun: str) -> str:
    """Return a number and its noun. ``noun`` is that of one thing, and its plural ends with an s."""
    return f"{grouped(number)} {agreed(number, noun, f'{noun}s')}"


def counted_of(part: int | str, whole: int | str, noun: str, one: str, many: str) -> str:
    """Return a part of several things and what they do: ``1 of 3 replicas serves``, ``0 of 1 replica serves``.

    The noun follows the whole and the verb the part, but for none of one thing. ``one`` and ``many`` are the verb.
    """
    verb = one if "1" in (str(part), str(whole)) else many
    return f"{grouped(part)} of {counted(whole, noun)} {verb}"


def to_rfc3339(posix_seconds: float) -> str:
    """Convert POSIX seconds to ``2026-01-02T03:04:05Z``."""
    return datetime.fromtimestamp(int(posix_seconds), tz=UTC).isoformat().replace("+00:00", "Z")


def from_rfc3339(text: str) -> float | None:
    """Convert back to POSIX seconds; None if the text is not a time."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (OverflowError, ValueError):
        return None
