"""Claims, volumes and storage classes: manifests, and those of a world that can be taken away and made again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from testbed.api_client import AT_ONCE, ApiClient, absence_is_fine
from tests.support.installed import View

ZONE = "topology.kubernetes.io/zone"
ONCE, MANY = "ReadWriteOnce", "ReadWriteMany"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"


def in_zone(*zones: str) -> dict[str, Any]:
    """The requirement of a node selector that names zones."""
    return {"key": ZONE, "operator": "In", "values": [*zones]}


def claim(namespace: str, name: str, mode: str = ONCE, *, volume: str = "", kind: str = "") -> dict[str, Any]:
    """A PersistentVolumeClaim, of a volume or of a class."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": "200Gi"}},
            "storageClassName": kind,
            **({"volumeName": volume} if volume else {}),
        },
    }


def volume(name: str, zone: str, mode: str = ONCE, *, of: tuple[str, str] | None = None, kind: str = "") -> Any:
    """A PersistentVolume of a zone, kept for the claim ``of`` (namespace and name) or for any claim of a class."""
    reserved = {} if of is None else {"claimRef": {"namespace": of[0], "name": of[1]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "200Gi"},
            "accessModes": [mode],
            "storageClassName": kind,
            "csi": {"driver": "ebs.csi.example", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone(zone)]}]}},
            **reserved,
        },
    }


def storage_class(name: str, *zones: str, provisioner: str = "ebs.csi.example") -> dict[str, Any]:
    """A StorageClass that waits for the first pod, and makes volumes in these zones."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": [*zones]}]}],
    }


def bound(view: View, name: str, zone: str, mode: str = ONCE) -> None:
    """Make a claim that is bound to a volume of a zone."""
    own = f"{view.namespace}-{name}"
    made = volume(own, zone, mode, of=(view.namespace, name)), claim(view.namespace, name, mode, volume=own)
    view.control_plane.apply(made)
    path = f"/api/v1/namespaces/{view.namespace}/persistentvolumeclaims/{name}"
    client = view.control_plane.client
    view.wait(lambda: client.get(path)["status"]["phase"] == "Bound", f"{name} bound")


@dataclass(frozen=True, slots=True)
class OwnVolume:
    """The volume of one deployment in a namespace. In the end it is where it was.

    Attributes:
        view: the namespace.
        name: of the claim; what has no namespace is named after both.
        zone: where it is.
        mode: its access mode.
        waits: whether the claim waits for the first pod, in a class that names the zone; else it is bound at once.
    """

    view: View
    name: str
    zone: str
    mode: str
    waits: bool

    def make(self, zone: str = "") -> None:
        """Make it, there or elsewhere."""
        zone = zone or self.zone
        if not self.waits:
            bound(self.view, self.name, zone, self.mode)
            return
        self.make_class(zone)
        made = volume(self._own, zone, self.mode, kind=self._own)
        self.view.control_plane.apply([made, claim(self.view.namespace, self.name, self.mode, kind=self._own)])

    def make_class(self, zone: str = "") -> None:
        """Make its class."""
        made = storage_class(self._own, zone or self.zone, provisioner="kubernetes.io/no-provisioner")
        self.view.control_plane.apply([made])

    def remove_class(self) -> None:
        """Take only its class away."""
        self._delete(f"{STORAGE}/{self._own}")

    def remove(self) -> None:
        """Delete the claim, and the pods that keep it, as whoever really wants that does; then the volume."""
        claims = f"/api/v1/namespaces/{self.view.namespace}/persistentvolumeclaims/{self.name}"
        self._delete(claims)
        self.view.wait(lambda: self._is_given_up(claims), f"{self.name} gone")
        volumes = f"/api/v1/persistentvolumes/{self._own}"
        self._delete(volumes)
        self.view.wait(lambda: not self._client.exists(volumes), f"the volume of {self.name} gone")
        if self.waits:
            self.remove_class()

    def replace_pods(self) -> None:
        """Let every pod that uses it be made again."""
        for pod in self._pods():
            self._delete(f"/api/v1/namespaces/{self.view.namespace}/pods/{pod}")

    @property
    def _own(self) -> str:
        return f"{self.view.namespace}-{self.name}"

    @property
    def _client(self) -> ApiClient:
        return self.view.control_plane.client

    def _is_given_up(self, path: str) -> bool:
        if self._client.exists(path):
            self.replace_pods()
        return not self._client.exists(path)

    def _pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.view.all("pods") if _mounts(pod, self.name)]

    def _delete(self, path: str) -> None:
        with absence_is_fine():
            self._client.send("DELETE", path, AT_ONCE)


def _mounts(pod: dict[str, Any], name: str) -> bool:
    volumes = pod["spec"].get("volumes") or ()
    return any((each.get("persistentVolumeClaim") or {}).get("claimName") == name for each in volumes)


def without_rights(rules: list[dict[str, Any]], plurals: Collection[str]) -> list[dict[str, Any]]:
    """Return the rules of a role that do not name these resources."""
    return [each for each in rules if not set(plurals).intersection(each.get("resources") or ())]
