"""Answers found before: the next pass asks nearly the same questions again.

A memo changes how long a plan takes and never what it says: an answer is given again only where all that it was found
from is equal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

from plimsoll.domain.serving import Request

Answer = TypeVar("Answer")
Answers = dict[Hashable, tuple[object, Any]]

MOST_ANSWERS = 50_000
"""Answers that are kept: 36 candidates of 1,400 different requests. By the sizes of their objects an answer takes about
a KiB, so these take some 55 MiB of the 512 that the chart gives the operator."""

_NEVER_READ = ("key", "replicas", "created", "cpu_millis", "memory_bytes")
"""Fields of a request that no remembered answer depends on, but by its basis.

Whose it is bears on its namespace's quota, and its CPU and memory on the nodes that have room. Both are part of the
basis wherever room is looked at.
"""

_what_is_asked = attrgetter(*(each.name for each in fields(Request) if each.name not in _NEVER_READ))


class Memo:
    """At most ``most`` answers about requests; what was asked about longest ago is forgotten first.

    Requests that ask for the same share their answers, whoever made them. Of each question about a request the last
    answer is kept, so that a world that changes does not fill the memo.
    """

    def __init__(self, most: int = MOST_ANSWERS) -> None:
        self._most = most
        self._count = 0
        self._requests: OrderedDict[tuple[Any, ...], Answers] = OrderedDict()
        self._last: tuple[Request, Answers] | None = None

    def __len__(self) -> int:
        """Answers that are kept."""
        return self._count

    @property
    def requests(self) -> int:
        """Requests that take up room."""
        return len(self._requests)

    def recall(self, request: Request, question: Hashable, basis: object, find: Callable[[], Answer]) -> Answer:
        """The answer to ``question`` about ``request``: the known one if its ``basis`` is equal, else a new one.

        ``basis`` is all that the answer depends on besides the request. ``find`` may ask the memo in its turn.
        """
        known = self._about(request).get(question)
        if known is not None and known[0] == basis:
            remembered: Answer = known[1]
            return remembered
        found = find()
        answers = self._about(request)
        self._count += question not in answers
        answers[question] = basis, found
        self._forget()
        return found

    def _about(self, request: Request) -> Answers:
        """The answers about what the request asks for, which count as asked for now."""
        if self._last is not None and self._last[0] is request:  # one request is asked about many times in a row
            return self._last[1]
        asked = _what_is_asked(request)
        answers = self._requests.setdefault(asked, {})
        self._requests.move_to_end(asked)
        if len(self._requests) > max(1, self._most):  # those whose questions all raise have no answers to be counted
            self._count -= len(self._requests.popitem(last=False)[1])
        self._last = request, answers
        return answers

    def _forget(self) -> None:
        while self._count > self._most:
            _, forgotten = self._requests.popitem(last=False)
            self._count -= len(forgotten)
            self._last = None
