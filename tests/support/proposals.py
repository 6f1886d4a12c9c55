"""Proposals in the console: bodies as the operator writes them, and a cluster that remembers what was asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, cast

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import Cluster, Listing, ObjectKind
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import Tools, Visit
from plimsoll.console.web import page_text
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import from_rfc3339

ID, OTHER_ID = "4f0c8a1d92be", "91b27c03aa54"
NAME = f"chat-{ID}"
NOW = from_rfc3339("2026-11-24T02:00:00Z") or 0.0
SCRIPT = "<script>alert(1)</script>"


def place(gpu_type: str = "a100-sxm-80gb", replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"gpuType": gpu_type, "tensorParallel": 1, "replicas": replicas, **more}


def proposal(state: str = "Open", **more: Any) -> dict[str, Any]:
    """One replica more, as the operator proposes it under KV pressure."""
    owner = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "name": "chat", "uid": "uid-chat"}
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "PlacementProposal",
        "metadata": {
            "name": NAME,
            "namespace": "ml",
            "labels": {"plimsoll.dev/state": state},
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        },
        "deployment": "chat",
        "id": ID,
        "generation": 3,
        "change": "AddReplica",
        "summary": "1 on a100-sxm-80gb x 1 -> 2 on a100-sxm-80gb x 1",
        "reason": "SustainedKvPressure",
        "message": "2 replicas are needed and 1 replica wanted so far: 93 % of the KV cache is in use.",
        "figures": [
            {"name": "kv_percent", "value": "93"},
            {"name": "used_tokens", "value": "93000"},
            {"name": "held_tokens", "value": "100000"},
        ],
        "from": [place()],
        "to": [place(replicas=2)],
        "bill": {"before": "3.43", "after": "6.86", "summary": "3.43 -> 6.86"},
        "alternatives": [{"gpuType": "l4-24gb", "tensorParallel": 1, "reason": "TooLittleVram"}],
        "createdAt": "2026-11-24T01:00:00Z",
        "expiresAt": "2026-11-25T01:00:00Z",
        **more,
    }


def approval_of(name: str = "chat-x7k2p", state: str | None = "Waiting", **spec: Any) -> dict[str, Any]:
    """An answer to the proposal; without a state the operator has not answered it."""
    content = {"deployment": "chat", "proposal": ID, "decision": "approve", "by": "alex", **spec}
    status = {} if state is None else {"status": {"state": state, "message": f"It is {state}.", "at": ""}}
    head = {"name": name, "namespace": "ml", "creationTimestamp": "2026-11-24T01:59:00Z"}
    return {"metadata": head, "spec": content, **status}


@dataclass
class FakeCluster:
    """Objects by the plural of their kind, rights that are missing, and everything that was asked and created."""

    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    lacking: frozenset[str] = frozenset()
    refusals: dict[str, ClusterRefused] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def get(self, kind: ObjectKind, key: ObjectKey) -> dict[str, Any] | None:
        self._ask(f"get {kind.plural}")
        found = (body for body in self.objects.get(kind.plural, ()) if body["metadata"]["name"] == key.name)
        return next(found, None)

    async def list(self, kind: ObjectKind, *, namespace: str) -> Listing:
        assert namespace == "ml"
        self._ask(f"list {kind.plural}")
        return Listing(self.objects.get(kind.plural, []))

    async def may(self, verb: str, kind: ObjectKind, key: ObjectKey) -> bool:
        self._ask(f"may {verb} {kind.plural} {key}")
        return verb not in self.lacking

    async def user_name(self) -> str:
        return "alex"

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        self._ask("create")
        self.created.append(body)
        return {**body, "metadata": {**body["metadata"], "name": "chat-x7k2p"}}

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.refusals:
            raise self.refusals[what]


def visit_of(
    cluster: FakeCluster,
    name: str = NAME,
    *,
    allow: bool = True,
    form: Mapping[str, str] | None = None,
    world: ClusterView | None = None,
    person: str = "alex",
    **query: str,
) -> Visit:
    """A visit of a proposal's page, or with a form an answer to it."""
    return Visit(
        path=f"/proposals/ml/{name}",
        query={key: (value,) for key, value in query.items()},
        parts={"namespace": "ml", "name": name},
        person=person,
        world=world or ClusterView(),
        cluster=cast("Cluster", cluster),
        tools=Tools(ConsoleSettings(allow_approvals=allow)),
        now=NOW,
        form=form or {},
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """A page as a browser reads it: its elements with their attributes, and its text."""

    html: str
    elements: tuple[tuple[str, dict[str, str | None]], ...]
    text: str

    def all(self, element: str) -> list[dict[str, str | None]]:
        """The attributes of each element of this name."""
        return [attributes for name, attributes in self.elements if name == element]


def seen(page: Any, visit: Visit) -> Seen:
    """Render a page with its frame and read it."""
    return read_html(page_text(page, visit, visit.path))


def read_html(html: str) -> Seen:
    reader = _Reader()
    reader.feed(html)
    return Seen(html, tuple(reader.elements), " ".join(" ".join(reader.texts).split()))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
