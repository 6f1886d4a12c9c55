"""The packaged copy of ``docs/reasons.md``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@cache
def meanings() -> Mapping[str, Meaning]:
    """Return the meaning of every public word."""
    return meanings_of((files("plimsoll.console") / "reasons.md").read_text(encoding="utf-8"))


_ROW = re.compile(r"^\| `(\w+)` \| (.+?) \|(?: (.+?) \|)?$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Meaning:
    """A public word with its sentence, and what to do about it; ``advice`` is empty where there is none."""

    word: str
    sentence: str
    advice: str = ""


def meanings_of(page: str) -> Mapping[str, Meaning]:
    """Return the meaning of each word that has a row in a table of this Markdown text."""
    return {
        word: Meaning(word, _plain(sentence), _plain(advice or "")) for word, sentence, advice in _ROW.findall(page)
    }


def _plain(markdown: str) -> str:
    """Return the text without the marks of links and of code."""
    return _LINK.sub(r"\1", markdown).replace("`", "")
