"""Templates to HTML. Everything is escaped: names, messages and configurations may be hostile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from plimsoll import __version__
from plimsoll.console.views import words
from plimsoll.console.views.what_if_links import what_if_links
from plimsoll.console.views.words import split_words

_PACKAGE = files("plimsoll.console")
STATIC = _PACKAGE / "static"


@cache
def environment() -> Environment:
    """Return the templates with the filters that all pages use."""
    made = Environment(
        loader=PackageLoader("plimsoll.console"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "gib": words.gib,
        "signed_gib": words.signed_gib,
        "count": words.count,
        "percent": words.percent,
        "dollars": words.dollars,
        "separated": words.separated,
        "age": words.age,
        "clock": words.clock,
        "split": split_words,
    }
    made.globals |= {
        "times": words.times,
        "asset": asset,
        "release": __version__,
        "meaning": lambda word: meanings().get(word),
        "what_if_links": what_if_links,
    }
    return made


@cache
def asset(name: str) -> str:
    """Return the address of a static file. It has the file's digest, so browsers may keep it for ever."""
    return f"/static/{sha256((STATIC / name).read_bytes()).hexdigest()[:12]}/{name}"


def rendered(template: str, **values: Any) -> str:
    """Return the HTML of a template. Raises jinja2.UndefinedError for a missing value."""
    return environment().get_template(template).render(**values)


@cache
def meanings() -> Mapping[str, Meaning]:
    """Return the meaning of every public word, from the packaged copy of ``docs/reasons.md``."""
    return meanings_of((_PACKAGE / "reasons.md").read_text(encoding="utf-8"))


_ROW = re.compile(r"^\| `(\w+)` \| (.+?) \|(?: (.+?) \|)?$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Meaning:
    """A public word with its sentence, and what to do about it; ``advice`` is empty if there is none."""

    word: str
    sentence: str
    advice: str = ""


def meanings_of(page: str) -> Mapping[str, Meaning]:
    """Return the meaning of each word that has a row in a table of this Markdown text."""
    return {
        word: Meaning(word, _plain(sentence), _plain(advice or "")) for word, sentence, advice in _ROW.findall(page)
    }


def _plain(markdown: str) -> str:
    return _LINK.sub(r"\1", markdown).replace("`", "")
