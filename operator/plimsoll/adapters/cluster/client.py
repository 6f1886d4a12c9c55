"""The part of the Kubernetes API that the operator needs: list, get, server-side apply, delete, events, leases.

Objects are plain dictionaries. Of the official client the module uses the connection, its credentials and its TLS
settings. It does not use its dynamic client: the kinds are known, while discovery would need a dozen requests at every
start, and the dynamic client formats a traceback for each object that does not exist.

Every request is idempotent (server-side apply, deletes by uid, events with fixed names), so a request that fails for a
temporary reason is retried. Every write passes a fence just before it is sent. The leader election closes the fence
when this process loses the lease.

The body of a server-side apply. The API server reads it as YAML. JSON is valid YAML except for some characters.

Python writes a character beyond the basic plane as two escapes (a surrogate pair), which YAML refuses. So these
characters are not escaped. Characters that YAML refuses without an escape stay escaped
(https://yaml.org/spec/1.2.2/#51-character-set).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self, cast
from urllib.request import getproxies_environment
from weakref import WeakValueDictionary

import aiohttp
from aiolimiter import AsyncLimiter
from kubernetes.aio import client as api
from kubernetes.aio import config

from plimsoll.adapters.cluster.api_errors import (
    CONFLICT,
    GONE,
    IMPATIENT,
    ClusterRefused,
    NotLeading,
    Patience,
    patiently,
    retry_after_seconds,
    server_message,
)
from plimsoll.adapters.cluster.bearer_access import BearerAccess
from plimsoll.adapters.cluster.kinds import (
    ACCESS_REVIEWS,
    APPROVALS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    EVENTS,
    INFERENCE_DEPLOYMENTS,
    LEASES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    PROPOSALS,
    RESOURCE_QUOTAS,
    SECRETS,
    SELF_REVIEWS,
    SERVICES,
    ObjectKind,
    kind_of,
    version_number,
)
from plimsoll.adapters.cluster.kubeconfigs import UNREADABLE, check_exists, unusable
from plimsoll.adapters.cluster.small_pages import METADATA_ONLY, SmallPages, SmallResponse, long_lines
from plimsoll.adapters.garbage import read_json
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.render.names import FIELD_MANAGER

CONTENT_TYPE = "application/apply-patch+yaml; charset=utf-8"
"""With the character set, the client sends the text unchanged; without it, the client would encode it as JSON again."""

_NOT_PRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def apply_text(manifest: Any) -> str:
    """Return a manifest as text that is valid JSON and valid YAML."""
    return _NOT_PRINTABLE.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(manifest, ensure_ascii=False, allow_nan=False)
    )


__all__ = [
    "APPROVALS",
    "CONFIG_MAPS",
    "DEEPEST_JSON",
    "DEPLOYMENTS",
    "DISRUPTION_BUDGETS",
    "EVENTS",
    "INFERENCE_DEPLOYMENTS",
    "LEASES",
    "NODES",
    "PODS",
    "PRIORITY_CLASSES",
    "PROPOSALS",
    "RESOURCE_QUOTAS",
    "SECRETS",
    "SERVICES",
    "Cluster",
    "ClusterRefused",
    "Listing",
    "NotLeading",
    "ObjectKind",
    "kind_of",
]

REQUEST_TIMEOUT_SECONDS = 10
"""Time limit of one try. After a lost answer the next try, or the next pass, repeats the request."""

PAGE_SIZE = 500
"""The most objects per LIST page, the same as kubectl."""

CONNECTIONS = 32
"""Open connections at the same time: twice the number of objects that are written in parallel."""

DEEPEST_JSON = 20_000
"""Python's recursion limit while objects are read. The API server stores JSON of 10,000 levels, and one object that
Python cannot read would fail the LIST of all of them."""

WRITES_PER_SECOND = 100
"""Sustained rate of writes. The API server gives an ordinary client a share of some hundred requests in flight
(https://kubernetes.io/docs/concepts/cluster-administration/flow-control/); this rate leaves most of it to others."""

WRITES_AT_ONCE = 24
WRITES_AT_ONCE_PER_NAMESPACE = 8
"""Limits of writes in flight, in total and for one namespace. If a tenant's webhook makes all writes in its namespace
slow, writes in other namespaces continue. A write that waits for its next try does not count."""

JSON = "application/json"

_writing: ContextVar[bool] = ContextVar("plimsoll_writing", default=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """Every object of a kind at one moment.

    Attributes:
        items: the objects, in no particular order.
        version: the resource version at that moment, which only grows; 0 if the API server sent none.
        is_whole: whether these are all, and not only the first pages that were asked for.
    """

    items: Sequence[Manifest]
    version: int = 0
    is_whole: bool = True


def _always_open() -> None:
    """Allow every write: the fence of a process without an election. The command line is one; it only reads."""


class Cluster:
    """One API server. Use as an asynchronous context manager.

    Args:
        kubeconfig: path; None for the service account of a pod, or the kubeconfig that kubectl would use.
        context: a context of the kubeconfig; None for the current one.
        bearer: a person's token and its API server. Neither a kubeconfig nor a service account is then read.
        patience: how long one request is tried, unless it has limits of its own.

    Attributes:
        fence: called before every write, after its connection is open. Raises :class:`NotLeading` to stop the write.
    """

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        bearer: BearerAccess | None = None,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._bearer = bearer
        self._patience = patience
        self.fence: Callable[[], None] = _always_open

    async def __aenter__(self) -> Self:
        sys.setrecursionlimit(max(DEEPEST_JSON, sys.getrecursionlimit()))
        settings = api.Configuration()
        settings.connection_pool_maxsize = CONNECTIONS
        settings.trace_configs = [self._fenced()]
        # With trust_env every request looks for a .netrc and for proxies, in threads: half of the cost of a request.
        settings.client_session_kwargs = {
            "trust_env": bool(getproxies_environment()),
            "response_class": SmallResponse,
            "middlewares": (SmallPages(),),
        }
        try:
            await self._load(settings)
        except UNREADABLE as error:
            raise unusable(self._kubeconfig, self._context, error) from error
        self._api = api.ApiClient(settings)
        self._rate = AsyncLimiter(WRITES_PER_SECOND, 1.0)
        self._ways = asyncio.Semaphore(WRITES_AT_ONCE)
        self._ways_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.close()

    def _fenced(self) -> aiohttp.TraceConfig:
        """Return hooks that run after the connection is open and before the request is sent.

        An earlier check could be minutes old when the request is sent: opening a connection takes time, and a paused
        process does not notice the pause.
        """

        async def check(*_: object) -> None:
            if _writing.get():
                self.fence()

        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(check)
        trace.on_connection_reuseconn.append(check)
        return trace

    async def _load(self, settings: api.Configuration) -> None:
        """Load the person's token, if one is given. Else the service account in a pod, or what kubectl would use."""
        if self._bearer is not None:
            self._bearer.write_to(settings)
            return
        if self._kubeconfig is None and self._context is None:
            try:
                config.load_incluster_config(client_configuration=settings)
            except config.ConfigException:
                pass
            else:
                return
        check_exists(self._kubeconfig)
        await config.load_kube_config(
            config_file=self._kubeconfig, context=self._context, client_configuration=settings
        )

    async def list(
        self,
        kind: ObjectKind,
        *,
        labels: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        metadata_only: bool = False,
        pages: int | None = None,
        keep: Callable[[Manifest], Manifest] = lambda body: body,
    ) -> Listing:
        """Return every object of a kind, read page by page. If one page fails, the whole list fails.

        Args:
            kind: the kind.
            labels: a label selector.
            namespace: where to list; None for everywhere.
            name: lists only the objects of this name. It needs no right to get them.
            metadata_only: leaves out spec and status, which are most of an object.
            pages: the most pages to read; None for all.
            keep: reduces each object before the next page is read, so that a long list never is in memory as a whole.
        """
        found: list[Manifest] = []
        token, read = cast("str | None", None), 0
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        named = None if name is None else f"metadata.name={name}"
        query = {"labelSelector": labels, "fieldSelector": named, "limit": PAGE_SIZE}
        accept = METADATA_ONLY if metadata_only else JSON
        while True:
            asked = query | {"continue": token}
            page = await self._call(f"list {kind.plural}", "get", kind, namespace=namespace, query=asked, accept=accept)
            items = _items(page)
            if not isinstance(items, list) or not all(isinstance(item, dict) and "metadata" in item for item in items):
                raise SourceUnavailable(f"list {kind.plural}: the answer is no list of {kind.plural}")
            found += [keep(head | item) for item in items]
            about = page.get("metadata") or {}
            token = about.get("continue")
            read += 1
            if not token or read == pages:
                return Listing(found, version_number(about), is_whole=not token)

    async def watch(
        self, kind: ObjectKind, version: str, *, namespace: str | None = None, seconds: int
    ) -> AsyncIterator[tuple[str, Manifest]]:
        """Yield the changes after a resource version, each with its type: ADDED, MODIFIED, DELETED or BOOKMARK.

        The API server checks the rights of this user when a watch begins, and never while it lasts. So each watch ends
        after ``seconds``, and the next one is refused if the right is gone.

        Raises:
            ClusterRefused: with status 410 if the version is too old, and the objects must be listed again.
            SourceUnavailable: the API server does not answer, or the connection broke.
        """
        action, limit = f"watch {kind.plural}", seconds + REQUEST_TIMEOUT_SECONDS
        query = {"resourceVersion": version, "watch": True, "timeoutSeconds": seconds, "allowWatchBookmarks": True}
        with _own_errors(action):
            async with asyncio.timeout(limit):
                answer = await self._send(action, "get", kind.path(namespace=namespace), limit, query=query)
                try:
                    async for line in long_lines(answer.content):
                        yield _event(action, read_json(line))
                finally:
                    answer.close()

    async def get(self, kind: ObjectKind, key: ObjectKey) -> Manifest | None:
        """Return one object; None if it does not exist."""
        return await self._found(f"get {kind.plural} {key}", kind, key)

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply with our field manager; on a conflict our value replaces the other manager's."""
        kind, head = kind_of(manifest), manifest["metadata"]
        answer = await self._write(
            f"apply {kind.plural} {head.get('namespace')}/{head['name']}",
            "patch",
            kind,
            name=head["name"],
            namespace=head.get("namespace"),
            body=apply_text(manifest),
            content_type=CONTENT_TYPE,
            query={"fieldManager": FIELD_MANAGER, "force": True},
        )
        return _whole(answer)

    async def put_status(self, kind: ObjectKind, known: Mapping[str, Any], status: Mapping[str, Any]) -> Manifest:
        """Replace the whole status of the version that is known. A conflict (409) means that there is a newer one.

        The uid protects a newer object that has the same name. A server-side apply takes the API server a fifth more
        time: it reads the text as YAML, and merges it.
        """
        head = known["metadata"]
        key = ObjectKey(head["namespace"], head["name"])
        answer = await self._write(
            f"status of {kind.plural} {key}",
            "put",
            kind,
            name=key.name,
            namespace=key.namespace,
            subresource="status",
            body={
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {name: head[name] for name in ("name", "namespace", "uid", "resourceVersion")},
                "status": status,
            },
            query={"fieldManager": FIELD_MANAGER},
        )
        return _whole(answer)

    async def scale(
        self, kind: ObjectKind, key: ObjectKey, uid: str, replicas: int, metadata: Mapping[str, Any] | None = None
    ) -> Manifest:
        """Set only the number of replicas and these fields of the metadata."""
        answer = await self._write(
            f"scale {kind.plural} {key}",
            "patch",
            kind,
            name=key.name,
            namespace=key.namespace,
            body={"metadata": {**(metadata or {}), "uid": uid}, "spec": {"replicas": replicas}},
            content_type="application/merge-patch+json",
            query={"fieldManager": FIELD_MANAGER},
        )
        return _whole(answer)

    async def delete(self, kind: ObjectKind, key: ObjectKey, uid: str) -> None:
        """Delete exactly this object; it is no error if the object is already gone."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        try:
            await self._write(
                f"delete {kind.plural} {key}",
                "delete",
                kind,
                name=key.name,
                namespace=key.namespace,
                body=options,
                query={"propagationPolicy": "Background"},
            )
        except ClusterRefused as refusal:
            if not refusal.says_gone:
                raise

    async def evict(self, key: ObjectKey) -> None:
        """End a pod as a drain would: within its disruption budget. It is no error if the pod is gone already.

        Source: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/

        Raises:
            ClusterRefused: a budget forbids it now (HTTP 429), or the right is missing (403).
        """
        head = {"name": key.name, "namespace": key.namespace}
        try:
            await self._write(
                f"evict pod {key}",
                "post",
                PODS,
                name=key.name,
                namespace=key.namespace,
                subresource="eviction",
                body={"apiVersion": "policy/v1", "kind": "Eviction", "metadata": head},
                patience=IMPATIENT,
            )
        except ClusterRefused as refusal:
            if refusal.status != GONE:
                raise

    async def create_event(self, event: Manifest) -> None:
        """Record an event; it is no error if an event with this name exists, because it was recorded before."""
        try:
            await self._write("record event", "post", EVENTS, namespace=event["metadata"]["namespace"], body=event)
        except ClusterRefused as refusal:
            if refusal.status != CONFLICT:
                raise

    async def create(self, body: Manifest) -> Manifest:
        """Create an object. It is not tried again: with a generated name, a second try could make a second object."""
        kind, head = kind_of(body), body["metadata"]
        return _whole(
            await self._write(
                f"create {kind.plural}", "post", kind, namespace=head["namespace"], body=body, patience=IMPATIENT
            )
        )

    async def user_name(self) -> str:
        """Return the name that the API server knows this user by.

        Raises:
            ClusterRefused: the API server does not say it.
        """
        review = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
        answer = await self._call("ask for the own user name", "post", SELF_REVIEWS, body=review)
        return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")

    async def may(self, verb: str, kind: ObjectKind, key: ObjectKey) -> bool:
        """Return whether the API server would let this user do this.

        An empty name means all objects of a namespace, and an empty namespace all namespaces. Nothing is stored.
        Admission may still refuse a request that is allowed here.
        """
        asked = {"group": kind.group, "resource": kind.plural, "verb": verb, "namespace": key.namespace}
        review = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": asked | ({"name": key.name} if key.name else {})},
        }
        answer = await self._call(f"ask whether {verb} is allowed", "post", ACCESS_REVIEWS, body=review)
        return (answer.get("status") or {}).get("allowed") is True

    async def get_lease(self, key: ObjectKey, *, timeout_seconds: float) -> Manifest | None:
        """Return the lease of the election; None if it does not exist yet. One try: the elector asks again soon."""
        limits = {"timeout_seconds": timeout_seconds, "patience": IMPATIENT}
        return await self._found(f"get lease {key}", LEASES, key, **limits)

    async def put_lease(self, lease: Manifest, *, timeout_seconds: float) -> Manifest:
        """Create the lease, or replace the version that was read. A conflict (409) means another process was faster.

        The fence does not apply, because this write opens the fence.
        """
        what = f"lease {lease['metadata']['namespace']}/{lease['metadata']['name']}"
        limits = {"timeout_seconds": timeout_seconds, "patience": IMPATIENT}
        return await self._put("renew", what, LEASES, lease, **limits)

    async def checked(self, kind: ObjectKind, body: Manifest) -> Manifest:
        """Return an object as the API server would store it (a dry run). Nothing is stored.

        An object with a resource version would replace the stored one; any other would be created.

        Raises:
            ClusterRefused: the API server would refuse it, or this user may not write objects of this kind.
        """
        what = f"{kind.plural} {body['metadata'].get('namespace')}/{body['metadata']['name']} as a dry run"
        return await self._put("replace", what, kind, body, query={"dryRun": "All"})

    async def _found(self, action: str, kind: ObjectKind, key: ObjectKey, **options: Any) -> Manifest | None:
        try:
            return _whole(await self._call(action, "get", kind, name=key.name, namespace=key.namespace, **options))
        except ClusterRefused as refusal:
            if refusal.status == GONE:
                return None
            raise

    async def _put(self, verb: str, what: str, kind: ObjectKind, body: Manifest, **options: Any) -> Manifest:
        """Replace the version of an object that was read, or create it if none was. ``verb`` is for the former."""
        head = body["metadata"]
        is_known = bool(head.get("resourceVersion"))
        answer = await self._call(
            f"{verb if is_known else 'create'} {what}",
            "put" if is_known else "post",
            kind,
            name=head["name"] if is_known else None,
            namespace=head.get("namespace"),
            body=body,
            **options,
        )
        return _whole(answer)

    async def _write(self, action: str, method: str, kind: ObjectKind, **options: Any) -> Manifest:
        mark = _writing.set(True)
        try:
            return await self._call(action, method, kind, **options)
        finally:
            _writing.reset(mark)

    def _way_of(self, namespace: str | None) -> asyncio.Semaphore:
        """Return the semaphore that limits the writes in a namespace; it is dropped when no write uses it."""
        key = namespace or ""
        way = self._ways_of.get(key)
        if way is None:
            way = self._ways_of[key] = asyncio.Semaphore(WRITES_AT_ONCE_PER_NAMESPACE)
        return way

    async def _call(
        self,
        action: str,
        method: str,
        kind: ObjectKind,
        *,
        name: str | None = None,
        namespace: str | None = None,
        subresource: str = "",
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        patience: Patience | None = None,
        **options: Any,
    ) -> Manifest:
        path = kind.path(name, namespace, subresource)

        async def attempt() -> Manifest:
            if not _writing.get():
                return await self._once(action, method, path, timeout_seconds, options)
            async with self._way_of(namespace), self._ways, self._rate:
                return await self._once(action, method, path, timeout_seconds, options)

        return await patiently(attempt, patience or self._patience)

    async def _once(
        self, action: str, method: str, path: str, timeout_seconds: float, options: Mapping[str, Any]
    ) -> Manifest:
        """Send the request once. The deadline also covers the body of the answer."""
        with _own_errors(action):
            async with asyncio.timeout(timeout_seconds):
                answer = await self._send(action, method, path, timeout_seconds, **options)
                document = await answer.json(content_type=None, loads=read_json)
        if not isinstance(document, dict) or "kind" not in document:
            raise SourceUnavailable(f"{action}: the answer is no Kubernetes object")
        return cast("Manifest", document)

    async def _send(
        self,
        action: str,
        method: str,
        path: str,
        timeout_seconds: float,
        *,
        query: Mapping[str, Any] = MappingProxyType({}),
        body: Any = None,
        accept: str = JSON,
        content_type: str = JSON,
    ) -> aiohttp.ClientResponse:
        """Send the request and return the answer, whose body is still to be read.

        Raises:
            ClusterRefused: the API server does not carry it out.
        """
        verb, url, headers, _, _ = await self._api.param_serialize(
            method.upper(),
            path,
            query_params=[(name, value) for name, value in query.items() if value is not None],
            header_params={"Accept": accept, "Content-Type": content_type},
            auth_settings=["BearerToken"],
        )
        # The client would copy each part of the body, to replace its own classes and times. Ours are JSON values.
        limits = aiohttp.ClientTimeout(timeout_seconds, sock_connect=self._patience.reach_seconds)
        answer = await self._api.call_api(verb, url, headers, body, _request_timeout=limits)
        if not answer.response.ok:
            text = (await answer.read()).decode(errors="replace")
            message, pause = server_message(text, answer.reason), retry_after_seconds(answer.headers)
            raise ClusterRefused(action, answer.status, message, retry_after=pause)
        return cast("aiohttp.ClientResponse", answer.response)


@contextmanager
def _own_errors(action: str) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise SourceUnavailable(f"{action}: {_unreached_words(error)}") from error
    except ValueError as error:
        raise SourceUnavailable(f"{action}: the answer is not JSON") from error


def _unreached_words(error: Exception) -> str:
    """Return why a server gave no answer: what was tried, and the operating system's or the library's reason."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {error.host}:{error.port} is not trusted ({error.certificate_error})"
        case aiohttp.ClientConnectorDNSError():
            return f"host {error.host} is not known ({_reason(error.os_error)})"
        case aiohttp.ClientConnectorError():
            return f"no connection to {error.host}:{error.port} ({_reason(error.os_error)})"
        case aiohttp.ServerTimeoutError():
            return str(error)
        case TimeoutError():
            return "no answer in time"
        case _:
            return f"{type(error).__name__} {error}".rstrip()


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) or error.errno is None or error.errno < 0:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _event(action: str, event: Any) -> tuple[str, Manifest]:
    """Return the type and the object of a watch event. An error inside of a watch is a refusal."""
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise SourceUnavailable(f"{action}: the answer is no event")
    body = event["object"]
    if event.get("type") == "ERROR":
        raise ClusterRefused(action, int(body.get("code") or 0), str(body.get("message") or "error in a watch"))
    return str(event.get("type")), body


def _items(page: Manifest) -> Any:
    """The objects of a page. The API server writes ``null`` for a list of metadata without objects."""
    items = page.get("items")
    return [] if items is None and page["kind"] == "PartialObjectMetadataList" else items


def _whole(body: Manifest) -> Manifest:
    """Return the object, if it has a name and a uid. JSON from a proxy has neither and is refused."""
    head = body.get("metadata")
    if not isinstance(head, dict) or not head.get("name") or not head.get("uid"):
        raise SourceUnavailable(f"the answer is no object but a {body.get('kind')}")
    return body
