"""The objects of the cluster as the watches report them: the shell keeps no other copy.

Kopf does not report deletions that happened while a watch was broken. So every kind is also listed from time to time,
and the list replaces the stored objects. An older version of an object never replaces a newer one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from plimsoll.adapters.cluster.kinds import ObjectKind, version_number
from plimsoll.app.watch.sizes import SMALL_BYTES, ObjectSize, Shares, TooLargeObject
from plimsoll.domain.kubernetes_names import ObjectKey

Body = Mapping[str, Any]
Pruner = Callable[[Body], Body | None]
"""Reduces an object to the parts that are read here; None leaves the object out."""

VANISH_GUARD = 5
"""A list that misses more than this many objects and more than half of all is used only if a second list confirms
it."""

_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
_STORED = "plimsoll.dev/stored"
"""Marks an object of a list of which only the identity is left: whether this version is stored. If not, the stored one
is newer."""

logger = logging.getLogger("plimsoll.store")


class HistoryLost(Exception):
    """Lists contradict what was seen before: the API server's data was restored from a backup.

    The store may hold versions of objects that the restored data never had. It cannot tell which ones.
    """


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a kind whose large objects are not kept whole.

    Args:
        measure: the size of an object as it was read.
        reduce: leaves only the identity of an object, as it was read or as it is kept, with the reason.
        reason: why only the identity of a kept object is there; None if it is whole.
        small_bytes: an object up to this size takes nothing of its namespace's share.
    """

    measure: Callable[[Body], ObjectSize]
    reduce: Callable[[Body, TooLargeObject], Body]
    reason: Callable[[Body], TooLargeObject | None]
    small_bytes: int = SMALL_BYTES


class ObjectPage:
    """The objects of one kind at one moment. Pictures share a page until an object changes. It is sorted once."""

    def __init__(self, objects: Mapping[ObjectKey, Body]) -> None:
        self.objects = objects

    @cached_property
    def ordered(self) -> tuple[Body, ...]:
        """The objects, sorted by key."""
        return tuple(self.objects[key] for key in sorted(self.objects))


@dataclass(frozen=True, slots=True)
class Picture:
    """The objects at one moment, for a thread that must not see them change. Bodies are never changed in place.

    ``versions`` count the changes of each kind: two pictures with the same count hold the same objects.
    ``read`` are the kinds that were listed. Others may not be read, or do not exist.
    """

    pages: Mapping[ObjectKind, ObjectPage]
    versions: Mapping[ObjectKind, int]
    read: frozenset[ObjectKind] = frozenset()

    def all(self, kind: ObjectKind) -> tuple[Body, ...]:
        """Every object of a kind, by key."""
        return self.pages[kind].ordered

    def get(self, kind: ObjectKind, key: ObjectKey) -> Body | None:
        """One object, or None."""
        return self.pages[kind].objects.get(key)


