"""The second opinion: asked for at the start, from time to time, and as soon as a watch had to start over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, PODS, Cluster, ClusterRefused, Listing, ObjectKind
from plimsoll.app.settings import Settings
from plimsoll.app.shell import Shell
from plimsoll.app.watch import pruning, relist
from plimsoll.app.watch.store import Body, HistoryLost, Store
from plimsoll.domain.errors import SourceUnavailable
from tests.support.bodies import inference_deployment_body, pod_body

HOUR_SECONDS = 3600.0
KINDS: dict[ObjectKind, str | None] = {INFERENCE_DEPLOYMENTS: None, PODS: "a=b"}


class Lists:
    """Counts lists by kind; ``failing`` many of them fail first."""

    def __init__(self, failing: int = 0) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.failing = failing
        self.enough = asyncio.Event()
        self.wanted = 2
        self.versions: list[int] = []

    async def list(self, kind: ObjectKind, *, labels: str | None = None, **_: object) -> Listing:
        self.asked.append((kind.plural, labels))
        if len(self.asked) >= self.wanted:
            self.enough.set()
        if self.failing > 0:
            self.failing -= 1
            raise SourceUnavailable("down")
        return Listing([], self.versions.pop(0) if self.versions else 0)

    async def reach(self, count: int) -> None:
        self.wanted = count
        if len(self.asked) < count:
            self.enough.clear()
            await asyncio.wait_for(self.enough.wait(), 60)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relist, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(relist, "RETRY_SECONDS", 0.0)


def store() -> Store:
    return Store({INFERENCE_DEPLOYMENTS: pruning.whole, PODS: pruning.pod}, lambda: None)


def begin(lists: Lists, into: Store, broken: asyncio.Event) -> asyncio.Task[None]:
    return asyncio.create_task(relist.Relist(cast("Cluster", lists), into, KINDS, HOUR_SECONDS, broken).run())


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_everything_is_listed_at_the_start_with_its_selector_and_once_more_when_a_watch_broke() -> None:
    lists, into, broken = Lists(), store(), asyncio.Event()
    task = begin(lists, into, broken)
    await lists.reach(2)
    assert lists.asked == [("inferencedeployments", None), ("pods", "a=b")]
    broken.set()
    await lists.reach(4)
    await end(task)
    assert into.is_complete()
    assert not broken.is_set()
    assert len(lists.asked) == 4


async def test_a_list_that_failed_is_asked_for_again_without_waiting_for_the_hour() -> None:
    lists, into = Lists(failing=3), store()
    task = begin(lists, into, asyncio.Event())
    await lists.reach(6)
    await end(task)
    assert into.is_complete()


async def test_a_watch_that_begins_anew_calls_for_a_second_opinion_and_an_ordinary_event_does_not() -> None:
    shell = Shell(Settings())
    shell.began(INFERENCE_DEPLOYMENTS)
    assert not shell.broken.is_set()
    shell.store = store()
    shell.seen(INFERENCE_DEPLOYMENTS, "MODIFIED", inference_deployment_body(version=2))
    assert not shell.broken.is_set()
    shell.began(INFERENCE_DEPLOYMENTS)
    assert shell.broken.is_set(), "it may be newer than our list"
    assert shell.store.all(INFERENCE_DEPLOYMENTS) == (inference_deployment_body(version=2),)


async def test_lists_that_stay_older_than_one_before_end_it() -> None:
    lists, into, broken = Lists(), store(), asyncio.Event()
    lists.versions = [10, 10, 7, 10, 7, 11]  # of two kinds by turns; the second kind's are never older
    task = begin(lists, into, broken)
    await lists.reach(2)
    broken.set()
    with pytest.raises(HistoryLost, match="inferencedeployments: version 7 was listed after 10"):
        await asyncio.wait_for(task, 60)


def test_one_list_that_is_older_is_asked_for_again_and_changes_nothing() -> None:
    into = store()
    into.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(version=9))
    known = into.uids(INFERENCE_DEPLOYMENTS)
    assert into.replace(INFERENCE_DEPLOYMENTS, [inference_deployment_body(version=9)], known, list_version=10)
    assert not into.replace(INFERENCE_DEPLOYMENTS, [], known, list_version=7)
    assert into.all(INFERENCE_DEPLOYMENTS)
    assert into.replace(INFERENCE_DEPLOYMENTS, [], known, list_version=11)
    assert not into.all(INFERENCE_DEPLOYMENTS)
    assert into.replace(INFERENCE_DEPLOYMENTS, [], known, list_version=11)  # the same moment again is no older one


@pytest.mark.parametrize("last_event", ["MODIFIED", "DELETED"])
def test_a_newer_list_with_an_older_object_is_of_another_history(last_event: str) -> None:
    """A restored backup counts past the versions that were seen before, within seconds."""
    into = store()
    assert into.replace(INFERENCE_DEPLOYMENTS, [inference_deployment_body(version=9)], list_version=10)
    into.observe(INFERENCE_DEPLOYMENTS, last_event, inference_deployment_body(version=15))
    known = into.uids(INFERENCE_DEPLOYMENTS)
    restored = [inference_deployment_body(version=9)]
    assert not into.replace(INFERENCE_DEPLOYMENTS, restored, known, list_version=20)
    with pytest.raises(HistoryLost, match=r"version 20 shows .* at 9 after 15"):
        into.replace(INFERENCE_DEPLOYMENTS, restored, known, list_version=20)


@pytest.mark.parametrize("last_event", ["MODIFIED", "DELETED"])
def test_a_list_that_a_watch_event_overtook_is_of_the_same_history(last_event: str) -> None:
    into = store()
    known = into.uids(INFERENCE_DEPLOYMENTS)
    into.observe(INFERENCE_DEPLOYMENTS, last_event, inference_deployment_body(version=15))
    assert into.replace(INFERENCE_DEPLOYMENTS, [inference_deployment_body(version=9)], known, list_version=14)
    assert len(into.all(INFERENCE_DEPLOYMENTS)) == (last_event == "MODIFIED")


class Api:
    """An API server with InferenceDeployments. It notes which lists were of metadata only, and which of one name."""

    def __init__(self, *bodies: Body) -> None:
        self.bodies = list(bodies)
        self.asked: list[tuple[bool, str | None]] = []
        self.deleted: set[str] = set()

    async def list(
        self,
        kind: ObjectKind,
        *,
        name: str | None = None,
        metadata_only: bool = False,
        keep: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: body,
        **_: object,
    ) -> Listing:
        self.asked.append((metadata_only, name))
        found = self.bodies if kind is INFERENCE_DEPLOYMENTS else []
        if name is not None:
            found = [body for body in found if body["metadata"]["name"] == name and name not in self.deleted]
        shown = [{"metadata": body["metadata"]} if metadata_only else dict(body) for body in found]
        return Listing([keep(body) for body in shown], 99)


async def listed_twice(api: Api, change: Callable[[], None]) -> Store:
    """The store after a first list and another one."""
    into = store()
    loop = relist.Relist(cast("Cluster", api), into, {INFERENCE_DEPLOYMENTS: None}, HOUR_SECONDS, asyncio.Event())
    assert await loop.once()
    change()
    api.asked.clear()
    assert await loop.once()
    return into


def names_and_replicas(into: Store) -> dict[str, int]:
    return {body["metadata"]["name"]: body["spec"]["replicas"] for body in into.all(INFERENCE_DEPLOYMENTS)}


def numbered(name: str, version: int = 1, replicas: int = 1) -> Body:
    return inference_deployment_body(name, uid=name, version=version, spec={"replicas": replicas})


async def test_a_later_list_is_of_metadata_and_reads_whole_only_what_the_store_does_not_have() -> None:
    api = Api(numbered("same"), numbered("changed"), numbered("gone"))

    def change() -> None:
        api.bodies = [numbered("same"), numbered("changed", 2, 7), numbered("new", 3, 5)]

    into = await listed_twice(api, change)
    assert names_and_replicas(into) == {"same": 1, "changed": 7, "new": 5}
    assert api.asked == [(True, None), (False, "changed"), (False, "new")]


async def test_an_object_that_is_deleted_before_it_is_read_is_left_out() -> None:
    api = Api(numbered("same"), numbered("changed"))

    def change() -> None:
        api.bodies = [numbered("same"), numbered("changed", 2, 7)]
        api.deleted = {"changed"}

    assert names_and_replicas(await listed_twice(api, change)) == {"same": 1}


async def test_many_unknown_objects_are_read_with_one_list() -> None:
    count = relist.MOST_READ_ONE_BY_ONE + 1
    api = Api(numbered("same"))

    def change() -> None:
        api.bodies += [numbered(f"new-{number}", 2) for number in range(count)]

    into = await listed_twice(api, change)
    assert len(names_and_replicas(into)) == count + 1
    assert api.asked == [(True, None), (False, None)]


class Refusing(Lists):
    """Refuses the lists of pods: for good with 403, or for a moment with another status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    async def list(self, kind: ObjectKind, *, labels: str | None = None, **_: object) -> Listing:
        listing = await super().list(kind, labels=labels)
        if kind is PODS:
            raise ClusterRefused("list pods", self.status, "no")
        return listing


