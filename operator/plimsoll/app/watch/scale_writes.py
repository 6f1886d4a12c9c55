"""Changes of ``spec.replicas`` by others: how often they come, and those that a pass sees only by the generation.

For custom resources the API server keeps no managed fields of writes through the scale subresource (Kubernetes 1.36),
so nothing says who wrote. The generation counts every write that changes the spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.decision.deployment import LEAST_CHANGES

CONTEST_SECONDS = 3600.0
"""The time in which changes are counted, and after which a contest is over."""

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Known:
    """The spec that was seen last, with its generation.

    ``changes`` are the times in POSIX seconds at which another ``spec.replicas`` was seen, without those from and to 0:
    people stop and wake deployments by them. ``returned`` is the last generation that was reached by several writes and
    has the spec of the one before.
    """

    generation: int
    spec: Spec
    changes: tuple[float, ...] = ()
    returned: int | None = None

    def after(self, generation: int, spec: Spec, now: float) -> _Known:
        """Return what is known after another generation."""
        is_back = generation > self.generation and spec == self.spec
        before, after = self.spec.get("replicas"), spec.get("replicas")
        is_changed = before != after and bool(before) and bool(after)
        recent = tuple(at for at in self.changes if now - at < CONTEST_SECONDS)
        changes = (*recent, now) if is_changed else recent
        return _Known(generation, spec, changes, generation if is_back else None)


@dataclass(slots=True)
class ScaleWrites:
    """The specs of all objects as they were seen last, by uid. A new process counts anew."""

    _by_uid: dict[str, _Known] = field(default_factory=dict)

    def look(self, uid: str, generation: int, spec: Spec, now: float) -> None:
        """Note the spec of an object in a pass."""
        known = self._by_uid.get(uid)
        if known is None:
            self._by_uid[uid] = _Known(generation, spec)
        elif known.generation != generation:
            self._by_uid[uid] = known.after(generation, spec, now)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget objects that are gone."""
        living = set(uids)
        self._by_uid = {uid: known for uid, known in self._by_uid.items() if uid in living}

    def is_contested(self, uid: str, now: float) -> bool:
        """Whether ``spec.replicas`` was changed often lately."""
        known = self._by_uid.get(uid)
        return known is not None and sum(now - at < CONTEST_SECONDS for at in known.changes) >= LEAST_CHANGES

    def came_back(self, uid: str, observed: int | None) -> bool:
        """Whether the spec was changed and changed back, and no status that was written knows of it yet.

        ``observed`` is the generation of the last status.
        """
        known = self._by_uid.get(uid)
        return known is not None and known.returned is not None and known.returned != observed
