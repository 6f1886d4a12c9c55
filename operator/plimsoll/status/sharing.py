"""A status as it may leave the cluster: without words that may quote logs or name objects, and with other digests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from plimsoll.api.v1alpha1.status import InferenceDeploymentStatus

Body = Mapping[str, Any]
Digest = Callable[[object], str]

_FIELDS = frozenset(field.alias or name for name, field in InferenceDeploymentStatus.model_fields.items()) - {
    "selector",
    "url",
    "routing",
    "weights",
    "acknowledged",
}
"""All fields but those that name objects and people and decide nothing."""

_CONDITION = ("type", "status", "reason", "observedGeneration", "lastTransitionTime")
_SENTENCES = ("rejections", "rejectionsOmitted", "remedies", "suggestions", "proposals")
"""Fields with sentences that may name other objects. A decision writes them anew."""

_WORDS = ("proposal", "proposalId", "lastChange", "rejected", "carriedOut", "hints", "replacing", "room")
"""Fields of the live loop's part that name people or other objects, or that are digests of uids."""


def without_messages(status: Body) -> dict[str, Any]:
    """Return a status without the messages of conditions, failed moves and additions: they may quote logs.

    What is said of engines may quote values of the spec.
    """
    kept = _only(status, *_FIELDS)
    kept = _changed(kept, ("conditions",), lambda each: {**_only(each, *_CONDITION), "message": ""})
    kept = _changed(kept, ("engine",), lambda part: {**_without(part, "others"), "message": ""})
    kept = _changed(kept, ("rebalancing",), _without_quotes)
    return _changed(kept, ("failedMoves",), lambda each: _without(each, "message"))


def _without_quotes(loop: Body) -> dict[str, Any]:
    """Return the live loop's part without what is said of pods that do not serve."""
    found = {**_without(loop, "lastChange"), "message": ""}
    return _changed(
        found, ("changes",), lambda each: _changed(each, ("result",), lambda part: _without(part, "message"))
    )


def without_sentences(status: Body) -> dict[str, Any]:
    """Return a status without any text that may name an object."""
    found = _changed(_without(status, *_SENTENCES), ("placement",), lambda part: _without(part, "warnings"))
    return _changed(found, ("rebalancing",), lambda part: {**_without(part, *_WORDS), "message": ""})


def with_other_image(status: Body, image: str) -> dict[str, Any]:
    """Return a status with another name of the image, and without the answer of its registry."""
    return _changed(status, ("imagePlatforms",), lambda part: {**_without(part, "unread"), "reference": image})


def with_other_nodes(status: Body, name: Callable[[str], str]) -> dict[str, Any]:
    """Return a status with other names of nodes."""

    def renamed(part: Body) -> dict[str, Any]:
        nodes, node = part.get("avoidedNodes"), part.get("node")
        avoided = {"avoidedNodes": sorted(name(str(each)) for each in nodes)} if isinstance(nodes, list) else {}
        return {**part, **avoided, **({"node": name(str(node))} if node else {})}

    return _changed(status, ("placement", "pools", "rehomings"), renamed)


def with_other_digests(status: Body, spec: Digest, size: Digest, start: Digest) -> dict[str, Any]:
    """Return a status with other digests of the spec, and of the parts of it on which size and start depend.

    The digests of what templates were made from are left out of a change of settings, because they hold the spec.
    """

    def with_other(digest: Digest, part: Body) -> dict[str, Any]:
        return {**part, "spec": digest(part["spec"])} if part.get("spec") is not None else dict(part)

    found = _changed(status, ("pools", "tooSmall", "observations", "retune"), partial(with_other, spec))
    found = _changed(found, ("failedMoves", "move"), partial(with_other, start))
    found = _changed(found, ("size",), partial(with_other, size))
    return _changed(found, ("retune",), lambda part: _changed(part, ("pools",), lambda each: _without(each, "inputs")))


def _changed(status: Body, names: Iterable[str], change: Callable[[Body], dict[str, Any]]) -> dict[str, Any]:
    """Return a status with a change of these parts, or of all entries of these lists. What is neither is left out."""
    found = dict(status)
    for name in (each for each in names if each in status):
        part = status[name]
        several = [change(each) for each in part if isinstance(each, Mapping)] if isinstance(part, list) else None
        found[name] = change(part) if isinstance(part, Mapping) else several
    return found


def _only(body: Body, *fields: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name in fields}


def _without(body: Body, *fields: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in fields}
