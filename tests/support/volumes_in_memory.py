"""The scheduler's work on PersistentVolumeClaims, on an API server in memory.

The words are those of kube-scheduler 1.36 (``pkg/scheduler/framework/plugins/volumebinding``). A claim that waits for
its first pod gets a volume in the zone of the pod's node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plimsoll.adapters.cluster.kinds import CLAIMS, PODS, STORAGE_CLASSES, VOLUMES
from plimsoll.app.watch.store import key_of
from plimsoll.domain.kubernetes_names import ObjectKey
from tests.support.bodies import Body
from tests.support.volumes import ZONE, volume

if TYPE_CHECKING:
    from tests.support.api_in_memory import ApiInMemory

ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NOT_MADE_THERE = "node(s) didn't find available persistent volumes to bind"


def claims_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of the claims that a pod mounts."""
    mounted = (each.get("persistentVolumeClaim") or {} for each in pod["spec"].get("volumes") or ())
    return [str(each["claimName"]) for each in mounted if "claimName" in each]


def obstacle_everywhere(api: ApiInMemory, pod: Body) -> str:
    """Return why no node is looked at for a pod; empty where its volumes do not forbid it."""
    for name in claims_of(pod):
        claim = api.get(CLAIMS, ObjectKey(pod["metadata"]["namespace"], name))
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if not claim["spec"].get("volumeName") and not _waits(api, claim):
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def obstacle_there(api: ApiInMemory, pod: Body, node: Body) -> str:
    """Return why a pod cannot mount its volumes on a node; empty where it can."""
    zone = (node["metadata"].get("labels") or {}).get(ZONE)
    for name in claims_of(pod):
        claim = api.objects[CLAIMS, ObjectKey(pod["metadata"]["namespace"], name)]
        if own := claim["spec"].get("volumeName"):
            if zone not in _zones(api.objects[VOLUMES, ObjectKey("", own)]):
                return ELSEWHERE
        elif zone not in _offered(api, claim):
            return NOT_MADE_THERE
    return ""


def bind_claims(api: ApiInMemory, pod: Body, node: Body, user: str) -> None:
    """Make the volumes of the claims that waited for this pod."""
    for name in claims_of(pod):
        key = ObjectKey(pod["metadata"]["namespace"], name)
        claim = api.objects[CLAIMS, key]
        if not claim["spec"].get("volumeName"):
            own = f"made-{key.namespace}-{key.name}"
            api.put(volume(own, node["metadata"]["labels"][ZONE]), user)
            api.put({**claim, "spec": {**claim["spec"], "volumeName": own}}, user)


def users_of(api: ApiInMemory, claim: ObjectKey) -> list[ObjectKey]:
    """Return the pods that mount a claim."""
    return [key_of(pod) for pod in api.all(PODS, claim.namespace) if claim.name in claims_of(pod)]


def _waits(api: ApiInMemory, claim: Body) -> bool:
    found = api.get(STORAGE_CLASSES, ObjectKey("", claim["spec"]["storageClassName"]))
    return found is not None and found["volumeBindingMode"] == "WaitForFirstConsumer"


def _offered(api: ApiInMemory, claim: Body) -> list[str]:
    found = api.objects[STORAGE_CLASSES, ObjectKey("", claim["spec"]["storageClassName"])]
    [term] = found["allowedTopologies"]
    return [zone for each in term["matchLabelExpressions"] for zone in each["values"]]


def _zones(found: Body) -> list[str]:
    [term] = found["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [zone for each in term["matchExpressions"] for zone in each["values"]]
