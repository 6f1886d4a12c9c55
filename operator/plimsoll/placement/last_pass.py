"""The last pass's answers for each deployment: most ask for nothing, and nothing about them changes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from plimsoll.domain.fleet import Fleet, Layout
from plimsoll.domain.keys import ObjectKey

Answer = TypeVar("Answer")


class LastPass:
    """The last answer to each question about a deployment, with everything that the answer depends on.

    An answer is used again only where all its inputs are equal, so it saves time and changes no decision.
    """

    def __init__(self) -> None:
        self._answers: dict[ObjectKey, dict[str, tuple[tuple[object, ...], Any]]] = {}
        self._seen: tuple[Fleet, Layout] | None = None
        self._emptied: tuple[Layout, Fleet] | None = None
        self._versions: dict[str, tuple[object, int]] = {}

    def __len__(self) -> int:
        """The number of deployments with an answer."""
        return len(self._answers)

    def layout(self, fleet: Fleet) -> Layout:
        """Return the fleet's layout: the same Python object as before where it is equal, so that comparing is quick."""
        if self._seen is None or self._seen[0] is not fleet:
            known = None if self._seen is None else self._seen[1]
            self._seen = fleet, known if known is not None and known == fleet.layout else fleet.layout
        return self._seen[1]

    def emptied(self, fleet: Fleet) -> Fleet:
        """Return the fleet with nothing running: the same Python object as before while the layout is equal."""
        layout = self.layout(fleet)
        if self._emptied is None or self._emptied[0] is not layout:
            self._emptied = layout, fleet.emptied
        return self._emptied[1]

    def version(self, name: str, value: object) -> int:
        """Return a number that stays the same while the value of that name is equal to the last one."""
        known = self._versions.get(name)
        number = 0 if known is None else known[1] if known[0] == value else known[1] + 1
        self._versions[name] = value, number
        return number

    def recall(self, key: ObjectKey, question: str, basis: tuple[object, ...], find: Callable[[], Answer]) -> Answer:
        """Return the answer to a question about a deployment: the last one if ``basis`` is equal, else a new one."""
        known = self._answers.get(key, {}).get(question)
        if known is not None and known[0] == basis:
            remembered: Answer = known[1]
            return remembered
        found = find()
        self._answers.setdefault(key, {})[question] = basis, found
        return found

    def forget_all_but(self, keys: Collection[ObjectKey]) -> None:
        """Drop the answers about all other deployments."""
        for key in self._answers.keys() - keys:
            del self._answers[key]
