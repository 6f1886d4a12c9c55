"""Faults of an API server as its clients meet them, and the rules that say which requests they hit."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verb(StrEnum):
    """How a request behaves: it changes something, it reads once, or it stays open."""

    READ = "read"
    WRITE = "write"
    WATCH = "watch"


EVERY_VERB = frozenset(Verb)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of our own making.

    Attributes:
        status: HTTP status.
        body: sent as it is.
        content_type: its header.
        headers: further headers.
        applied: whether the API server gets the request first; its answer is thrown away.
    """

    status: int = 200
    body: str = ""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    applied: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is passed on after a while. Adds up with other delays, and with one fault of another kind."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing is passed on and nothing is answered, until the client leaves or the rule goes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is reset; ``applied`` says that the API server got the request before."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """The answer ends in the middle of its JSON, and its length says that this is all."""


@dataclass(frozen=True, slots=True)
class EmptyList:
    """A list without its items, with everything else as the API server said it."""


@dataclass(frozen=True, slots=True)
class CutStream:
    """A watch is reset when it has carried so many lines."""

    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class Silence:
    """A watch stays open and carries nothing any more, not even after the rule is gone."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a watch of these types are dropped (``copies=0``) or repeated."""

    types: frozenset[str]
    copies: int = 0


Fault = Answer | Delay | Hang | Cut | Truncate | EmptyList | CutStream | Silence | Lines
OF_STREAMS = (CutStream, Silence, Lines)
"""Faults that hit a watch line by line, also one that was open before the rule."""


def failure(
    status: int, message: str, *, retry_after: int | None = None, applied: bool = False, reason: str = ""
) -> Answer:
    """An error as the API server words it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status,
    }
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Answer(status, json.dumps(body), headers=headers, applied=applied)


def too_many_requests(retry_after: int = 1) -> Answer:
    """What priority and fairness answers when a client's share is used up."""
    message = "too many requests, please try again later"
    return failure(429, message, retry_after=retry_after, reason="TooManyRequests")


def version_gone() -> Answer:
    """Return the error event of a watch whose version was compacted away. Its HTTP status is 200."""
    status = json.loads(failure(410, "too old resource version: 1 (2)", reason="Expired").body)
    return Answer(body=json.dumps({"type": "ERROR", "object": status}) + "\n")


def timeout_after_applying() -> Answer:
    """The request was carried out, and the answer says that nobody knows."""
    message = "Timeout: request did not complete within requested timeout"
    return failure(504, message, applied=True, reason="Timeout")


def html(status: int = 200, *, applied: bool = False) -> Answer:
    """A load balancer's page."""
    return Answer(status, "<html><body><h1>It works!</h1></body></html>", "text/html", applied=applied)


@dataclass(slots=True, eq=False)
class Rule:
    """Which requests a fault hits.

    Attributes:
        fault: what happens to them.
        verbs: kinds of requests.
        path: regular expression, searched in path and query.
        nth: only the n-th match, counted from 1.
        times: only so many hits.
        share: share of the matches that are hit, by ``seed``.
        seed: of the dice.
        matched: matches so far.
        hits: hits so far.
        gone: set when the rule was taken away.
    """

    fault: Fault
    verbs: Collection[Verb] = EVERY_VERB
    path: str = ""
    nth: int | None = None
    times: int | None = None
    share: float = 1.0
    seed: int = 0
    matched: int = 0
    hits: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    _dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311 - faults must be repeatable, not secret

    def matches(self, verb: Verb, path: str) -> bool:
        """Whether the rule speaks of such a request at all."""
        return verb in self.verbs and re.search(self.path, path) is not None

    def strikes(self, verb: Verb, path: str) -> bool:
        """Count a request that matches, and decide whether it is hit."""
        if not self.matches(verb, path):
            return False
        self.matched += 1
        is_its_turn = self.nth in (None, self.matched)
        has_some_left = self.times is None or self.hits < self.times
        if not (is_its_turn and has_some_left and self._dice.random() < self.share):
            return False
        self.hits += 1
        return True
