"""A client's last write about something, as a proxy plays it: neither it nor any write after it gets an answer."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from enum import StrEnum


class Fate(StrEnum):
    """The fate of a write: it passes, it is applied without an answer, or it is lost."""

    PASSES = "passes"
    APPLIED = "applied"
    LOST = "lost"


@dataclass(slots=True, eq=False)
class LastWrite:
    """Which write is the last one, and what came of it.

    Attributes:
        about: regular expression of paths; the writes of all other paths pass.
        method: the HTTP method of the last write.
        path: regular expression of its path.
        nth: only the n-th write like this is the last one, counted from 1.
        applied: whether the API server gets it.
        seen: writes like this so far.
        came: whether it came.
        status: what the API server answered to it; 0 while it has not answered.
        gone: set when the client may be let go.
    """

    about: str
    method: str
    path: str
    nth: int = 1
    applied: bool = False
    seen: int = 0
    came: bool = False
    status: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_held(self) -> bool:
        """Whether the client waits for an answer that it will not get, with everything as it is to be at its death."""
        return self.came and (bool(self.status) or not self.applied)

    def fate(self, method: str, path: str) -> Fate:
        """Count a write, and say what becomes of it."""
        if re.search(self.about, path) is None:
            return Fate.PASSES
        if self.came:
            return Fate.LOST
        if method == self.method and re.search(self.path, path):
            self.seen += 1
            self.came = self.seen == self.nth
        if not self.came:
            return Fate.PASSES
        return Fate.APPLIED if self.applied else Fate.LOST
