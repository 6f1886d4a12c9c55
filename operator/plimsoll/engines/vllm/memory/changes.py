"""Laws by release: a list of changes, and the law after each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from plimsoll.domain.versions import EngineVersion

_OLDEST = EngineVersion(0, 8)


@dataclass(frozen=True, slots=True)
class Law:
    """A set of rules that is valid from the release ``since`` on."""

    since: EngineVersion = _OLDEST


class Change(NamedTuple):
    """The fields of a law that a release changed, and where the change was read."""

    since: EngineVersion
    source: str
    fields: Mapping[str, Any]


_AnyLaw = TypeVar("_AnyLaw", bound=Law)


def laws_after(changes: Iterable[Change], oldest: _AnyLaw) -> tuple[_AnyLaw, ...]:
    """Return ``oldest``, and the law after each change."""
    return tuple(accumulate(changes, _changed, initial=oldest))


def _changed(law: _AnyLaw, change: Change) -> _AnyLaw:
    return replace(law, since=change.since, **change.fields)
