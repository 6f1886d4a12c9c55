"""The Kubernetes API, as far as the operator needs it: list, get, server-side apply, delete, events.

Plain dictionaries in and out, through the official client's asyncio dynamic client. Its discovery is left out: the
kinds are known, and discovery would cost a dozen requests and a cache file at every start. The client's exceptions end
here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import aiohttp
from kubernetes.aio import client as api
from kubernetes.aio import config
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.dynamic.resource import Resource

from plimsoll.domain.errors import PlimsollError, SourceUnavailable
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.names import GROUP, KIND, PLURAL, VERSION
from plimsoll.domain.workload import Manifest
from plimsoll.render.names import FIELD_MANAGER

REQUEST_TIMEOUT_SECONDS = 10
"""No call may hold the executor longer; a lost answer is repaired by the next pass."""

PAGE_SIZE = 500
"""Objects per LIST page, as kubectl does it."""


class ClusterRefused(PlimsollError):
    """The API server answered no. ``status`` is the HTTP status: 404 gone, 409 conflict, 403 forbidden, 422 invalid."""

    def __init__(self, action: str, status: int, message: str) -> None:
        super().__init__(f"{action}: {status} {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind and where the API serves it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version


INFERENCE_DEPLOYMENTS = Kind(GROUP, VERSION, KIND, PLURAL)
NODES = Kind("", "v1", "Node", "nodes", namespaced=False)
PODS = Kind("", "v1", "Pod", "pods")
SERVICES = Kind("", "v1", "Service", "services")
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
SECRETS = Kind("", "v1", "Secret", "secrets")
RESOURCE_QUOTAS = Kind("", "v1", "ResourceQuota", "resourcequotas")
DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
DISRUPTION_BUDGETS = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
EVENTS = Kind("events.k8s.io", "v1", "Event", "events")

KINDS = (
    INFERENCE_DEPLOYMENTS, NODES, PODS, SERVICES, CONFIG_MAPS, SECRETS, DEPLOYMENTS, DISRUPTION_BUDGETS, EVENTS,
)  # fmt: skip


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind of a manifest. Raises KeyError for one that the operator never writes."""
    wanted = (manifest["apiVersion"], manifest["kind"])
    return {(kind.api_version, kind.kind): kind for kind in KINDS}[wanted]


class _NoDiscovery:
    """Stands in for the dynamic client's discovery: nothing to discover."""

    def __init__(self, client: object, cache_file: object) -> None:
        pass

    def __await__(self) -> Generator[Any, None, _NoDiscovery]:
        yield from ()
        return self


