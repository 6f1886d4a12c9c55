"""Values that are kept from pass to pass: what a whole pass does not use is dropped."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from plimsoll.domain.requests.serving import Request

T = TypeVar("T")


@dataclass(slots=True)
class Kept(Generic[T]):
    """Values by key: those used in this pass and those of the pass before."""

    now: dict[Hashable, T] = field(default_factory=dict)
    before: dict[Hashable, T] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a new pass."""
        self.now, self.before = {}, self.now

    def get(self, key: Hashable) -> T | None:
        """The latest value."""
        known = self.now.get(key)
        return self.before.get(key) if known is None else known

    def put(self, key: Hashable, value: T) -> T:
        """Keep a value until a whole pass does not use it."""
        self.now[key] = value
        return value


@dataclass(frozen=True, slots=True)
class _Changed:
    """A request with changed fields, and the request that it was made from."""

    of: Request
    request: Request


@dataclass(slots=True)
class ChangedRequests:
    """Requests with changed fields. An equal one is given again as the same object: then comparing it costs nothing."""

    _kept: Kept[_Changed] = field(default_factory=Kept)

    def begin(self) -> None:
        """Begin a new pass."""
        self._kept.begin()

    def of(self, uid: str, request: Request, **changes: Any) -> Request:
        """The request with these values; the same Python object as in the last pass if nothing has changed."""
        if _has(request, changes):
            return request
        key = uid, *changes
        known = self._kept.get(key)
        if known is None or known.of is not request or not _has(known.request, changes):
            known = _Changed(request, replace(request, **changes))
        return self._kept.put(key, known).request

    def each(self, uid: str, request: Request, find: Callable[[Request], dict[str, Any]]) -> Request:
        """The same with values that are found for the request of each engine that may run it."""
        changes = find(request)
        for name in ("others", "alternatives"):
            if elsewhere := getattr(request, name):
                changes[name] = tuple(replace(other, **find(other)) for other in elsewhere)
        return self.of(uid, request, **changes)


def _has(request: Request, values: Mapping[str, Any]) -> bool:
    return all(getattr(request, name) == value for name, value in values.items())
