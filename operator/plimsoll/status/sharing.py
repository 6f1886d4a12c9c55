"""A status as it may leave the cluster: without words that may quote logs or name objects, and with other digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plimsoll.api.v1alpha1.status import InferenceDeploymentStatus

Body = Mapping[str, Any]
Digest = Callable[[object], str]

_FIELDS = frozenset(field.alias or name for name, field in InferenceDeploymentStatus.model_fields.items()) - {
    "selector",
    "url",
}
_CONDITION = ("type", "status", "reason", "observedGeneration", "lastTransitionTime")
_SENTENCES = ("rejections", "rejectionsOmitted", "remedies", "suggestions", "proposals")
"""Fields with sentences that may name other objects. A decision writes them anew."""

_WORDS = ("proposal", "proposalId", "lastChange", "rejected", "carriedOut", "hints")
"""Fields of the live loop's part that name people or other objects, or that are digests of uids."""


def without_messages(status: Body) -> dict[str, Any]:
    """Return a status without the messages of conditions and of failed moves: they may quote logs."""
    kept = {name: value for name, value in status.items() if name in _FIELDS}
    if isinstance(status.get("conditions"), list):
        kept["conditions"] = [
            {**{name: each[name] for name in _CONDITION if name in each}, "message": ""}
            for each in status["conditions"]
        ]
    if isinstance(status.get("failedMoves"), list):
        kept["failedMoves"] = [_without(each, "message") for each in status["failedMoves"] if isinstance(each, Mapping)]
    return kept


def without_sentences(status: Body) -> dict[str, Any]:
    """Return a status without any text that may name an object."""
    found = _without(status, *_SENTENCES)
    if isinstance(status.get("placement"), Mapping):
        found["placement"] = _without(status["placement"], "warnings")
    if isinstance(status.get("rebalancing"), Mapping):
        found["rebalancing"] = {**_without(status["rebalancing"], *_WORDS), "message": ""}
    return found


def with_other_image(status: Body, image: str) -> dict[str, Any]:
    """Return a status with another name of the image, and without the answer of its registry."""
    noted = status.get("imagePlatforms")
    found = {**_without(noted, "unread"), "reference": image} if isinstance(noted, Mapping) else None
    return dict(status) if found is None else {**status, "imagePlatforms": found}


def with_other_nodes(status: Body, name: Callable[[str], str]) -> dict[str, Any]:
    """Return a status with other names of nodes."""
    found = dict(status)
    if isinstance(status.get("placement"), Mapping):
        found["placement"] = _avoiding(status["placement"], name)
    if isinstance(status.get("pools"), list):
        found["pools"] = [_avoiding(each, name) for each in status["pools"]]
    if isinstance(status.get("rehomings"), list):
        found["rehomings"] = [
            {**each, "node": name(str(each["node"]))} if isinstance(each, Mapping) and each.get("node") else each
            for each in status["rehomings"]
        ]
    return found


def _avoiding(entry: Any, name: Callable[[str], str]) -> Any:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("avoidedNodes"), list):
        return entry
    return {**entry, "avoidedNodes": sorted(name(str(each)) for each in entry["avoidedNodes"])}


def with_other_digests(status: Body, spec: Digest, size: Digest, start: Digest) -> dict[str, Any]:
    """Return a status with other digests of the spec, and of the parts of it on which size and start depend."""
    found = dict(status)
    for name in ("pools", "tooSmall", "observations"):
        if isinstance(status.get(name), list):
            found[name] = [_with_digest(each, spec) for each in status[name]]
    if isinstance(status.get("failedMoves"), list):
        found["failedMoves"] = [_with_digest(each, start) for each in status["failedMoves"]]
    if isinstance(status.get("move"), Mapping):
        found["move"] = _with_digest(status["move"], start)
    if isinstance(status.get("retune"), Mapping):
        found["retune"] = _with_digest(_without_inputs(status["retune"]), spec)
    if isinstance(status.get("size"), Mapping):
        found["size"] = _with_digest(status["size"], size)
    return found


def _with_digest(entry: Any, digest: Digest) -> Any:
    is_given = isinstance(entry, Mapping) and entry.get("spec") is not None
    return {**entry, "spec": digest(entry["spec"])} if is_given else entry


def _without_inputs(retune: Body) -> dict[str, Any]:
    """Return a change of settings without the digests of what templates were made from, which hold the spec."""
    pools = retune.get("pools")
    known = [_without(each, "inputs") for each in pools if isinstance(each, Mapping)] if isinstance(pools, list) else []
    return {**retune, "pools": known}


def _without(body: Body, *fields: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in fields}
