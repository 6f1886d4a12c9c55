"""The InferenceDeployments of a snapshot as files would hold them."""

from __future__ import annotations

from plimsoll.app.exports.values import Export
from plimsoll.app.review.values import Wish
from plimsoll.domain.kubernetes_names import KIND

SNAPSHOT = "the snapshot"
"""The place of an object that is in no file of the user."""


def objects_of(export: Export) -> list[Wish]:
    """Return every InferenceDeployment that is not being deleted: then a review has an answer for each of them."""
    return [
        Wish(
            SNAPSHOT,
            {
                "apiVersion": body["apiVersion"],
                "kind": body["kind"],
                "metadata": {name: body["metadata"][name] for name in ("name", "namespace")},
                "spec": body.get("spec") or {},
            },
            is_whole=True,
        )
        for body in export.bodies
        if body["kind"] == KIND and not body["metadata"].get("deletionTimestamp")
    ]