@pytest.mark.parametrize(
    ("status", "is_complete", "words"),
    [(403, True, "may not be read"), (404, True, "do not exist"), (503, False, "may not be read")],
)
async def test_a_dispensable_kind_is_done_without_where_it_may_not_be_read_which_is_said_once(
    status: int, words: str, *, is_complete: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a usual answer: the next list is not asked for earlier than after any other."""
    lists, into = Refusing(status), store()
    loop = relist.Relist(
        cast("Cluster", lists), into, KINDS, HOUR_SECONDS, asyncio.Event(), dispensable={PODS: "go on without."}
    )
    with caplog.at_level("WARNING", "plimsoll.relist"):
        assert [await loop.once() for _ in range(3)] == [is_complete] * 3
    assert into.is_complete() == is_complete
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"pods {words}: go on without."] if is_complete else ["list pods: no (HTTP 503); again in 0 s"]


async def test_a_kind_that_was_listed_and_may_not_be_read_any_more_is_asked_for_again() -> None:
    into = store()
    into.replace(PODS, [pod_body("known")])
    loop = relist.Relist(
        cast("Cluster", Refusing(403)), into, KINDS, HOUR_SECONDS, asyncio.Event(), dispensable={PODS: "go on without."}
    )
    assert not await loop.once()
    assert [body["metadata"]["name"] for body in into.all(PODS)] == ["known"]


async def test_a_kind_that_was_readable_before_stays_as_it_was() -> None:
    into = store()
    for kind in KINDS:
        into.replace(kind, [])
    assert not into.excuse(PODS)
    assert into.is_complete()
