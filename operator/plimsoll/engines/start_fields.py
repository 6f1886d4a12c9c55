"""The fields of a value that an engine prints into its log: ``model='x', dtype=y`` or ``{'model': 'x'}``.

Each character is read once. Values inside brackets or quotes are not divided.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_OPEN, _CLOSE, _QUOTES = "([{", ")]}", "'\""

_KEY = re.compile(r"\s*(?:'(\w{1,64})'\s*:|\"(\w{1,64})\"\s*:|(\w{1,64})=)\s*")


def fields_of(text: str) -> Mapping[str, str]:
    """Return the fields of the outermost level by name, with their values as printed.

    The name of a class in front of a bracket and the outer brackets are left out. The first of two equal names counts.
    """
    found: dict[str, str] = {}
    for part in _parts(_inside(text)):
        key = _KEY.match(part)
        if key is not None:
            name = key[1] or key[2] or key[3]
            found.setdefault(name, part[key.end() :].strip())
    return found


def text_in(value: str | None) -> str | None:
    """Return a text without its quotes; None for ``None`` and for nothing."""
    if value is None or value in ("None", ""):
        return None
    return value[1:-1] if value[0] in _QUOTES and value[-1:] == value[0] and len(value) > 1 else value


def integer_in(value: str | None) -> int | None:
    """Return a whole number; None where the value is none, or is too long for one."""
    text = text_in(value)
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,15}", text, re.ASCII) else None


def number_in(value: str | None) -> float | None:
    """Return a number; None where the value is none, or is too long for one."""
    text = text_in(value)
    return float(text) if text is not None and re.fullmatch(r"-?\d{1,15}(\.\d{1,20})?", text, re.ASCII) else None


def _inside(text: str) -> str:
    """Return what is between the outer brackets where the text begins with one, or with a name and one."""
    begins = re.match(r"\s*[\w.]{0,64}[({\[]", text)
    return text[begins.end() :] if begins else text


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between the commas of the outermost level, up to the bracket that closes it."""
    depth, begin, quote, escaped = 0, 0, "", False
    for place, character in enumerate(text):
        if escaped:
            escaped = False
        elif quote:
            escaped, quote = character == "\\", "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
            if depth < 0:
                yield text[begin:place]
                return
        elif character == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]
