"""Writes a decision: one object at a time, first the status, then deletions, then workloads, then events.

The status is the record of decisions, so it is written before the objects that it describes. After a crash at any line
the next pass reads the decision from the status and continues.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll.adapters.cluster.api_errors import CONFLICT, GONE, ClusterRefused
from plimsoll.adapters.cluster.client import (
    DEPLOYMENTS,
    EVENTS,
    INFERENCE_DEPLOYMENTS,
    Cluster,
    kind_of,
)
from plimsoll.adapters.cluster.kinds import JOBS, ObjectKind
from plimsoll.app.watch.contests import Contests
from plimsoll.app.watch.pruning import why_reduced
from plimsoll.app.watch.store import Body, Store, key_of, uid_of
from plimsoll.app.write.free_names import FreeNames
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.domain.units import to_rfc3339
from plimsoll.render.inputs import INPUTS_ANNOTATION, is_left_running
from plimsoll.render.names import DEPLOYMENT_LABEL, HASH_ANNOTATION, MANAGED_BY, POOL_ANNOTATION, POOL_LABEL
from plimsoll.status.record.workload_trust import controller_of, is_adoptable, is_of_namesake, record_doubt
from plimsoll.status.words.what_helps import WHAT_HELPS_MARK

REMOVED_SECONDS = 5.0
"""How long an object counts as deleted after the request, whatever the watch reports."""

MOST_REMEMBERED = 10_000
"""The most events and rewritten objects to remember; forgetting one costs a request that changes nothing."""


_UNPROCESSABLE = 422
_NO_IMAGE_VOLUMES = (
    "this API server has no image volumes (the feature ImageVolume, which is on since Kubernetes 1.35): turn it on, or "
    "keep the weights on a claim, see spec.model.cache"
)


class NameTaken(Exception):
    """An object of this name exists and does not belong to this InferenceDeployment.

    ``passing`` means that it belongs to a deleted object of the same name, so that Kubernetes will soon remove it.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Note:
    """An event to record. Duplicates are found by object, generation, reason and message.

    One with a pause is recorded at most once in so many seconds, whatever its message: load comes and goes.
    """

    reason: str
    message: str
    warning: bool = False
    pause_seconds: int = 0


