"""A person's view of a cluster, kept current by lists and watches of a cluster that a test plays."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import Cluster, Listing
from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS, NODES, PODS, PROPOSALS, ObjectKind
from plimsoll.console.sources import informer_cache as module
from plimsoll.console.sources.reader import Reader
from plimsoll.console.views.frame import frame_of
from plimsoll.console.views.world import ClusterView, GapKind
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from tests.support.console_pages import H100_NODE, L4_NODE, Body, chat, chat_pod

Scope = tuple[str, str | None]
CHAT, OTHER = ObjectKey("ml", "chat"), ObjectKey("ml", "other")
AWAY = SourceUnavailable("nobody answers")
DEPLOYMENTS = INFERENCE_DEPLOYMENTS.plural


def forbidden(what: str = "list") -> ClusterRefused:
    return ClusterRefused(what, 403, "you may not")


def named(name: str, namespace: str = "ml", **more: Any) -> Body:
    body = chat()
    return {**body, "metadata": {**body["metadata"], "name": name, "namespace": namespace}, **more}


@dataclass
class Played:
    """Lists give ``bodies``, or raise what stands in ``refusals``. Watches give what a test sends with :meth:`tell`."""

    bodies: dict[Scope, list[Body]] = field(default_factory=dict)
    refusals: dict[Scope, Exception] = field(default_factory=dict)
    lists: list[Scope] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    _events: dict[Scope, asyncio.Queue[Any]] = field(default_factory=lambda: defaultdict(asyncio.Queue))

    async def list(
        self, kind: ObjectKind, *, namespace: str | None, keep: Callable[[Body], Any], **_: object
    ) -> Listing:
        scope = kind.plural, namespace
        self.lists.append(scope)
        if scope in self.refusals:
            raise self.refusals[scope]
        for body in self.bodies.get(scope, ()):
            keep(body)
        return Listing([], 10)

    async def watch(
        self, kind: ObjectKind, version: str, *, namespace: str | None, seconds: int
    ) -> AsyncIterator[tuple[str, Body]]:
        assert seconds <= 60
        scope = kind.plural, namespace
        if scope[0] == DEPLOYMENTS:
            self.versions.append(version)
        while True:
            event = await self._events[scope].get()
            if isinstance(event, Exception):
                raise event
            if event is None:
                return
            yield event

    def tell(self, event: Any, kind: ObjectKind = INFERENCE_DEPLOYMENTS, namespace: str | None = None) -> None:
        """Send an event to the watch of a kind; None ends the watch, an exception breaks it."""
        self._events[kind.plural, namespace].put_nowait(event)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0,))
    monkeypatch.setattr(module, "DOUBT_PAUSE", 0.0)
    monkeypatch.setattr(module, "FORBIDDEN_PAUSE", 0.0)


def cluster_with(*bodies: Body) -> Played:
    return Played(
        {
            (DEPLOYMENTS, None): list(bodies),
            (NODES.plural, None): [H100_NODE, L4_NODE],
            (PODS.plural, None): [chat_pod()],
        }
    )


@asynccontextmanager
async def reading(cluster: Played, **how: Any) -> AsyncIterator[Reader]:
    async with Reader(cast("Cluster", cluster), **how) as reader:
        yield reader


async def until(reader: Reader, is_so: Callable[[ClusterView], bool]) -> ClusterView:
    """Wait for a state, and return it."""
    async with asyncio.timeout(60):
        with reader.listen() as listener:
            while not is_so(reader.world):
                await listener.wait(60)
    return reader.world


async def loaded(reader: Reader) -> ClusterView:
    return await until(reader, lambda world: not world.is_loading)


async def test_everything_is_listed_once_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 1_700_000_000.0, monotonic=time.monotonic))
    async with reading(cluster_with(named("chat"))) as reader:
        assert {gap.reason for gap in reader.world.gaps} == {GapKind.LOADING}
        assert reader.world.fleet is None
        world = await loaded(reader)
    assert world.gaps == ()
    assert list(world.rows) == [CHAT]
    assert [pod.key.name for pod in world.pods] == ["chat-0"]
    assert world.fleet is not None
    assert {node.name: node.free for node in world.fleet.nodes} == {"h100-0": 8, "l4-0": 3}
    assert world.heard == 1_700_000_000.0


async def test_a_world_is_the_same_until_something_changes() -> None:
    cluster = cluster_with(named("chat"))
    async with reading(cluster) as reader:
        first = await loaded(reader)
        assert reader.world is first
        cluster.tell(("MODIFIED", named("chat")))
        cluster.tell(("ADDED", named("other")))
        second = await until(reader, lambda world: OTHER in world.rows)
        assert second.revision == first.revision + 1
        assert second.fleet is first.fleet


async def test_events_add_change_and_remove() -> None:
    cluster = cluster_with(named("chat"))
    async with reading(cluster) as reader:
        await loaded(reader)
        cluster.tell(("ADDED", named("other")))
        await until(reader, lambda world: OTHER in world.rows)
        cluster.tell(("MODIFIED", named("other", spec={"model": {"name": "another"}})))
        world = await until(reader, lambda world: world.rows[OTHER].model == "another")
        assert world.rows[CHAT].model != "another"
        cluster.tell(("DELETED", named("other")))
        world = await until(reader, lambda world: OTHER not in world.rows)
    assert list(world.rows) == [CHAT]


async def test_a_bookmark_changes_nothing_and_the_next_watch_goes_on_from_it() -> None:
    cluster = cluster_with(named("chat"))
    async with reading(cluster) as reader:
        revision = (await loaded(reader)).revision
        cluster.tell(("BOOKMARK", {"metadata": {"resourceVersion": "55"}}))
        cluster.tell(None)
        cluster.tell(("ADDED", named("other")))
        world = await until(reader, lambda world: OTHER in world.rows)
    assert world.revision == revision + 1
    assert cluster.versions[:2] == ["10", "55"]
    assert cluster.lists.count((DEPLOYMENTS, None)) == 1


async def test_a_version_that_is_too_old_is_listed_again() -> None:
    cluster = cluster_with(named("chat"))
    async with reading(cluster) as reader:
        await loaded(reader)
        cluster.bodies[DEPLOYMENTS, None] = [named("other")]
        cluster.tell(ClusterRefused("watch", 410, "too old"))
        world = await until(reader, lambda world: OTHER in world.rows)
    assert list(world.rows) == [OTHER]
    assert cluster.lists.count((DEPLOYMENTS, None)) == 2
    assert world.gaps == ()


async def test_a_right_that_is_taken_away_drops_every_object_of_its_kind() -> None:
    cluster = cluster_with(named("chat"))
    async with reading(cluster) as reader:
        await loaded(reader)
        cluster.refusals[DEPLOYMENTS, None] = forbidden()
        cluster.tell(forbidden("watch"))
        world = await until(reader, lambda world: not world.rows)
        gap = world.gap_of(DEPLOYMENTS)
        assert gap is not None
        assert gap.reason is GapKind.FORBIDDEN
        assert "You may not list inferencedeployments.plimsoll.dev in all namespaces" in gap.sentence
        assert len(world.pods) == 1
        del cluster.refusals[DEPLOYMENTS, None]
        assert list((await until(reader, lambda world: bool(world.rows))).rows) == [CHAT]


async def test_an_unauthorized_person_sees_nothing_either() -> None:
    cluster = cluster_with(named("chat"))
    async with reading(cluster) as reader:
        await loaded(reader)
        cluster.refusals[DEPLOYMENTS, None] = ClusterRefused("list", 401, "Unauthorized")
        cluster.tell(ClusterRefused("watch", 401, "Unauthorized"))
        world = await until(reader, lambda world: not world.rows)
        assert world.gaps[0].reason is GapKind.FORBIDDEN


async def test_without_nodes_there_is_no_fleet_and_without_a_crd_a_sentence_about_it() -> None:
    cluster = cluster_with(named("chat"))
    cluster.refusals[NODES.plural, None] = forbidden()
    cluster.refusals[PROPOSALS.plural, None] = ClusterRefused("list", 404, "not found")
    async with reading(cluster) as reader:
        world = await loaded(reader)
    assert world.fleet is None
    assert {gap.kind: gap.reason for gap in world.gaps} == {
        NODES.plural: GapKind.FORBIDDEN,
        PROPOSALS.plural: GapKind.ABSENT,
    }
    assert list(world.rows) == [CHAT]


@pytest.mark.parametrize("fault", [AWAY, ClusterRefused("watch", 503, "later"), RuntimeError("odd")], ids=repr)
async def test_an_outage_keeps_the_last_state_and_names_its_age(fault: Exception) -> None:
    cluster = cluster_with(named("chat"))
    async with reading(cluster) as reader:
        before = await loaded(reader)
        cluster.refusals[DEPLOYMENTS, None] = fault
        cluster.tell(fault)
        world = await until(reader, lambda world: world.is_stale)
        assert list(world.rows) == [CHAT]
        assert world.heard >= before.heard
        frame = frame_of(world, "/", (), {}, world.heard + 300)
        assert (frame.freshness.kind, frame.freshness.word) == ("stale", "last state, 5 min old")
        assert "This is the last state, 5 min old" in frame.banners[0].words
        del cluster.refusals[DEPLOYMENTS, None]
        again = await until(reader, lambda world: not world.is_stale)
        assert again.gaps == ()
        assert frame_of(again, "/", (), {}, again.heard).freshness.kind == "live"


async def test_before_the_first_answer_an_outage_is_no_last_state() -> None:
    cluster = cluster_with()
    cluster.refusals = {(kind.plural, None): AWAY for kind in (INFERENCE_DEPLOYMENTS, NODES, PODS, PROPOSALS)}
    async with reading(cluster) as reader:
        world = await until(reader, lambda world: all(gap.message for gap in world.gaps))
    assert {gap.reason for gap in world.gaps} == {GapKind.LOADING}
    assert "cannot be reached: nobody answers" in frame_of(world, "/", (), {}, 1.0).banners[0].words
    assert world.heard == 0


async def test_an_object_that_cannot_be_read_is_left_out_and_the_others_stay() -> None:
    odd = {"metadata": {"name": "odd", "namespace": "ml"}, "spec": {}, "status": {"conditions": 7}}
    broken = {"metadata": {"name": "broken", "namespace": "ml", "creationTimestamp": 7}, "spec": 7}
    cluster = cluster_with(odd, broken, named("chat"))
    async with reading(cluster) as reader:
        world = await loaded(reader)
        assert CHAT in world.rows
        assert ObjectKey("ml", "broken") not in world.rows
        cluster.tell(("MODIFIED", {"metadata": {"name": "chat", "namespace": "ml"}, "spec": 7}))
        cluster.tell(("ADDED", named("other")))
        world = await until(reader, lambda world: OTHER in world.rows)
        assert CHAT not in world.rows


async def test_whoever_may_not_list_all_namespaces_sees_that_of_the_kubeconfig() -> None:
    cluster = cluster_with()
    cluster.refusals = {(kind.plural, None): forbidden() for kind in (INFERENCE_DEPLOYMENTS, PODS, PROPOSALS, NODES)}
    cluster.bodies |= {(DEPLOYMENTS, "ml"): [named("chat")], (PODS.plural, "ml"): [chat_pod()]}
    async with reading(cluster, fallback=("ml",)) as reader:
        world = await until(reader, lambda world: bool(world.rows and world.pods))
    assert world.namespaces == ("ml",)
    assert list(world.rows) == [CHAT]
    assert (NODES.plural, "ml") not in cluster.lists


async def test_whoever_may_list_all_namespaces_sees_them_all() -> None:
    cluster = cluster_with(named("chat"), named("chat", "elsewhere"))
    async with reading(cluster, fallback=("ml",)) as reader:
        world = await loaded(reader)
    assert world.namespaces == ()
    assert len(world.rows) == 2
    assert (DEPLOYMENTS, "ml") not in cluster.lists


async def test_chosen_namespaces_are_read_one_by_one_and_nodes_as_a_whole() -> None:
    cluster = cluster_with()
    cluster.bodies |= {(DEPLOYMENTS, "ml"): [named("chat")], (DEPLOYMENTS, "b"): [named("chat", "b")]}
    async with reading(cluster, namespaces=("ml", "b")) as reader:
        world = await loaded(reader)
    assert set(world.rows) == {CHAT, ObjectKey("b", "chat")}
    assert world.namespaces == ("ml", "b")
    assert (DEPLOYMENTS, None) not in cluster.lists
    assert (NODES.plural, None) in cluster.lists


async def test_a_listener_is_woken_by_a_change_and_not_without_one() -> None:
    cluster = cluster_with(named("chat"))
    async with reading(cluster) as reader:
        await loaded(reader)
        with reader.listen() as listener:
            assert not await listener.wait(0.01)
            cluster.tell(("ADDED", named("other")))
            assert await listener.wait(60)
            assert not await listener.wait(0.01)
