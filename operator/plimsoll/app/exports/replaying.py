"""The operator's decision on a snapshot, in the same way as on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plimsoll import __version__
from plimsoll.app.exports.objects import SNAPSHOT
from plimsoll.app.exports.specs import without_secrets
from plimsoll.app.exports.stored_cluster import StoredCluster
from plimsoll.app.exports.values import Export
from plimsoll.app.review.measuring import measure
from plimsoll.app.review.reviewing import review
from plimsoll.app.review.values import Means, Measured, Review, Wish


async def replay(export: Export, wishes: Sequence[Wish], means: Means) -> Review:
    """Return what the operator would have done at the time of a snapshot after ``kubectl apply`` of all wishes.

    Raises:
        PlimsollError: a part of the snapshot cannot be used.
    """
    cut = [_cut(wish) for wish in wishes]
    found = await review(StoredCluster(export), cut, means, {}, now=export.at)
    notes = (*_notes(export, wishes, cut), *found.notes)
    return replace(found, notes=tuple(dict.fromkeys(notes)))


async def replay_capacity(export: Export, wish: Wish, means: Means) -> Measured:
    """Return how many more replicas fitted at the time of a snapshot.

    Raises:
        PlimsollError: a part of the snapshot cannot be used, or the deployment or its model cannot.
    """
    cut = _cut(wish)
    found = await measure(StoredCluster(export), cut, means, {}, export.at)
    notes = (*_notes(export, [wish], [cut]), *found.notes)
    return replace(found, notes=tuple(dict.fromkeys(notes)))


def _cut(wish: Wish) -> Wish:
    """The wish without the values that a snapshot does not hold: else each of them would look like a change."""
    return replace(wish, body={**wish.body, "spec": without_secrets(wish.body["spec"])})


def _notes(export: Export, wishes: Sequence[Wish], cut: Sequence[Wish]) -> tuple[str, ...]:
    notes = list(export.notes)
    if export.release != __version__:
        notes.append(
            f"Release {export.release} of Plimsoll wrote the snapshot, and this is {__version__}: it may decide "
            "differently."
        )
    if export.hashed and any(wish.where != SNAPSHOT for wish in wishes):
        notes.append("The names in the snapshot are digests: the objects of your files count as new ones.")
    changed = [wish.where for wish, other in zip(wishes, cut, strict=True) if wish.body != other.body]
    if changed:
        notes.append(
            "A snapshot holds no pull secrets, and no values of variables, labels and annotations of pods. They are "
            f"left out of {', '.join(changed)}, too: a change of them is not shown."
        )
    return tuple(notes)
