"""A cache of what the last pass rendered: most objects change in only a few passes a day."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from plimsoll.app.case import Case
from plimsoll.app.reading_memo import Kept
from plimsoll.app.store import Body

_RENDERED = ("report", "manifests", "new_status")
_NOT_RENDERED = ("body", "tray", "mail", "is_being_written")

_what_is_rendered = attrgetter(*(each.name for each in fields(Case) if each.name not in (*_NOT_RENDERED, *_RENDERED)))


@dataclass(frozen=True, slots=True)
class _Last:
    """The last rendering for one version of an object, and the facts it was made from."""

    body: Body
    facts: tuple[Any, ...]
    rendered: tuple[Any, ...]


@dataclass(slots=True)
class Rendered:
    """The last rendering of every object whose status already equals it.

    The time is not compared: it only dates changes, and this rendering changes nothing.
    """

    _kept: Kept[_Last] = field(default_factory=Kept)

    def begin(self) -> None:
        """Begin a pass."""
        self._kept.begin()

    def fill_in(self, case: Case) -> bool:
        """Fill in the last rendering if the object and all facts about it are unchanged."""
        known = self._kept.get(case.uid)
        if known is None or known.body is not case.body or known.facts != _what_is_rendered(case):
            return False
        case.report, case.manifests, case.new_status = known.rendered
        self._kept.put(case.uid, known)
        return True

    def keep(self, case: Case) -> None:
        """Keep the rendering if the object's status already equals it. The two equal statuses are kept once."""
        status = case.body.get("status")
        if case.new_status == status:
            case.new_status = status
            rendered = case.report, case.manifests, status
            self._kept.put(case.uid, _Last(case.body, _what_is_rendered(case), rendered))
