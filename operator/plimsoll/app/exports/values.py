"""The content of a snapshot file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Export:
    """A snapshot of a cluster.

    Attributes:
        at: the time of the snapshot, in POSIX seconds.
        release: the release of Plimsoll that wrote it.
        settings: the operator's settings, as its environment variables.
        bodies: the objects, each with its ``apiVersion`` and ``kind``.
        notes: what could not be read.
        hashed: whether names are replaced by digests.
    """

    at: float
    release: str
    settings: Mapping[str, str] = field(default_factory=dict)
    bodies: Sequence[Body] = ()
    notes: tuple[str, ...] = ()
    hashed: bool = False
