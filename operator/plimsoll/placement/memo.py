"""A cache of answers: the next pass asks nearly the same questions again.

A memo makes a plan faster and never changes it: an answer is used again only if all its inputs are equal.

The last pass's answers for each deployment: most ask for nothing, and nothing about them changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

from plimsoll.domain.cluster.fleet import Fleet, Layout
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request

Answer = TypeVar("Answer")


class LastPass:
    """The last answer to each question about a deployment, with everything that the answer depends on.

    An answer is used again only if all its inputs are equal, so it saves time and changes no decision.
    """

    def __init__(self) -> None:
        self._answers: dict[str, dict[ObjectKey, tuple[tuple[object, ...], Any]]] = {}
        """By question and deployment."""
        self._seen: tuple[Fleet, Layout] | None = None
        self._of_layout: dict[str, tuple[Layout, Any]] = {}
        self._values: dict[str, Any] = {}

    def __len__(self) -> int:
        """The number of deployments with an answer."""
        return len(set().union(*self._answers.values()))

    def layout(self, fleet: Fleet) -> Layout:
        """Return the fleet's layout: the same Python object as before if it is equal, so that comparing is quick."""
        if self._seen is None or self._seen[0] is not fleet:
            known = self._seen
            self._seen = fleet, known[1] if known is not None and fleet.has_layout_of(*known) else fleet.layout
        return self._seen[1]

    def emptied(self, fleet: Fleet) -> Fleet:
        """Return the fleet with nothing running: the same Python object as before while the layout is equal."""
        return self.of_layout("emptied", fleet, lambda: fleet.emptied)

    def of_layout(self, name: str, fleet: Fleet, find: Callable[[], Answer]) -> Answer:
        """Return what follows from the layout of a fleet: the same Python object as before while that is equal."""
        layout = self.layout(fleet)
        known = self._of_layout.get(name)
        if known is None or known[0] is not layout:
            known = self._of_layout[name] = layout, find()
        answer: Answer = known[1]
        return answer

    def same(self, name: str, value: Answer) -> Answer:
        """Return the last value of that name while it is equal, so that comparing it is quick."""
        known = self._values.get(name)
        if known != value:
            known = self._values[name] = value
        return known

    def recall(self, key: ObjectKey, question: str, basis: tuple[object, ...], find: Callable[[], Answer]) -> Answer:
        """Return the answer to a question about a deployment: the last one if ``basis`` is equal, else a new one."""
        answers = self._answers.setdefault(question, {})
        known = answers.get(key)
        if known is not None and known[0] == basis:
            remembered: Answer = known[1]
            return remembered
        found = find()
        answers[key] = basis, found
        return found

    def forget_all_but(self, keys: Collection[ObjectKey]) -> None:
        """Drop the answers about all other deployments."""
        for answers in self._answers.values():
            for key in answers.keys() - keys:
                del answers[key]


Answers = dict[Hashable, tuple[object, Any]]

MOST_ANSWERS = 50_000
"""The most answers that are kept: 36 candidates of 1,400 different requests. By the sizes of its objects, an answer
takes about a KiB, so these take some 55 MiB of the 512 that the chart gives the operator."""

_NEVER_READ = (
    *("key", "replicas", "created", "is_sized"),
    *("cpu_millis", "memory_bytes", "cpu_limit_millis", "memory_limit_bytes", "limit_ranges", "other_limits"),
    "companions",
    "least_on_demand",
)
"""Fields of a request on which a cached answer depends only through its basis.

The owner of a request decides its namespace's quota, and ``least_on_demand`` its own limit of spot nodes. Its CPU and
memory decide which nodes have room. The basis holds all of them wherever an answer depends on room. ``host_allowance``
and ``admission`` hold the figures that a candidate is judged by.
"""

_what_is_asked = attrgetter(
    *(each.name for each in fields(Request) if each.name not in _NEVER_READ), "host_allowance", "admission"
)


class Memo:
    """A cache of at most ``most`` answers about requests. The least recently used request is removed first.

    Requests with equal content share their answers, whoever made them. The memo keeps only the last answer to each
    question about a request, so that a changing cluster does not fill it. ``last`` keeps answers about deployments.
    """

    def __init__(self, most: int = MOST_ANSWERS) -> None:
        self.last = LastPass()
        self._most = most
        self._count = 0
        self._requests: OrderedDict[tuple[Any, ...], Answers] = OrderedDict()
        self._last: tuple[Request, Answers] | None = None

    def __len__(self) -> int:
        """The number of answers in the memo."""
        return self._count

    @property
    def requests(self) -> int:
        """The number of requests in the memo."""
        return len(self._requests)

    def recall(self, request: Request, question: Hashable, basis: object, find: Callable[[], Answer]) -> Answer:
        """Return the answer to ``question`` about ``request``: the cached one if ``basis`` is equal, else a new one.

        ``basis`` is everything that the answer depends on, except the request. ``find`` may call the memo as well.
        """
        known = self._about(request).get(question)
        if known is not None and (known[0] is basis or known[0] == basis):
            remembered: Answer = known[1]
            return remembered
        found = find()
        answers = self._about(request)
        self._count += question not in answers
        answers[question] = basis, found
        self._forget()
        return found

    def _about(self, request: Request) -> Answers:
        """Return the answers about the request's content, and mark them as used now."""
        if self._last is not None and self._last[0] is request:  # one request is asked about many times in a row
            return self._last[1]
        asked = _what_is_asked(request)
        answers = self._requests.setdefault(asked, {})
        self._requests.move_to_end(asked)
        # A request whose questions all raise has no answers, so counting answers alone would never remove it.
        if len(self._requests) > max(1, self._most):
            self._count -= len(self._requests.popitem(last=False)[1])
        self._last = request, answers
        return answers

    def _forget(self) -> None:
        while self._count > self._most:
            _, forgotten = self._requests.popitem(last=False)
            self._count -= len(forgotten)
            self._last = None
