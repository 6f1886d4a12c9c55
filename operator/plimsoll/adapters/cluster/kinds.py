"""Kinds of Kubernetes objects that the operator reads or writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from plimsoll.domain.kubernetes_names import (
    APPROVAL_KIND,
    APPROVAL_PLURAL,
    GROUP,
    KIND,
    PLURAL,
    PROPOSAL_KIND,
    PROPOSAL_PLURAL,
    VERSION,
)


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of objects and its place in the API."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str | None = None, namespace: str | None = None, subresource: str = "") -> str:
        """Return the path of an object, or of all: those of a namespace if it is given and the kind has namespaces."""
        prefix = "apis" if self.group else "api"
        within = ("namespaces", namespace) if namespace and self.namespaced else ()
        parts = (prefix, *self.api_version.split("/"), *within, self.plural, name, subresource)
        return "".join(f"/{quote(part, safe='')}" for part in parts if part)


INFERENCE_DEPLOYMENTS = ObjectKind(GROUP, VERSION, KIND, PLURAL)
PROPOSALS = ObjectKind(GROUP, VERSION, PROPOSAL_KIND, PROPOSAL_PLURAL)
APPROVALS = ObjectKind(GROUP, VERSION, APPROVAL_KIND, APPROVAL_PLURAL)
NODES = ObjectKind("", "v1", "Node", "nodes", namespaced=False)
PODS = ObjectKind("", "v1", "Pod", "pods")
SERVICES = ObjectKind("", "v1", "Service", "services")
CONFIG_MAPS = ObjectKind("", "v1", "ConfigMap", "configmaps")
SECRETS = ObjectKind("", "v1", "Secret", "secrets")
CLAIMS = ObjectKind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = ObjectKind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = ObjectKind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
RESOURCE_QUOTAS = ObjectKind("", "v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGES = ObjectKind("", "v1", "LimitRange", "limitranges")
PRIORITY_CLASSES = ObjectKind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
DEPLOYMENTS = ObjectKind("apps", "v1", "Deployment", "deployments")
JOBS = ObjectKind("batch", "v1", "Job", "jobs")
DISRUPTION_BUDGETS = ObjectKind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
EVENTS = ObjectKind("events.k8s.io", "v1", "Event", "events")
RESOURCE_SLICES = ObjectKind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
RESOURCE_CLAIMS = ObjectKind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
NODE_POOLS = ObjectKind("karpenter.sh", "v1", "NodePool", "nodepools", namespaced=False)
SELF_REVIEWS = ObjectKind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
ACCESS_REVIEWS = ObjectKind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
SERVICE_ACCOUNTS = ObjectKind("", "v1", "ServiceAccount", "serviceaccounts")
ROLES = ObjectKind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDINGS = ObjectKind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
NETWORK_POLICIES = ObjectKind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
INFERENCE_POOLS = ObjectKind("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools")
GATEWAYS = ObjectKind("gateway.networking.k8s.io", "v1", "Gateway", "gateways")
HTTP_ROUTES = ObjectKind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
LEASES = ObjectKind("coordination.k8s.io", "v1", "Lease", "leases")

KINDS = (
    INFERENCE_DEPLOYMENTS, NODES, PODS, SERVICES, CONFIG_MAPS, SECRETS, RESOURCE_QUOTAS, PRIORITY_CLASSES,
    DEPLOYMENTS, JOBS, DISRUPTION_BUDGETS, EVENTS, LEASES, NODE_POOLS, RESOURCE_SLICES, PROPOSALS, APPROVALS,
    RESOURCE_CLAIMS, SELF_REVIEWS, ACCESS_REVIEWS, CLAIMS, VOLUMES, STORAGE_CLASSES, LIMIT_RANGES,
    SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES, INFERENCE_POOLS, GATEWAYS, HTTP_ROUTES,
)  # fmt: skip

OF_ROUTERS = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES, INFERENCE_POOLS)
"""The kinds that only routers have. They are listed, and done without if they may not be read or do not exist."""

OF_GATEWAYS = (HTTP_ROUTES, GATEWAYS)
"""The kinds of mode Gateway, listed in the same way. Gateways are those of the cluster's admins."""

_BY_NAME = {(kind.api_version, kind.kind): kind for kind in KINDS}


def version_number(metadata: Mapping[str, Any]) -> int:
    """Return the resource version of an object or a list; 0 for none. Clients may compare it since Kubernetes 1.35."""
    text = str(metadata.get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0


def kind_of(manifest: Mapping[str, Any]) -> ObjectKind:
    """Return the kind of a manifest. Raises KeyError for a kind that the operator does not use."""
    return _BY_NAME[manifest["apiVersion"], manifest["kind"]]
