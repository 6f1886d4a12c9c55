"""What was rendered in the last pass, and whether it still holds: most objects change in few passes of a day."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from plimsoll.app.case import Case
from plimsoll.app.reading_memo import Kept
from plimsoll.app.store import Body

_RENDERED = ("report", "manifests", "new_status")

_what_is_rendered = attrgetter(*(each.name for each in fields(Case) if each.name not in ("body", *_RENDERED)))


@dataclass(frozen=True, slots=True)
class _Last:
    """What was rendered for one version of an object, and from what."""

    body: Body
    facts: tuple[Any, ...]
    rendered: tuple[Any, ...]


@dataclass(slots=True)
class Rendered:
    """The last rendering of every object whose status said the same already.

    The clock is not compared: it only dates what changes, and such a rendering changes nothing.
    """

    _kept: Kept[_Last] = field(default_factory=Kept)

    def begin(self) -> None:
        """Begin a pass."""
        self._kept.begin()

    def fill_in(self, case: Case) -> bool:
        """Fill in what was rendered, if the object and everything found out about it are as they were."""
        known = self._kept.get(case.uid)
        if known is None or known.body is not case.body or known.facts != _what_is_rendered(case):
            return False
        case.report, case.manifests, case.new_status = known.rendered
        self._kept.put(case.uid, known)
        return True

    def keep(self, case: Case) -> None:
        """Remember what was rendered, where it is what the object's status says already."""
        if case.new_status == case.status:
            rendered = case.report, case.manifests, case.new_status
            self._kept.put(case.uid, _Last(case.body, _what_is_rendered(case), rendered))