@dataclass(slots=True)
class Executor:
    """Writes to the cluster and stores each answer, so that the next pass never decides on older data."""

    cluster: Cluster
    store: Store
    contests: Contests = field(default_factory=Contests)
    names: FreeNames = field(init=False)
    _matching: dict[str, tuple[Body, Manifest]] = field(default_factory=dict)
    _rewritten: dict[str, tuple[str, Any]] = field(default_factory=dict)
    _statuses: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    _removed: dict[str, float] = field(default_factory=dict)
    _recorded: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _keeps_images: bool = False

    def __post_init__(self) -> None:
        self.names = FreeNames(self.cluster)

    async def write_status(self, owner: Body, status: Mapping[str, Any]) -> bool:
        """Write the status if it differs from the current one. True when something was written."""
        head, shown = owner["metadata"], _comparable(owner.get("status") or {})
        wanted = _comparable(status)
        if shown == wanted or self._statuses.get(head["uid"]) == (wanted, shown):
            return False
        answer = await self._put_status(owner, status)
        self.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", answer)
        self._remember_status(head["uid"], wanted, _comparable(answer.get("status") or {}))
        return True

    async def _put_status(self, owner: Body, status: Mapping[str, Any]) -> Body:
        """Replace the status, on the newest version if others have changed the object meanwhile.

        Raises:
            ClusterRefused: the object was deleted (HTTP 404), or others change it all the time (409).
        """
        key, uid = key_of(owner), owner["metadata"]["uid"]
        stored = self.store.get(INFERENCE_DEPLOYMENTS, key)
        known = stored if stored is not None and stored["metadata"]["uid"] == uid else owner
        try:
            return await self.cluster.put_status(INFERENCE_DEPLOYMENTS, known, status)
        except ClusterRefused as refusal:
            if refusal.status != CONFLICT:
                raise
        newest = await self.cluster.get(INFERENCE_DEPLOYMENTS, key)
        if newest is None or newest["metadata"]["uid"] != uid:
            raise ClusterRefused(f"status of InferenceDeployment {key}", GONE, "it was deleted")
        return await self.cluster.put_status(INFERENCE_DEPLOYMENTS, newest, status)

    def _remember_status(self, uid: str, wanted: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
        """Remember how the API server shows a written status, if it shows it differently.

        It drops fields that an older CRD does not have. Without this record the same status would be written again and
        again.
        """
        self._statuses.pop(uid, None)
        if shown != wanted:
            self._statuses[uid] = (wanted, shown)
            if len(self._statuses) > MOST_REMEMBERED:
                self._statuses.pop(next(iter(self._statuses)))

    async def check_names(self, owner: Body, manifests: Sequence[Manifest]) -> None:
        """Check that every rendered object may be written, before the status says so.

        Raises:
            NameTaken: a name belongs to an object that this owner does not control.
            ClusterRefused: the owner was deleted (HTTP 404), or a request was refused.
        """
        for manifest in manifests:
            await self._live(owner, manifest)

    async def apply(self, owner: Body, manifest: Manifest) -> bool:
        """Make one owned object match its manifest. True when a request was sent.

        Raises:
            NameTaken: the name belongs to an object that this owner does not control.
        """
        live = await self._live(owner, manifest)
        if live is not None and kind_of(manifest) == JOBS:
            return False  # the template of a Job cannot be changed, and its name says what it copies
        if live is not None and (self._is_settled(live, manifest) or self._is_left_to_others(live, manifest)):
            return False
        is_pool = POOL_LABEL in (manifest["metadata"].get("labels") or {})
        if live is not None and is_pool and kind_of(manifest) == DEPLOYMENTS and is_left_running(live, manifest):
            return await self._leave_running(owner, live, manifest)
        await self._check_image_volumes(manifest)
        answer = await self.cluster.apply(manifest)
        self.names.remove(kind_of(manifest), key_of(manifest))
        self.store.observe(kind_of(manifest), "MODIFIED", answer)
        self._remember(answer, manifest)
        return True

    async def _check_image_volumes(self, manifest: Manifest) -> None:
        """Check that image volumes are not lost: an API server without them drops their source.

        Raises:
            ClusterRefused: they would be lost.
        """
        if self._keeps_images or not _image_volumes(manifest):
            return
        head = {**manifest["metadata"], "name": f"{manifest['metadata']['name']}-check"}
        stored = await self.cluster.checked(DEPLOYMENTS, {**manifest, "metadata": head})
        if _image_volumes(stored) != _image_volumes(manifest):
            raise ClusterRefused(f"apply deployments {key_of(manifest)}", _UNPROCESSABLE, _NO_IMAGE_VOLUMES)
        self._keeps_images = True

    async def _leave_running(self, owner: Body, live: Body, manifest: Manifest) -> bool:
        """Set the number of replicas of a Deployment that another release rendered; keep its template.

        The digest of the template's inputs and the owner reference are added if they are missing, and so are our labels
        and a pool record that can be read: without them the Deployment would never be removed.
        """
        head, replicas = manifest["metadata"], manifest["spec"]["replicas"]
        added = [INPUTS_ANNOTATION, *([POOL_ANNOTATION] if record_doubt(live, str(owner["metadata"]["name"])) else [])]
        wanted = {
            "labels": {name: head["labels"][name] for name in (MANAGED_BY, DEPLOYMENT_LABEL, POOL_LABEL)},
            "annotations": {name: head["annotations"][name] for name in added},
            "ownerReferences": head["ownerReferences"],
        }
        if (live.get("spec") or {}).get("replicas") == replicas and _shown(live["metadata"], wanted) == wanted:
            return False
        answer = await self.cluster.scale(DEPLOYMENTS, key_of(live), live["metadata"]["uid"], replicas, wanted)
        self.store.observe(DEPLOYMENTS, "MODIFIED", answer)
        return True

    async def _live(self, owner: Body, manifest: Manifest) -> Body | None:
        """The object as it is now. The store has only objects with our label; others are read from the API server."""
        kind, key = kind_of(manifest), key_of(manifest)
        live = self.store.get(kind, key)
        if live is None and not self.names.has(kind, key):
            live = await self.names.find(kind, key)
            if live is None:
                await self._check_owner(owner)
                self.names.add(kind, key)
        if live is None or _is_controlled_by(live, owner):
            return live
        if is_adoptable(live, str(owner["metadata"]["name"])):
            await self._check_owner(owner)
            return live
        if is_of_namesake(live, owner):
            raise NameTaken(f"{kind.kind} {key} of a deleted namesake is still there.", passing=True)
        raise NameTaken(f"{kind.kind} {key} exists and is not controlled by this InferenceDeployment; rename either.")

    async def _check_owner(self, owner: Body) -> None:
        """Check that the owner of an object that vanished, or that lost its owner reference, still exists.

        Kubernetes deletes the objects of a deleted owner. With ``--cascade=orphan`` it removes their owner references
        instead. The report of the owner's own deletion may arrive later than theirs, or be lost. Without this check,
        the pods of a vanished object would be created again, on GPUs that others wait for. A restored owner reference
        would name an owner that is gone, so Kubernetes would delete an engine that its user wanted to keep. An owner
        without a status is new: it has no objects yet.

        Raises:
            ClusterRefused: it was deleted, or another object has its name now (HTTP 404).
        """
        if not owner.get("status"):
            return
        current = await self.cluster.get(INFERENCE_DEPLOYMENTS, key_of(owner))
        if current is None or current["metadata"]["uid"] != owner["metadata"]["uid"]:
            self.store.observe(INFERENCE_DEPLOYMENTS, "DELETED", owner)
        elif current["metadata"].get("deletionTimestamp"):
            self.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", current)
        else:
            return
        raise ClusterRefused(f"get InferenceDeployment {key_of(owner)}", GONE, "it was deleted")

    async def scale(self, owner: Body, live: Body, replicas: int) -> None:
        """Change only the number of replicas of a workload."""
        if is_ours(live, owner) and (live.get("spec") or {}).get("replicas") != replicas:
            body = await self.cluster.scale(DEPLOYMENTS, key_of(live), live["metadata"]["uid"], replicas)
            self.store.observe(DEPLOYMENTS, "MODIFIED", body)

    async def remove(self, owner: Body, live: Body, kind: ObjectKind = DEPLOYMENTS) -> None:
        """Delete an object that is not wanted any more, once: the watch may still report it for a while."""
        uid, now = live["metadata"]["uid"], time.monotonic()
        is_leaving = live["metadata"].get("deletionTimestamp") or self._removed.get(uid, float("-inf")) > now
        if is_ours(live, owner) and not is_leaving:
            await self.cluster.delete(kind, key_of(live), uid)
            self._removed = {known: until for known, until in self._removed.items() if until > now}
            self._removed[uid] = now + REMOVED_SECONDS

    async def end_pod(self, owner: Body, pod: str) -> None:
        """End a pod of this owner that another one has replaced. It drains as on any removal."""
        await self.cluster.evict(ObjectKey(key_of(owner).namespace, pod))

    async def tell(self, owner: Body, notes: Sequence[Note]) -> None:
        """Record events. An event's name is a digest of its content, so that a restart records nothing twice."""
        for note in notes:
            event = _event(owner, note)
            name = event["metadata"]["name"]
            if name not in self._recorded:
                await self.cluster.create_event(event)
                self._recorded[name] = None
                if len(self._recorded) > MOST_REMEMBERED:
                    self._recorded.popitem(last=False)

    def _is_settled(self, live: Body, manifest: Manifest) -> bool:
        """Whether the object matches the manifest, or matches the API server's answer to its last apply.

        If a webhook changes what we send, the object never matches the manifest. Without the second case we would write
        it again and again. A later change differs from both and is repaired. Neither the object nor the manifest is
        ever changed in place, so the same two need no second comparison.
        """
        if why_reduced(live) is not None:
            return self._has_outline_of(live, manifest)
        uid = live["metadata"]["uid"]
        known_live, known_manifest = self._matching.get(uid, (None, None))
        if known_live is live and known_manifest is manifest:
            return True
        shown = _shown(live, manifest)
        if shown != manifest:
            return self._rewritten.get(uid) == (_digest(manifest), shown)
        self._matching[uid] = live, manifest
        if len(self._matching) > MOST_REMEMBERED:
            self._matching.pop(next(iter(self._matching)))
        return True

    @staticmethod
    def _has_outline_of(live: Body, manifest: Manifest) -> bool:
        """Whether an object that is too large to be kept whole was made from this manifest, for as many replicas."""
        annotations, wanted = live["metadata"].get("annotations") or {}, manifest.get("spec") or {}
        same = (live.get("spec") or {}).get("replicas") == wanted.get("replicas")
        return same and annotations.get(HASH_ANNOTATION) == _digest(manifest)

    def _is_left_to_others(self, live: Body, manifest: Manifest) -> bool:
        """Whether only the number of replicas differs, others changed it, and it is too early to change it back.

        The digest covers the rendered number of replicas: if the digest is equal, we wrote that number and others
        changed it.
        """
        wanted, shown = (manifest.get("spec") or {}).get("replicas"), (live.get("spec") or {}).get("replicas")
        annotations = live["metadata"].get("annotations") or {}
        if wanted is None or wanted == shown or annotations.get(HASH_ANNOTATION) != _digest(manifest):
            return False
        contest = self.contests.noticed(live, int(shown or 0))
        return contest.answer_at > time.monotonic()

    def _remember(self, answer: Body, manifest: Manifest) -> None:
        uid, shown = answer["metadata"]["uid"], _shown(answer, manifest)
        if shown == manifest:
            self._rewritten.pop(uid, None)
        else:
            self._rewritten[uid] = (_digest(manifest), shown)
            if len(self._rewritten) > MOST_REMEMBERED:
                self._rewritten.pop(next(iter(self._rewritten)))


def _image_volumes(manifest: Mapping[str, Any]) -> list[Any]:
    template = (manifest.get("spec") or {}).get("template") or {}
    volumes = (template.get("spec") or {}).get("volumes") or ()
    return [each["name"] for each in volumes if each.get("image")]


def _digest(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][HASH_ANNOTATION])


