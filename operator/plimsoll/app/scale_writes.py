"""Who else writes ``spec.replicas`` through the scale subresource, when, and whether that happens again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.domain.times import from_rfc3339

LAST_SCALED = "plimsollLastScaled"
"""Key under which the store keeps the last writer of the scale subresource: managedFields are large."""

CONTEST_SECONDS = 3600.0
"""The time in which writes are counted, and after which a contest is over."""

LEAST_WRITES = 3
"""Writes of one client within that time that make a contest. One or two are a person's or a deployment tool's."""

_PEOPLE = ("kubectl",)
"""Beginnings of the field managers of people's own tools (``kubectl scale`` is ``kubectl``)."""


@dataclass(frozen=True, slots=True)
class ScaleWrite:
    """The last write of ``spec.replicas`` through the scale subresource: its field manager, and POSIX seconds.

    The API server gives whole seconds, by its own clock. It keeps no trace of a write that changes nothing.
    """

    manager: str
    at: float


def last_scaled(entries: Iterable[Mapping[str, Any]]) -> dict[str, str] | None:
    """Return the last writer among managed fields, as the store keeps it; None where nobody scaled the object."""
    found = [
        {"manager": str(entry.get("manager")), "time": str(entry.get("time"))}
        for entry in entries
        if entry.get("subresource") == "scale" and "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    return max(found, key=lambda each: each["time"], default=None)


def scale_write_of(body: Mapping[str, Any]) -> ScaleWrite | None:
    """Return the last write as the store keeps it; None where there is none, or its time is unusable."""
    kept = body.get(LAST_SCALED)
    at = from_rfc3339(str(kept.get("time"))) if isinstance(kept, Mapping) else None
    return None if at is None or not isinstance(kept, Mapping) else ScaleWrite(str(kept.get("manager")), at)


@dataclass(slots=True)
class ScaleWrites:
    """The writes of the last hour, by the object's uid. A new process counts anew."""

    _by_uid: dict[str, tuple[ScaleWrite, ...]] = field(default_factory=dict)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget objects that are gone."""
        living = set(uids)
        self._by_uid = {uid: writes for uid, writes in self._by_uid.items() if uid in living}

    def contender(self, uid: str, last: ScaleWrite | None, now: float) -> str:
        """Note the last write. Return the client that has written often lately; empty where there is none."""
        writes = [each for each in self._by_uid.get(uid, ()) if now - each.at < CONTEST_SECONDS]
        if last is not None and last not in writes and now - last.at < CONTEST_SECONDS:
            writes.append(last)
        self._by_uid[uid] = tuple(writes)
        by_others = [each.manager for each in writes if not each.manager.startswith(_PEOPLE)]
        often = [manager for manager in by_others if by_others.count(manager) >= LEAST_WRITES]
        return often[-1] if often else ""
