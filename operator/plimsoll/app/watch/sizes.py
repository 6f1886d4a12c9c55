"""How large an object may be, and how much of the operator's memory a namespace may fill with large ones.

JSON of short members takes 15 to 35 times its bytes in Python's dictionaries (measured: 20 objects of 1 MB took 508
MiB). So both characters and members are counted, and of an object over its limit only the identity is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from plimsoll.api.bounds import MOST_CHARACTERS, MOST_LEVELS, MOST_MEMBERS
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import KIB, MIB

MEMBER_BYTES = 128
"""Bytes of a member in addition to its characters: an entry of a dictionary, its value, its share of free slots."""

SMALL_BYTES = 8 * KIB
"""InferenceDeployments below this size count for no share: those of ``examples/`` take 1.2 to 5.8 KiB, with kubectl's
annotation."""

SMALL_WORKLOAD_BYTES = 64 * KIB
"""The same for the objects that the operator makes. A Deployment of its own has some 300 members, which take 45 KiB."""

MOST_OF_NAMESPACE = 8 * MIB
MOST_OF_ALL = 48 * MIB
"""The most that the large objects of one namespace, and those of all namespaces, may take in memory: all together
less than a tenth of the chart's memory limit of 512 MiB."""


class ObjectSize(NamedTuple):
    """The size of an object: characters of keys and texts (8 for a number), members of mappings and lists, levels."""

    characters: int
    members: int
    levels: int = 0

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory."""
        return self.characters + MEMBER_BYTES * self.members

    @property
    def is_allowed(self) -> bool:
        """Whether one object may be so large."""
        return self.characters <= MOST_CHARACTERS and self.members <= MOST_MEMBERS and self.levels <= MOST_LEVELS


def size_of(*parts: Any) -> ObjectSize:
    """Count what these JSON values hold. The count ends soon after a limit, so that its cost is bounded."""
    size, level = ObjectSize(0, 0, 0), list[Any](parts)
    while level and size.is_allowed:
        characters, members, below = size.characters, size.members, list[Any]()
        for node in level:
            if isinstance(node, dict):
                members += len(node)
                characters += sum(map(len, node))
                below += node.values()
            elif isinstance(node, list):
                members += len(node)
                below += node
            else:
                characters += len(node) if isinstance(node, str) else 8
            if characters > MOST_CHARACTERS or members > MOST_MEMBERS:
                return ObjectSize(characters, members, size.levels)
        size, level = ObjectSize(characters, members, size.levels + 1 if below else size.levels), below
    return size


class TooLargeObject(NamedTuple):
    """Why only the identity of an object is kept. ``taken`` and ``most`` are bytes; 0 if it alone is too large.

    ``taken`` counts the large objects of its namespace that are as old as it is, or older.
    """

    size: ObjectSize
    taken: int = 0
    most: int = 0


class _Large(NamedTuple):
    created: str
    uid: str
    size: ObjectSize


@dataclass(slots=True)
class Shares:
    """The large objects of each namespace, and which of them are kept: the older ones, as far as the share goes.

    No namespace is limited by another one, unless all large objects together take more than :data:`MOST_OF_ALL`: then
    those that take the most have less, and all of them the same.
    """

    _of: dict[str, dict[str, _Large]] = field(default_factory=dict)

    def note(self, key: ObjectKey, uid: str, created: str, size: ObjectSize, small_bytes: int = SMALL_BYTES) -> None:
        """Note the size of an object's newest version."""
        self.forget(key, uid)
        if size.held_bytes > small_bytes and size.is_allowed:
            self._of.setdefault(key.namespace, {})[uid] = _Large(created, uid, size)

    def forget(self, key: ObjectKey, uid: str) -> None:
        """Forget an object that is gone."""
        large = self._of.get(key.namespace, {})
        large.pop(uid, None)
        if not large:
            self._of.pop(key.namespace, None)

    def refused(self) -> dict[str, TooLargeObject]:
        """Return the uids of objects that are not kept whole, because older ones fill the share."""
        most, found = self._share(), dict[str, TooLargeObject]()
        for large in self._of.values():
            taken = 0
            for each in sorted(large.values()):
                taken += each.size.held_bytes
                if taken > most:
                    found[each.uid] = TooLargeObject(each.size, taken, most)
        return found

    def _share(self) -> int:
        """Return what one namespace may take: an equal share, and what others leave of theirs."""
        taken = sorted(sum(each.size.held_bytes for each in large.values()) for large in self._of.values())
        left = MOST_OF_ALL
        for index, each in enumerate(taken):
            share = left // (len(taken) - index)
            if each > share:
                return min(MOST_OF_NAMESPACE, share)
            left -= each
        return MOST_OF_NAMESPACE


def size_sentence(reason: TooLargeObject) -> str:
    """Return why an object is not kept, with its figures and what to do."""
    size = f"{reason.size.characters:,} characters in {reason.size.members:,} members and {reason.size.levels} levels"
    if reason.most:
        return (
            f"metadata and spec hold {size}. With the large objects of this namespace that are older, that takes "
            f"{reason.taken / MIB:.1f} MiB of the operator's memory, and a namespace may fill {reason.most / MIB:.1f} "
            "MiB. Delete large objects, or write less into them."
        )
    return (
        f"metadata and spec hold {size} or more, and an object may hold {MOST_CHARACTERS:,} characters, "
        f"{MOST_MEMBERS:,} members and {MOST_LEVELS} levels. Write less into it; its engines go on as they are."
    )