def is_ours(live: Body, owner: Body) -> bool:
    """Whether an object belongs to this InferenceDeployment, or would again if its owner reference were restored."""
    return _is_controlled_by(live, owner) or is_adoptable(live, str(owner["metadata"]["name"]))


def _is_controlled_by(live: Body, owner: Body) -> bool:
    return uid_of(owner) == (controller_of(live) or {}).get("uid")


def _shown(live: Any, wanted: Any) -> Any:
    """The live values of the rendered fields; what others added elsewhere is ignored."""
    if live is wanted:
        return live  # equal parts of different objects are one object
    if isinstance(wanted, dict) and isinstance(live, Mapping):
        return {key: _shown(live[key], value) for key, value in wanted.items() if key in live}
    if isinstance(wanted, list) and isinstance(live, list):
        return [_shown(one, other) for one, other in zip(live, wanted, strict=False)]
    return live


def _comparable(status: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in status.items() if value not in (None, [], {})}


def _event(owner: Body, note: Note) -> Manifest:
    """An ``events.k8s.io/v1`` Event about the InferenceDeployment."""
    head = owner["metadata"]
    now = time.time()
    same = now // note.pause_seconds if note.pause_seconds else note.message
    content = f"{head['uid']}/{head.get('generation')}/{note.reason}/{same}"
    name = f"{head['name']}.{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": head["namespace"]},
        "eventTime": to_rfc3339(now).replace("Z", ".000000Z"),
        "reportingController": "plimsoll.dev/operator",
        "reportingInstance": "plimsoll",
        "action": "Decide",
        "reason": note.reason,
        "type": "Warning" if note.warning else "Normal",
        "regarding": {
            "apiVersion": INFERENCE_DEPLOYMENTS.api_version,
            "kind": INFERENCE_DEPLOYMENTS.kind,
            "name": head["name"],
            "namespace": head["namespace"],
            "uid": head["uid"],
        },
        "note": _cut(note.message),
    }


LONGEST_NOTE = 1024
"""The most characters of an event's note, by the API."""


def _cut(message: str) -> str:
    """Shorten a message to what an event may hold. What helps stays, and why is cut."""
    why, mark, helps = message.rpartition(WHAT_HELPS_MARK)
    ending = f"... {mark}{helps}"
    if len(message) <= LONGEST_NOTE or not mark or len(ending) > LONGEST_NOTE:
        return message[:LONGEST_NOTE]
    return f"{why[: LONGEST_NOTE - len(ending)]}{ending}"
