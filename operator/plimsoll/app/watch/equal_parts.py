"""Keeps equal parts of objects once: a thousand Deployments of a few models differ in little but their names."""

from __future__ import annotations

from sys import intern
from typing import Any

MOST_KEPT = 16_384
MOST_MEMBERS = 400_000
"""The most parts to remember, and the most members and texts of 64 characters in them: some 50 MiB. When there are
more, all are forgotten, and later objects share among themselves. So versions of a large object leave little behind."""

_parts: dict[int, Any] = {}
_ids: set[int] = set()
"""The ids of the kept parts, to know one at once."""

_members = 0


def shared(value: Any) -> Any:
    """Return an equal JSON value that consists of parts of earlier values if these are equal.

    The result must never be changed in place: others hold parts of it.
    """
    kind = type(value)
    if kind is str:
        return intern(value)
    if id(value) in _ids:
        return value
    if kind is dict:
        value = {intern(name): shared(part) for name, part in value.items()}
        return _kept((*value, *map(_identity, value.values())), value)
    if kind is list:
        value = [shared(part) for part in value]
        return _kept((list, *map(_identity, value)), value)
    return value


def _identity(part: Any) -> Any:
    """The identity of a part. JSON distinguishes 1 from 1.0 and from true, and Python does not."""
    kind = type(part)
    return (kind, part) if kind is int or kind is float or kind is bool or part is None else id(part)


def _kept(key: tuple[Any, ...], value: Any) -> Any:
    """The kept value for this key; this value if there is none, or if an unequal value has the same hash."""
    global _members  # noqa: PLW0603 - of the module's one collection
    if len(_parts) >= MOST_KEPT or _members >= MOST_MEMBERS:
        _parts.clear()
        _ids.clear()
        _members = 0
    known = _parts.setdefault(hash(key), value)
    if known is value:
        _ids.add(id(value))
        texts = value.values() if isinstance(value, dict) else value
        _members += len(value) + sum(len(each) // 64 for each in texts if isinstance(each, str))
    return known if known == value else value
