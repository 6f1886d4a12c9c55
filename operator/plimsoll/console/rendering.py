"""Templates to HTML. Everything is escaped: names, messages and configurations may be hostile."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from plimsoll import __version__
from plimsoll.console.sources.meanings import meanings
from plimsoll.console.views import words
from plimsoll.console.views.words import split_words

STATIC = files("plimsoll.console") / "static"


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
        "age": words.age,
        "clock": words.clock,
        "split": split_words,
    }
    made.globals |= {
        "times": words.times,
        "asset": asset,
        "release": __version__,
        "meaning": lambda word: meanings().get(word),
    }
    return made


@cache
def asset(name: str) -> str:
    """Return the address of a static file. It has the file's digest, so browsers may keep it for ever."""
    return f"/static/{sha256((STATIC / name).read_bytes()).hexdigest()[:12]}/{name}"


def rendered(template: str, **values: Any) -> str:
    """Return the HTML of a template. Raises jinja2.UndefinedError for a missing value."""
    return environment().get_template(template).render(**values)
