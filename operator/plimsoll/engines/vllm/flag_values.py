"""The values that the kinds of vLLM's options take, by the converters of its parser (``argparse_utils.py``, 0.32)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from difflib import get_close_matches

from plimsoll.engines.vllm.flag_table import Option

_MAYBE = "maybe-"
"""Kinds that also take nothing and the word ``None``."""

_MOST_CHOICES = 24
_LONGEST = 80
"""Characters of a value that are compared."""

_HUMAN = re.compile(r"(\d+)([KMGT])|(\d+(?:\.\d+)?)([kmgt])")
_BINARY, _DECIMAL = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}, {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
"""Suffixes of whole numbers (``human_readable_int``)."""

_HUMAN_IN_JSON = re.compile(r'("(?:[^"\\]|\\.)*+"?)|\b\d+(?:\.\d+)?[kKmMgGtT]\b')


def lack_of(option: Option, name: str, value: str) -> str | None:
    """Return what an option takes instead of a value, as a sentence; None where it takes the value."""
    kind = option.kind
    if kind.startswith(_MAYBE):
        if value in ("", "None"):
            return None
        kind = kind.removeprefix(_MAYBE)
    takes, what = _KINDS[kind]
    if not takes(value):
        return f"{name} takes {what}."
    chosen = value.lower().replace("-", "_") if kind == "word" else value.strip() if kind == "whole" else value
    if option.choices and chosen not in option.choices:
        return _choose(name, chosen, option.choices)
    return None


def registered_lack(option: Option, name: str, value: str) -> str | None:
    """Return the names that a server knows when it starts, where it does not know this one."""
    return _choose(name, value, option.registered) if value not in option.registered else None


def _choose(name: str, value: str, choices: tuple[str, ...]) -> str:
    nearest = get_close_matches(value.lower()[:_LONGEST], choices, n=1)
    if nearest:
        return f"{name} has no such choice: the nearest is {nearest[0]}."
    more = f" or one of {len(choices) - _MOST_CHOICES} others" if len(choices) > _MOST_CHOICES else ""
    return f"{name} takes {', '.join(choices[:_MOST_CHOICES])}{more}."


def _takes(convert: Callable[[str], object]) -> Callable[[str], bool]:
    def takes(value: str) -> bool:
        try:
            convert(value)
        except RecursionError:
            return True
        except ValueError:
            return False
        return True

    return takes


def _is_size(value: str) -> bool:
    return size_in(value) is not None


def size_in(value: str) -> int | None:
    """Return the whole number of a text such as ``4096``, ``4K`` or ``25.6k``; None where it is none."""
    found = _HUMAN.fullmatch(value.strip())
    if found is None:
        return int(value) if _takes(int)(value) else None
    return int(found[1]) * _BINARY[found[2]] if found[1] else int(Decimal(found[3]) * _DECIMAL[found[4]])


def _is_object(value: str) -> bool:
    """Numbers outside of strings may have a suffix, e.g. ``80g``."""
    return _takes(json.loads)(_HUMAN_IN_JSON.sub(lambda found: found[1] or "0", value))


def _is_text_or_json(value: str) -> bool:
    return re.fullmatch(r"(?s)\s*\{.*\}\s*", value) is None or _takes(json.loads)(value)


def _is_adapter(value: str) -> bool:
    return value == "" or ("=" in value and "," not in value) or _takes(json.loads)(value)


_KINDS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "text": (lambda _: True, "a value"),
    "word": (lambda _: True, "a value"),
    "whole": (_takes(int), "a whole number"),
    "number": (_takes(float), "a number"),
    "size": (_is_size, "a whole number, e.g. 4096 or 4k"),
    "size-or-auto": (lambda value: value.strip().lower() == "auto" or _is_size(value), "a whole number, or auto"),
    "json": (_takes(json.loads), "JSON, e.g. '{\"key\": 1}'"),
    "object": (_is_object, "a JSON object, e.g. '{\"key\": 1}', or one key at a time behind a dot"),
    "text-or-json": (_is_text_or_json, "a text, or JSON"),
    "adapter": (_is_adapter, "NAME=PATH, or JSON"),
}
"""Whether a kind takes a value, and how to call it."""
