"""Objects as they will be after ``kubectl apply``, and the picture of a cluster that holds them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES, PODS, ObjectKind
from plimsoll.api.crd.lost_fields import LAST_APPLIED
from plimsoll.api.crd.rules import with_defaults
from plimsoll.app.review.hypothetical import after_changes
from plimsoll.app.review.values import WhatIf
from plimsoll.app.watch import pruning
from plimsoll.app.watch.store import Body, ObjectPage, Picture, key_of
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import to_rfc3339

_MAPS = ("labels", "annotations")


def applied(manifest: Body, live: Body | None, *, is_whole: bool = False) -> dict[str, Any]:
    """Return the object to send: the manifest, and what ``kubectl apply`` keeps of the live object.

    A field that is not in the manifest goes if it was in the manifest before. It stays if others have set it, e.g. the
    number of replicas by ``kubectl scale``; with ``is_whole`` no other field stays.
    """
    head = {name: manifest["metadata"][name] for name in ("name", "namespace", *_MAPS) if name in manifest["metadata"]}
    sent = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": head}
    if live is None:
        return sent | {"spec": manifest.get("spec")}
    kept = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
    if "annotations" in kept:
        kept["annotations"] = {name: text for name, text in (kept["annotations"] or {}).items() if name != LAST_APPLIED}
    for name in _MAPS:
        if name in head:
            head[name] = {**(kept.get(name) or {}), **(head[name] or {})}
    before = live.get("spec") if is_whole else _spec_before(live)
    spec = _merged(live.get("spec"), manifest.get("spec"), before)
    return sent | {"metadata": kept | head, "spec": spec}


def _spec_before(live: Body) -> Any:
    """The spec of the last manifest. Without a record of it, everything that no other client scales."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        before = json.loads(text)["spec"] if text else None
    except (TypeError, ValueError, KeyError):
        before = None
    if isinstance(before, Mapping):
        return before
    spec = live.get("spec") or {}
    return {name: value for name, value in spec.items() if not (name == "replicas" and is_scaled(live))}


def is_scaled(live: Body) -> bool:
    """Whether another client scales the object."""
    entries = live["metadata"].get("managedFields") or ()
    return any(
        entry.get("subresource") == "scale" and "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
        for entry in entries
    )


def _merged(live: Any, wanted: Any, before: Any) -> Any:
    """Merge as a JSON merge patch from ``before`` to ``wanted`` does; lists are replaced as a whole."""
    if not (isinstance(live, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    known = before if isinstance(before, Mapping) else {}
    left = {name: value for name, value in live.items() if name not in wanted and name not in known}
    return left | {name: _merged(live.get(name), value, known.get(name)) for name, value in wanted.items()}


def stored(sent: Body, live: Body | None, now: float) -> dict[str, Any]:
    """Return the object as the API server would store it, without asking it: with defaults, identity and generation."""
    body = with_defaults(sent)
    if live is None:
        head = {"uid": f"new-{key_of(body)}", "creationTimestamp": to_rfc3339(now), "generation": 1}
        return body | {"metadata": {**body["metadata"], **head}}
    changed = body.get("spec") != live.get("spec")
    head = {"generation": int(live["metadata"].get("generation") or 1) + int(changed)}
    return body | {"metadata": {**body["metadata"], **head}}


def overlaid(picture: Picture, bodies: Iterable[Body]) -> Picture:
    """Return the picture with these InferenceDeployments in place of those of the same name; statuses stay."""
    page = picture.pages[INFERENCE_DEPLOYMENTS]
    objects = dict(page.objects)
    for body in bodies:
        known = objects.get(key_of(body))
        status = {} if known is None or "status" not in known else {"status": known["status"]}
        bare = {name: value for name, value in body.items() if name != "status"}
        objects[key_of(body)] = pruning.inference_deployment(bare | status)
    return _with_page(picture, INFERENCE_DEPLOYMENTS, objects)


def on_other_nodes(picture: Picture, changes: Iterable[WhatIf], fleet: Fleet, types: Sequence[GpuType]) -> Picture:
    """Return the picture after these changes of its nodes. ``fleet`` is what is read from the picture."""
    nodes, pods = after_changes(picture.all(NODES), picture.all(PODS), changes, fleet, types)
    changed = _with_page(picture, NODES, {key_of(body): body for body in nodes})
    return _with_page(changed, PODS, {key_of(body): body for body in pods})


def _with_page(picture: Picture, kind: ObjectKind, objects: Mapping[ObjectKey, Body]) -> Picture:
    """The picture with other objects of one kind. Its version differs, so that nothing that was read is used again."""
    versions = {**picture.versions, kind: picture.versions[kind] + 1}
    return replace(picture, pages={**picture.pages, kind: ObjectPage(objects)}, versions=versions)
