"""The Kueue controller as a process: it admits the pods of Deployments by the quotas of its queues.

Kueue serves webhooks and makes their certificates itself. In a cluster it reads them from a Secret that the kubelet
mounts, and the API server calls it by the name of a Service. Here we copy the Secret into a folder, and the Service is
an ``ExternalName`` that leads to loopback. So the certificates are checked as in a cluster.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import yaml
from typing_extensions import override

from testbed.api_client import ApiError
from testbed.binaries import ProgramFiles
from testbed.cluster_process import READY_SECONDS, ClusterProcess, is_well
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established

NAMESPACE = "kueue-system"
USER = "kueue"
"""What Kueue is called in the audit log."""

_SERVICE, _SECRET = "kueue-webhook-service", "kueue-webhook-server-cert"
_API = "kueue.x-k8s.io/v1beta2"
_PREFIX = "kueue-"
"""Kueue finds its webhook configurations by the name of the Service: before the hyphen stands that of the release."""

_CALLED_BY_VERSION = frozenset({"localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters"})
"""Custom resources that Kueue converts between its versions, by its ``config/components/crd/kustomization.yaml``."""

_OF_EVERYBODY = frozenset({"mpod.kb.io", "mdeployment.kb.io", "vpod.kb.io", "vdeployment.kb.io"})
"""Webhooks for kinds that everybody has, by its ``config/components/webhook/kustomization.yaml``."""

_ELSEWHERE = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", NAMESPACE]}
    ]
}


def configuration(*, webhook_port: int, health_port: int, certificates: str) -> dict[str, Any]:
    """Kueue's configuration file: Deployments and their pods wait in queues, and nothing else does."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": certificates},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": _SERVICE,
            "webhookSecretName": _SECRET,
        },
        "clientConnection": {"qps": 50, "burst": 100},
        "featureGates": {"VisibilityOnDemand": False},  # its server keeps certificates in the root folder
        "integrations": {"frameworks": ["pod", "deployment"]},
    }


def queue(name: str, namespace: str, quotas: Mapping[str, int | str]) -> list[dict[str, Any]]:
    """The manifests of a queue in a namespace. All that its pods ask for must have a quota.

    Args:
        name: of the LocalQueue, the ClusterQueue behind it and their ResourceFlavor.
        namespace: where the LocalQueue is.
        quotas: how much there is of each resource.
    """
    nominal = [{"name": resource, "nominalQuota": quantity} for resource, quantity in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": name, "resources": nominal}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    here = {"name": name, "namespace": namespace}
    return [
        {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {}},
        {"apiVersion": _API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": _API, "kind": "LocalQueue", "metadata": here, "spec": {"clusterQueue": name}},
    ]


def priority(name: str, value: int) -> dict[str, Any]:
    """The manifest of a class that objects name by a label; a higher one evicts a lower one of its queue."""
    return {"apiVersion": _API, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


class Kueue(ClusterProcess):
    """``kueue`` against a control plane, with its custom resources and webhooks.

    Args:
        control_plane: which cluster. It keeps Kueue's objects: give it back to nobody.
        files: the program and its manifests.
    """

    def __init__(self, control_plane: ControlPlane, files: ProgramFiles) -> None:
        super().__init__(control_plane, "kueue")
        self._files = files
        self._port, self._health_port = self._reservation.take(), self._reservation.take()
        self._certificates = self._directory / "certificates"
        self._certificates.mkdir()

    @override
    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        config = self._directory / "configuration.yaml"
        config.write_text(
            yaml.safe_dump(
                configuration(
                    webhook_port=self._port, health_port=self._health_port, certificates=str(self._certificates)
                )
            )
        )
        kubeconfig = self._control_plane.user_kubeconfig(USER)
        command = [str(self._files.program), f"--config={config}", "--zap-log-level=2"]
        return command, os.environ | {"KUBECONFIG": str(kubeconfig)}

    @override
    def install(self) -> None:
        """Bring everything onto the control plane that Kueue's own installation brings, but for its Deployment."""
        plane = self._control_plane
        self._install_user(USER, NAMESPACE)
        plane.apply(
            [
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET, "namespace": NAMESPACE}},
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": _SERVICE, "namespace": NAMESPACE},
                    "spec": {"type": "ExternalName", "externalName": "localhost"},
                },
            ]
        )
        found = [each for path in sorted(self._files.manifests.iterdir()) for each in _documents(path.read_text())]
        for each in found:
            if each["kind"] == "CustomResourceDefinition":
                plane.apply([self._converted(each)])
                wait_until_established(plane.kubectl, each["metadata"]["name"])
        plane.apply(self._called(each) for each in found if each["kind"].endswith("WebhookConfiguration"))

    @override
    def _wait_until_ready(self) -> None:
        self._control_plane.wait_until(self._has_certificates, READY_SECONDS, "Kueue's certificates")
        super()._wait_until_ready()

    def _has_certificates(self) -> bool:
        """Copy the Secret to where Kueue reads it, as the kubelet does, once Kueue has filled it."""
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}"
        data = self._control_plane.client.get(path).get("data") or {}
        for name in ("ca.crt", "tls.key", "tls.crt") if "tls.crt" in data else ():  # it waits for the last one
            (self._certificates / name).write_bytes(base64.b64decode(data[name]))
        return "tls.crt" in data

    @override
    def _is_ready(self) -> bool:
        return is_well(f"http://127.0.0.1:{self._health_port}/readyz") and self._answers()

    def _answers(self) -> bool:
        """Whether the API server reaches its webhooks."""
        tried = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "tried"}} | _SMALLEST
        try:
            self._control_plane.client.send("POST", "/apis/apps/v1/namespaces/default/deployments?dryRun=All", tried)
        except ApiError as error:
            if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return False
        return True

    def _converted(self, definition: dict[str, Any]) -> dict[str, Any]:
        if definition["spec"]["names"]["plural"] in _CALLED_BY_VERSION:
            webhook = {"clientConfig": {"service": self._service("/convert")}, "conversionReviewVersions": ["v1"]}
            definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return definition

    def _called(self, configuration_: dict[str, Any]) -> dict[str, Any]:
        configuration_["metadata"]["name"] = f"{_PREFIX}{configuration_['metadata']['name']}"
        for each in configuration_["webhooks"]:
            each["clientConfig"] = {"service": self._service(each["clientConfig"]["service"]["path"])}
            if each["name"] in _OF_EVERYBODY:
                each["namespaceSelector"] = _ELSEWHERE
        return configuration_

    def _service(self, path: str) -> Mapping[str, Any]:
        return {"name": _SERVICE, "namespace": NAMESPACE, "path": path, "port": self._port}


_SMALLEST = {
    "spec": {
        "selector": {"matchLabels": {"app": "tried"}},
        "template": {
            "metadata": {"labels": {"app": "tried"}},
            "spec": {"containers": [{"name": "c", "image": "registry.example/x"}]},
        },
    }
}


def _documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]
