"""An engine as ``--engine`` names it: a release of the usual one, or NAME, or NAME:RELEASE."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.api.bounds import DEFAULT_ENGINE_VERSION, usual_release
from plimsoll.domain.engines.engine_choice import ANY_ENGINE
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.base import Engine
from plimsoll.engines.registry import ENGINES

OPTION = "--engine"


class NamedEngine(NamedTuple):
    """The engine's name and its release as ``--engine`` gives them; None for what is left out."""

    name: str | None = None
    release: str | None = None


def named_engine(text: str | None) -> NamedEngine:
    """Return the engine and release of the option. Raises :class:`InvalidInput` for an engine that is not known."""
    if text is None:
        return NamedEngine()
    name, colon, release = text.partition(":")
    if name in ENGINES:
        return NamedEngine(name, release or None)
    if text == ANY_ENGINE:
        return NamedEngine(ANY_ENGINE)
    if colon:
        raise InvalidInput(OPTION, text, f"Write a release, or an engine and its release: {_examples()}.")
    return NamedEngine(release=text)


def release_of(engine: Engine, named: NamedEngine) -> str:
    """Return the release that is named, or the engine's usual one."""
    return named.release or str(usual_release(engine))


def check_same(engine: Engine, named: NamedEngine, text: str | None) -> None:
    """Refuse an engine that is not the one whose command or log was read."""
    if named.name not in (None, engine.name):
        raise InvalidInput(OPTION, text, f"This is about {engine.title}: name a release of it, or leave it out.")


def _examples() -> str:
    names = ", ".join(f"{name}:{usual_release(engine)}" for name, engine in ENGINES.items())
    return f"{DEFAULT_ENGINE_VERSION}, {names}"
