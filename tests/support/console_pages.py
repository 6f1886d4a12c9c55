"""Pages of the console as a browser reads them, on objects with a status that the operator itself rendered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import Cluster, Listing, ObjectKind
from plimsoll.console.pages.routes import PAGES
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.commands import Commands, Ran
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.world import ClusterView, pod_of
from plimsoll.console.visit import ConsolePage, Redirect, Tools, View, Visit
from plimsoll.console.web import page_text
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL
from testbed.fleet import gpu_node
from tests.support.proposals import NOW, Seen, read_html
from tests.support.rendered import example, fleet_of, plan_one

Body = dict[str, Any]

H100_NODE, L4_NODE = gpu_node("h100-0", "H100-80GB-HBM3", 8), gpu_node("l4-0", "L4", 4)


@cache
def _status() -> str:
    planned = plan_one(example("01-minimal", {}), fleet_of(H100_NODE, L4_NODE))
    return planned.outcome().status.model_dump_json(by_alias=True, exclude_none=True)


def chat() -> Body:
    """An InferenceDeployment with a place and the status that the operator writes; a copy for each caller."""
    head = {
        "name": "chat",
        "namespace": "ml",
        "uid": "u1",
        "generation": 1,
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-24T01:00:00Z",
    }
    return {**example("01-minimal", {}), "metadata": head, "status": json.loads(_status())}


def chat_pod(name: str = "chat-0", node: str = "l4-0", **status: Any) -> Body:
    """A pod of that deployment's pool with one GPU."""
    labels = {DEPLOYMENT_LABEL: "chat", POOL_LABEL: "l4-24gb-tp1"}
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "labels": labels,
            "creationTimestamp": "2026-11-24T01:30:00Z",
        },
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **status},
    }


def world_of(
    *bodies: Body, pods: Sequence[Body] = (), nodes: Sequence[Body] = (H100_NODE, L4_NODE), **more: Any
) -> ClusterView:
    """Everything that a person sees of these objects."""
    rows = [row_of(body) for body in bodies]
    fleet = read_fleet(nodes, pods, load_gpu_types())
    held = tuple(pod for body in pods if (pod := pod_of(body)) is not None)
    return ClusterView(revision=1, heard=NOW, rows={row.key: row for row in rows}, pods=held, fleet=fleet, **more)


@dataclass
class Answering:
    """A cluster that gives the same object for every name of a kind, by the kind's plural, under the asked name."""

    objects: Mapping[str, Body] = field(default_factory=dict)

    async def get(self, kind: ObjectKind, key: ObjectKey) -> Body | None:
        found = self.objects.get(kind.plural)
        named = {"name": key.name, "namespace": key.namespace}
        return None if found is None else {**found, "metadata": {**found["metadata"], **named}}

    async def list(self, kind: ObjectKind, **_: object) -> Listing:
        return Listing([each for each in (self.objects.get(kind.plural),) if each is not None])

    async def may(self, *_: object) -> bool:
        return True

    async def user_name(self) -> str:
        return "alex"

    async def create(self, body: Body) -> Body:
        return {**body, "metadata": {**body["metadata"], "name": "made"}}


@dataclass
class Saying(Commands):
    """Answers every command with the same words, and remembers its arguments and standard input."""

    ran: Ran = field(default_factory=lambda: Ran(2, "", "error: nothing was asked"))
    asked: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    async def run(self, arguments: Sequence[str], given: str = "", bearer: object = None) -> Ran:
        assert bearer is None
        self.asked.append((tuple(arguments), given))
        return self.ran


def view_of(path: str, method: str = "GET") -> View:
    """The page at a path of the routes."""
    return next(view for view in PAGES if (view.path, view.method) == (path, method))


def visit_of(view: View, world: ClusterView, **how: Any) -> Visit:
    """A visit. ``how`` replaces fields of :class:`Visit`; ``settings`` and ``commands`` those of its Tools."""
    tools = Tools(how.pop("settings", ConsoleSettings()), how.pop("commands", Saying()))
    parts = {"namespace": "ml", "name": "chat"}
    fields: dict[str, Any] = {
        "path": view.path.format(**parts),
        "query": {},
        "parts": parts,
        "person": "alex",
        "world": world,
        "cluster": cast("Cluster", Answering()),
        "tools": tools,
        "now": NOW,
    }
    return Visit(**fields | how)


async def opened(view: View, visit: Visit) -> Seen | Redirect:
    """The page with its frame, or where it sends the browser."""
    found = await view.handler(visit)
    return read_html(page_text(found, visit, visit.path)) if isinstance(found, ConsolePage) else found


async def page_of(path: str, world: ClusterView, **how: Any) -> Seen:
    """The page at a path of the routes."""
    view = view_of(path)
    found = await opened(view, visit_of(view, world, **how))
    assert isinstance(found, Seen)
    return found


async def deployment_page(body: Body, **how: Any) -> Seen:
    """The page of one deployment."""
    cluster = Answering({"inferencedeployments": body})
    return await page_of("/deployments/{namespace}/{name}", world_of(body, pods=[chat_pod()]), cluster=cluster, **how)