@dataclass(slots=True)
class InformerCache:
    """The objects of one kind, and the state of its lists and its watch."""

    prune: Pruner
    shares: Shares
    bounds: Bounds | None = None
    is_needed: bool = True
    is_watched: bool = True
    objects: dict[ObjectKey, Body] = field(default_factory=dict)
    buried: dict[str, int] = field(default_factory=dict)
    listed_at: float = 0.0
    list_version: int = 0
    doubted: bool = False
    version: int = 0
    page: ObjectPage | None = None
    ahead: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Changes (uid, version, since) that a list showed and the watch has not delivered yet."""

    is_new_watch: bool = True
    """Whether no list since the watch began has been stored: another one may show changes from before it began."""

    list_follows: bool = False
    """Whether the list that is being read was requested after the watch began."""


class Store:
    """Objects by kind and key. Not thread-safe: it lives in the event loop, and gives threads a :meth:`picture`.

    Args:
        pruners: the kinds, each with the function that reduces its objects.
        on_change: called after every change that needs a new pass.
        optional: kinds that may not be readable at all: the picture is complete without them.
        unwatched: kinds that are read from lists only, fully or in part: no watch must deliver their changes.
        is_quiet: whether a (reduced) object counts in sums only, so that its changes need no new pass.
        bounds: kinds of which large objects are not kept whole.
    """

    def __init__(
        self,
        pruners: Mapping[ObjectKind, Pruner],
        on_change: Callable[[], None],
        *,
        optional: Collection[ObjectKind] = (),
        unwatched: Collection[ObjectKind] = (),
        is_quiet: Callable[[Body], bool] = lambda _: False,
        bounds: Mapping[ObjectKind, Bounds] = MappingProxyType({}),
    ) -> None:
        shares = Shares()  # one for all kinds: a namespace fills its share with whatever it likes
        self._caches = {
            kind: InformerCache(
                prune, shares, bounds.get(kind), is_needed=kind not in optional, is_watched=kind not in unwatched
            )
            for kind, prune in pruners.items()
        }
        self._on_change = on_change
        self._is_quiet = is_quiet

    def begin_watch(self, kind: ObjectKind) -> None:
        """Note that a watch begins anew: it delivers none of the changes before."""
        cache = self._caches[kind]
        cache.ahead.clear()
        cache.is_new_watch, cache.list_follows = True, False

    def observe(self, kind: ObjectKind, event: str, body: Body) -> None:
        """Store one watch event: ADDED, MODIFIED or DELETED."""
        cache, key = self._caches[kind], key_of(body)
        _heard(cache, event, body)
        if event == "DELETED":
            self._bury(cache, key, body)
            return
        if not _is_buried(cache, body):
            self._put(cache, key, body)

    def uids(self, kind: ObjectKind) -> frozenset[str]:
        """Return the uids of all objects of a kind. Call it before a list is requested."""
        cache = self._caches[kind]
        cache.list_follows = True
        return frozenset(uid_of(body) for body in cache.objects.values())

    def only_if_new(self, kind: ObjectKind, body: dict[str, Any]) -> dict[str, Any]:
        """Return the identity of a listed object, and whether this version of it is stored already."""
        known = self._caches[kind].objects.get(key_of(body))
        is_same = known is not None and same_uid(known, body) and version_of(body) == version_of(known)
        head = {name: body["metadata"][name] for name in _IDENTITY if name in body["metadata"]}
        return {"metadata": head, _STORED: is_same and not _may_be_whole(self._caches[kind], known)}

    def take(self, kind: ObjectKind, body: Body) -> dict[str, Any]:
        """Store a listed object at once, and return its identity for :meth:`replace`.

        So a list of large objects never is in memory as a whole.
        """
        cache, key = self._caches[kind], key_of(body)
        head = {name: body["metadata"][name] for name in _IDENTITY if name in body["metadata"]}
        known = cache.objects.get(key)
        is_older = known is not None and version_of(body) < version_of(known)
        if is_older or _is_buried(cache, body):
            return {"metadata": head, _STORED: False}
        _note_ahead(cache, {key: body}, (), None)
        self._put(cache, key, body)
        return {"metadata": head, _STORED: True}

    def was_listed(self, kind: ObjectKind) -> bool:
        """Whether a list of this kind has replaced its objects before."""
        return self._caches[kind].listed_at > 0

    def replace(
        self, kind: ObjectKind, bodies: Iterable[Body], known: frozenset[str] | None = None, *, list_version: int = 0
    ) -> bool:
        """Replace the objects of a kind by an authoritative list. False if it is too short or too old to trust at once.

        Args:
            kind: the kind to replace.
            bodies: the list.
            known: :meth:`uids` from before the list was requested. Objects that a watch added since then are newer than
                the list and not missing from it. None: the list is newer than everything stored.
            list_version: the list's own resource version; 0 for none.

        Raises:
            HistoryLost: two lists in a row contradict what was seen before.
        """
        cache = self._caches[kind]
        unchanged, bodies = _parted(bodies)
        contradiction = _contradiction(cache, bodies, list_version)
        if contradiction:
            if cache.doubted:
                raise HistoryLost(f"{kind.plural}: {contradiction}")
            logger.warning("a list of %s is not the newest: %s; asking again", kind.plural, contradiction)
            cache.doubted = True
            return False
        listed = {key_of(body): body for body in bodies if not _is_buried(cache, body)}
        fresh = {key: body for key, body in listed.items() if _STORED not in body}
        gone = [
            key
            for key, body in cache.objects.items()
            if key not in unchanged and key not in listed and (known is None or uid_of(body) in known)
        ]
        if len(gone) > VANISH_GUARD and 2 * len(gone) > len(cache.objects) and not cache.doubted:
            logger.warning(
                "a list of %s lost %d of %d objects; asking again", kind.plural, len(gone), len(cache.objects)
            )
            cache.doubted = True
            return False
        cache.doubted = False
        cache.list_version = max(cache.list_version, list_version)
        _note_ahead(cache, fresh, gone, known)
        cache.is_new_watch = cache.is_new_watch and not (cache.list_follows or known is None)
        for key in gone:
            cache.shares.forget(key, uid_of(cache.objects.pop(key)))
        if gone:
            self._changed(cache)
        for key, body in fresh.items():
            self._put(cache, key, body)
        is_first = not cache.listed_at
        cache.listed_at = time.monotonic()
        if is_first:
            self._on_change()  # an empty list adds no object, but the picture may be complete now
        return True

    def all(self, kind: ObjectKind) -> tuple[Body, ...]:
        """Every object of a kind, by key."""
        objects = self._caches[kind].objects
        return tuple(objects[key] for key in sorted(objects))

    def get(self, kind: ObjectKind, key: ObjectKey) -> Body | None:
        """One object, or None."""
        return self._caches[kind].objects.get(key)

    def picture(self) -> Picture:
        """Return all objects as they are now."""
        for cache in self._caches.values():
            if cache.page is None:
                cache.page = ObjectPage(dict(cache.objects))
        caches = self._caches.items()
        return Picture(
            {kind: cache.page for kind, cache in caches if cache.page is not None},
            {kind: cache.version for kind, cache in caches},
            frozenset(kind for kind, cache in caches if cache.listed_at),
        )

    def is_complete(self) -> bool:
        """Whether every needed kind has been listed at least once. Nothing is decided before that."""
        return all(cache.listed_at > 0 for cache in self._caches.values() if cache.is_needed)

    def excuse(self, kind: ObjectKind) -> bool:
        """Do without a kind that may not be read: the picture is complete without it. True if it was needed."""
        cache = self._caches[kind]
        was_needed, cache.is_needed = cache.is_needed and not cache.listed_at, False
        if was_needed:
            self._on_change()
        return was_needed

    def deaf_seconds(self, kind: ObjectKind) -> float:
        """How long the watch of a kind has missed a change that a list showed; 0 if it misses none."""
        since = [at for _, at in dict(self._caches[kind].ahead).values()]
        return time.monotonic() - min(since) if since else 0.0

    def list_age_seconds(self, kind: ObjectKind) -> float | None:
        """Seconds since a kind was listed; None if it never was."""
        listed_at = self._caches[kind].listed_at
        return time.monotonic() - listed_at if listed_at else None

    @property
    def kinds(self) -> tuple[ObjectKind, ...]:
        """The kinds kept here."""
        return tuple(self._caches)

    def _put(self, cache: InformerCache, key: ObjectKey, body: Body) -> None:
        known = cache.objects.get(key)
        is_known = known is not None and same_uid(known, body) and version_of(body) <= version_of(known)
        if (
            known is not None
            and is_known
            and not (version_of(body) == version_of(known) and _may_be_whole(cache, known))
        ):
            return
        if known is not None and not same_uid(known, body):
            cache.shares.forget(key, uid_of(known))
        pruned = self._cut(cache, key, body if known is None else _reusing(known, body))
        if pruned is None:
            if known is None:
                return
            del cache.objects[key]
        else:
            cache.objects[key] = pruned if known is None else _reusing(known, pruned)
            cache.page = None
            if known is not None and _says_the_same(known, pruned):
                return
        self._changed(cache, *(each for each in (known, pruned) if each is not None))
        if cache.bounds is not None:
            self._reduce_others(cache.shares.refused())

    def _cut(self, cache: InformerCache, key: ObjectKey, body: Body) -> Body | None:
        """The reduced object; None if nothing of it is needed or if it cannot be read."""
        try:
            reason = _too_large(cache, key, body)
            return cache.prune(body) if cache.bounds is None or reason is None else cache.bounds.reduce(body, reason)
        except Exception as error:  # noqa: BLE001 - one object that cannot be read must not end the list of all
            logger.warning("%s cannot be read and is left out: %s: %s", key, type(error).__name__, error)
            return None

    def _reduce_others(self, refused: Mapping[str, TooLargeObject]) -> None:
        """Keep only the identity of objects for which older ones leave no room."""
        if not refused:
            return
        for cache in self._caches.values():
            if cache.bounds is None:
                continue
            for key, kept in list(cache.objects.items()):
                reason = refused.get(uid_of(kept))
                if reason is not None and cache.bounds.reason(kept) is None:
                    cache.objects[key] = cache.bounds.reduce(kept, reason)
                    self._changed(cache)

    def _changed(self, cache: InformerCache, *bodies: Body) -> None:
        """Count a change. Report it, unless all of its objects are quiet."""
        cache.version += 1
        cache.page = None
        if not bodies or not all(self._is_quiet(body) for body in bodies):
            self._on_change()

    def _bury(self, cache: InformerCache, key: ObjectKey, body: Body) -> None:
        """Delete an object by its uid: another object of the same name may have been created since."""
        cache.buried[uid_of(body)] = version_of(body)
        if len(cache.buried) > 10_000:  # noqa: PLR2004 - limits memory; no events come for old deletions
            cache.buried.clear()
        known = cache.objects.get(key)
        if known is not None and same_uid(known, body):
            del cache.objects[key]
            cache.shares.forget(key, uid_of(known))
            self._changed(cache, known)


def _too_large(cache: InformerCache, key: ObjectKey, body: Body) -> TooLargeObject | None:
    """Note the size of an object. Return why it is not kept whole; None if it is."""
    if cache.bounds is None:
        return None
    size, uid = cache.bounds.measure(body), uid_of(body)
    born = str(body["metadata"].get("creationTimestamp"))
    cache.shares.note(key, uid, born, size, cache.bounds.small_bytes)
    return cache.shares.refused().get(uid) if size.is_allowed else TooLargeObject(size)


def _may_be_whole(cache: InformerCache, kept: Body | None) -> bool:
    """Whether only the identity of an object is kept, and there is room for all of it by now."""
    if cache.bounds is None or kept is None:
        return False
    reason = cache.bounds.reason(kept)
    return reason is not None and reason.size.is_allowed and uid_of(kept) not in cache.shares.refused()


def _parted(bodies: Iterable[Body]) -> tuple[set[ObjectKey], list[Body]]:
    """Return the keys of the listed objects that are stored in the listed version, and the other objects.

    Of the former a list only says that they still exist.
    """
    unchanged: set[ObjectKey] = set()
    others: list[Body] = []
    for body in bodies:
        if body.get(_STORED):
            unchanged.add(key_of(body))
        else:
            others.append(body)
    return unchanged, others


def _heard(cache: InformerCache, event: str, body: Body) -> None:
    """Update the missed changes: the watch has delivered one."""
    owed = cache.ahead.get(uid_of(body))
    if owed is not None and (event == "DELETED" or version_of(body) >= owed[0]):
        del cache.ahead[uid_of(body)]


def _contradiction(cache: InformerCache, bodies: Iterable[Body], list_version: int) -> str:
    """Say why a list cannot follow what was seen before; empty if it can.

    A list at version N shows every object at its last version up to N. A restored backup soon counts past the versions
    that were seen before it was restored, so that the number of the list alone proves nothing.
    """
    if list_version < cache.list_version:
        return f"version {list_version} was listed after {cache.list_version}" if list_version else ""
    for body in bodies:
        held = cache.objects.get(key_of(body))
        held_version = version_of(held) if held is not None and same_uid(held, body) else -1
        seen = max(held_version, cache.buried.get(uid_of(body), -1))
        if version_of(body) < seen <= list_version:
            return f"version {list_version} shows {key_of(body)} at {version_of(body)} after {seen}"
    return ""


def _note_ahead(
    cache: InformerCache, fresh: Mapping[ObjectKey, Body], gone: Iterable[ObjectKey], known: frozenset[str] | None
) -> None:
    """Note changes that a list shows and the watch has not delivered: it may be late, or it may be broken."""
    if not cache.is_watched or cache.is_new_watch:
        return
    now = time.monotonic()
    for key, body in fresh.items():
        held = cache.objects.get(key)
        if held is not None and same_uid(held, body) and version_of(body) > version_of(held):
            cache.ahead.setdefault(uid_of(body), (version_of(body), now))
    for key in gone:
        uid = uid_of(cache.objects[key])
        if known is None or uid in known:
            cache.ahead.setdefault(uid, (0, now))


def is_stored(body: Body) -> bool:
    """Whether :meth:`Store.only_if_new` left only the identity of a listed object."""
    return bool(body.get(_STORED))


def key_of(body: Body) -> ObjectKey:
    """An object's key; the namespace of a cluster-wide object is empty."""
    head = body["metadata"]
    return ObjectKey(head.get("namespace") or "", head["name"])


def version_of(body: Body) -> int:
    """The resource version. etcd increases it with every write."""
    return version_number(body["metadata"])


def uid_of(body: Body) -> str:
    """An object's identity: its name may be used again, its uid is not."""
    return str(body["metadata"].get("uid"))


def same_uid(one: Body, other: Body) -> bool:
    """Whether two versions are of one object."""
    return uid_of(one) == uid_of(other)


def _is_buried(cache: InformerCache, body: Body) -> bool:
    return version_of(body) <= cache.buried.get(uid_of(body), -1)


def _reusing(known: Body, body: Body) -> Body:
    """The new version of an object with the unchanged parts of the known one.

    Others may hold the known version for as long as nothing has changed for them. So its parts are not kept twice.
    Only JSON is compared: a value that a pruner added may equal an older one and still refer to older JSON.
    """
    return {
        name: known[name] if isinstance(part, dict | list) and known.get(name) == part else part
        for name, part in body.items()
    }


def _says_the_same(one: Body, other: Body) -> bool:
    """Whether two objects differ only in their version: after heartbeats, or changes of parts that are pruned away."""
    return _unversioned(one) == _unversioned(other)


def _unversioned(body: Body) -> dict[str, Any]:
    head = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
    return {**body, "metadata": head}