class Cluster:
    """One API server. Use as an asynchronous context manager."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._context = context

    async def __aenter__(self) -> Self:
        settings = api.Configuration()
        try:
            await self._load(settings)
        except config.ConfigException as error:
            raise SourceUnavailable(f"no usable kubeconfig or service account: {error}") from error
        self._api = api.ApiClient(settings)
        self._dynamic = DynamicClient(self._api, discoverer=_NoDiscovery)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.close()

    async def _load(self, settings: api.Configuration) -> None:
        """In a pod, the service account; else the kubeconfig, as kubectl finds it."""
        if self._kubeconfig is None and self._context is None:
            try:
                config.load_incluster_config(client_configuration=settings)
            except config.ConfigException:
                pass
            else:
                return
        await config.load_kube_config(
            config_file=self._kubeconfig, context=self._context, client_configuration=settings
        )

    async def list(self, kind: Kind, *, labels: str | None = None, namespace: str | None = None) -> list[Manifest]:
        """Every object of a kind, page by page; a page that fails fails the whole list."""
        found: list[Manifest] = []
        token: str | None = None
        while True:
            page = await self._call(
                f"list {kind.plural}",
                "get",
                kind,
                namespace=namespace,
                label_selector=labels,
                limit=PAGE_SIZE,
                _continue=token,
            )
            head = {"apiVersion": kind.api_version, "kind": kind.kind}
            found += [head | item for item in page.get("items") or ()]
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return found

    async def get(self, kind: Kind, key: ObjectKey) -> Manifest | None:
        """One object, or None where there is none."""
        try:
            return await self._call(f"get {kind.plural} {key}", "get", kind, name=key.name, namespace=key.namespace)
        except ClusterRefused as refusal:
            if refusal.status == 404:  # noqa: PLR2004 - HTTP
                return None
            raise

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply with our field manager; conflicts on our own fields are taken back."""
        kind, head = kind_of(manifest), manifest["metadata"]
        return await self._call(
            f"apply {kind.plural} {head.get('namespace')}/{head['name']}",
            "patch",
            kind,
            name=head["name"],
            namespace=head.get("namespace"),
            body=manifest,
            field_manager=FIELD_MANAGER,
            force_conflicts=True,
            content_type="application/apply-patch+yaml",
        )

    async def apply_status(self, kind: Kind, key: ObjectKey, uid: str, status: Mapping[str, Any]) -> Manifest:
        """Write the whole status. The uid makes sure that a namesake created since is left alone."""
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
            "status": status,
        }
        return await self._call(
            f"status of {kind.plural} {key}",
            "patch",
            kind,
            name=key.name,
            namespace=key.namespace,
            subresource="status",
            body=body,
            field_manager=FIELD_MANAGER,
            force_conflicts=True,
            content_type="application/apply-patch+yaml",
        )

    async def scale(self, kind: Kind, key: ObjectKey, uid: str, replicas: int) -> Manifest:
        """Set the number of replicas and nothing else."""
        return await self._call(
            f"scale {kind.plural} {key}",
            "patch",
            kind,
            name=key.name,
            namespace=key.namespace,
            body={"metadata": {"uid": uid}, "spec": {"replicas": replicas}},
            field_manager=FIELD_MANAGER,
            content_type="application/merge-patch+json",
        )

    async def delete(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        """Delete exactly this object; one that is gone already is as good."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        try:
            await self._call(
                f"delete {kind.plural} {key}",
                "delete",
                kind,
                name=key.name,
                namespace=key.namespace,
                body=options,
                propagation_policy="Background",
            )
        except ClusterRefused as refusal:
            if refusal.status not in (404, 409):
                raise

    async def create_event(self, event: Manifest) -> None:
        """Record an event; one of the same name was recorded before and is enough."""
        try:
            await self._call("record event", "post", EVENTS, namespace=event["metadata"]["namespace"], body=event)
        except ClusterRefused as refusal:
            if refusal.status != 409:  # noqa: PLR2004 - HTTP
                raise

    async def read_secret(self, key: ObjectKey, entry: str) -> str | None:
        """One entry of a Secret as text, or None where Secret or entry do not exist."""
        secret = await self.get(SECRETS, key)
        encoded = ((secret or {}).get("data") or {}).get(entry)
        return None if encoded is None else base64.b64decode(encoded).decode()

    async def _call(
        self,
        action: str,
        method: str,
        kind: Kind,
        *,
        name: str | None = None,
        namespace: str | None = None,
        subresource: str = "",
        **options: Any,
    ) -> Manifest:
        resource = Resource(
            prefix="apis" if kind.group else "api",
            group=kind.group,
            api_version=kind.version,
            kind=kind.kind,
            namespaced=kind.namespaced,
            verbs=[],
            name=kind.plural,
            client=self._dynamic,
        )
        path = resource.path(name=name, namespace=namespace) + (f"/{subresource}" if subresource else "")
        given = {key: value for key, value in options.items() if value is not None}
        try:
            answer = await self._dynamic.request(
                method, path, serialize=False, _request_timeout=REQUEST_TIMEOUT_SECONDS, **given
            )
            return cast("Manifest", await answer.json(content_type=None))
        except ApiException as error:
            raise ClusterRefused(action, error.status, _message(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SourceUnavailable(f"{action}: {type(error).__name__} {error}") from error


def _message(error: ApiException) -> str:
    """The API server's own sentence, out of the Status object that it answers with."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)
