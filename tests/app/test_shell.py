"""How the process feels: what makes it unready, and what calls for a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES, PODS, Cluster
from plimsoll.app import operator as operator_module
from plimsoll.app import shell as module
from plimsoll.app.election.leadership import LeaseHeld
from plimsoll.app.election.lease_times import LeaseTimes
from plimsoll.app.health import PassRecord
from plimsoll.app.live.signal_watch import LiveSignals, reader_of
from plimsoll.app.settings import Settings
from plimsoll.app.shell import Shell, inbox_lists, listed_only, watched
from plimsoll.app.watch import relist as relist_module
from plimsoll.app.watch import store as store_module
from plimsoll.app.watch.relist import Relist
from plimsoll.app.watch.store import Store
from plimsoll.domain.errors import SourceUnavailable
from tests.support.bodies import inference_deployment_body, node_body, pod_body


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for where in (store_module, relist_module):
        monkeypatch.setattr(where, "time", made)
    return made


@pytest.fixture
def running(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A leader in the best of health."""
    kinds: dict[Any, str | None] = {INFERENCE_DEPLOYMENTS: None, NODES: None, PODS: None}
    monkeypatch.setattr(module, "KEPT", kinds)
    shell = Shell(Settings(relist_seconds=100))
    shell.store = Store({kind: lambda body: body for kind in kinds}, lambda: None)
    shell.relist = Relist(cast("Cluster", None), shell.store, kinds, 100, asyncio.Event())
    shell.elector = cast("Any", SimpleNamespace(is_leading=True, trouble="", holder="me"))
    shell.planner = cast("Any", SimpleNamespace(record=PassRecord(clock.monotonic)))
    shell.beats.clock = clock.monotonic
    for kind in kinds:
        shell.store.replace(kind, [])
    assert shell.alive().is_well
    assert shell.ready().text() == "leading"
    return shell


@pytest.mark.parametrize("took_little", [True, False])
def test_a_new_spec_and_a_pod_that_moved_on_are_news_if_their_namespace_took_little(
    running: Shell, *, took_little: bool
) -> None:
    news = asyncio.Event()
    passes = SimpleNamespace(time=SimpleNamespace(took_little=lambda _: took_little))
    running.planner = cast("Any", SimpleNamespace(store=running.store, passes=passes, news=news))

    def are_news(*bodies: dict[str, Any]) -> list[bool]:
        found = []
        for version, body in enumerate(bodies, start=1):
            news.clear()
            body["metadata"]["resourceVersion"] = str(version)
            running.seen(PODS if body["kind"] == "Pod" else INFERENCE_DEPLOYMENTS, "MODIFIED", body)
            found.append(news.is_set())
        return found

    specs = [inference_deployment_body() for _ in range(3)]
    specs[2]["metadata"]["generation"] = 7
    assert are_news(*specs) == [took_little, False, took_little]
    pending, bound, again, ready = pod_body("a"), pod_body("a"), pod_body("a"), pod_body("a")
    del pending["spec"]["nodeName"]
    ready["status"]["conditions"].append({"type": "Ready", "status": "True"})
    assert are_news(pending, bound, again, ready) == [False, took_little, False, took_little]
    of_others = [pod_body("b"), pod_body("b")]
    for pod, node in zip(of_others, ("", "n1"), strict=True):
        pod["metadata"]["labels"], pod["spec"]["nodeName"] = {}, node
    assert are_news(*of_others) == [False, False]


def test_before_the_start_it_lives_and_is_not_ready() -> None:
    shell = Shell(Settings())
    assert shell.alive().is_well
    assert shell.ready().problems == ("starting",)


def test_lists_that_are_too_old_end_readiness(running: Shell, clock: Clock) -> None:
    clock.now += 2 * 100 + 31
    assert "pods were listed 231 s ago" in running.ready().problems
    assert running.alive().is_well, "a restart would not bring newer ones"


async def test_a_kind_that_may_not_be_listed_ends_readiness_after_a_while(running: Shell, clock: Clock) -> None:
    async def forbidden(*_: object, **__: object) -> list[Any]:
        raise SourceUnavailable("list pods: 403 forbidden")

    assert running.relist is not None
    running.relist.cluster = cast("Cluster", SimpleNamespace(list=forbidden))
    await running.relist._one(PODS, None)  # noqa: SLF001 - the loop around it never ends by itself
    assert running.ready().is_well
    clock.now += 31
    await running.relist._one(PODS, None)  # noqa: SLF001
    assert running.ready().problems == ("list pods: 403 forbidden (for 31 s)",)
    assert running.alive().is_well


def ahead(store: Store) -> None:
    """A list knows a newer node than the watch has brought."""
    store.observe(NODES, "ADDED", node_body(version=1))
    store.replace(NODES, [node_body(version=5)])


@pytest.mark.parametrize(
    "end",
    [
        lambda store: store.observe(NODES, "MODIFIED", node_body(version=5)),
        lambda store: store.begin_watch(NODES),
        lambda store: store.observe(NODES, "DELETED", node_body(version=6)),
    ],
    ids=["it brings the change", "it starts over", "it brings the deletion"],
)
def test_a_watch_that_gives_nothing_is_noticed_until_it_speaks(
    running: Shell, clock: Clock, end: Callable[[Store], None]
) -> None:
    assert running.store is not None
    ahead(running.store)
    clock.now += 10
    assert running.ready().is_well, "it may be on its way"
    clock.now += 60
    assert running.ready().problems == ("the watch of nodes has been silent about a change for 70 s",)
    assert running.alive().is_well
    clock.now += 300
    assert not running.alive().is_well, "a new process opens new watches"
    end(running.store)
    assert running.alive().is_well


def test_a_deletion_that_only_the_list_knows_counts_as_well(running: Shell, clock: Clock) -> None:
    assert running.store is not None
    running.store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body())
    known = running.store.uids(INFERENCE_DEPLOYMENTS)
    running.store.replace(INFERENCE_DEPLOYMENTS, [], known)
    clock.now += 70
    assert "inferencedeployments" in running.ready().text()


def test_failing_passes_end_readiness_and_in_the_end_life(running: Shell, clock: Clock) -> None:
    assert running.planner is not None
    for _ in range(3):
        running.planner.record.failed(KeyError("x"))
    assert running.ready().problems == ("3 passes in a row failed: KeyError: 'x'",)
    assert running.alive().is_well
    clock.now += 601
    assert not running.alive().is_well


def test_planning_that_hangs_is_named_with_the_object_it_is_at(running: Shell, clock: Clock) -> None:
    running.beats.beat("planning", "render ns/llama")
    clock.now += 61
    assert running.alive().problems == ("planning has made no progress for 61 s (at: render ns/llama)",)


def test_a_standby_is_ready_and_names_the_holder(running: Shell) -> None:
    running.elector = cast("Any", SimpleNamespace(is_leading=False, trouble="", holder="pod-0"))
    assert running.ready().is_well
    assert running.ready().text() == "standby: pod-0 holds the lease"
    running.elector = cast("Any", SimpleNamespace(is_leading=False, trouble="the lease cannot be read", holder=""))
    assert running.ready().problems == ("the lease cannot be read",)


async def test_a_background_task_that_ends_calls_for_a_restart(running: Shell) -> None:
    async def ends() -> None:
        return None

    running.tasks = [asyncio.create_task(ends())]
    await asyncio.gather(*running.tasks)
    assert running.alive().problems == ("1 background tasks ended",)


async def test_live_signals_are_read_where_there_is_a_source_of_them() -> None:
    shell = Shell(Settings())
    shell.listen(LiveSignals(None, lambda: None))
    assert shell.tasks == []
    shell.listen(LiveSignals(reader_of(Settings()), lambda: None))
    assert len(shell.tasks) == 1
    await shell.stop()


@pytest.mark.parametrize("body", [{}, {"metadata": {}}, {"metadata": None}, {"kind": "Status", "code": 410}], ids=str)
def test_a_line_that_is_no_object_is_left_out(running: Shell, body: dict[str, Any]) -> None:
    running.seen(PODS, "ADDED", body)
    running.seen(PODS, "DELETED", body)
    assert running.store is not None
    assert running.store.all(PODS) == ()


@pytest.mark.parametrize("error", [RecursionError, RuntimeError, KeyError])
def test_an_object_that_raises_anything_ends_no_watch_and_its_neighbour_is_stored(
    running: Shell, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    assert running.store is not None
    observe = running.store.observe

    def raising(kind: Any, event: str, body: Any) -> None:
        if body["metadata"]["name"] == "poison":
            raise error("anything")
        observe(kind, event, body)

    monkeypatch.setattr(running.store, "observe", raising)
    running.seen(PODS, "ADDED", pod_body("poison"))
    running.seen(PODS, "ADDED", pod_body("honest"))
    assert [body["metadata"]["name"] for body in running.store.all(PODS)] == ["honest"]


def test_what_no_watch_brings_owes_nothing() -> None:
    plain = Settings()
    assert listed_only(plain) == set()
    assert NODES in watched(plain)
    beyond = Settings(watch_namespaces=("a",), read_all_pods=True)
    assert listed_only(beyond) == {PODS}


@pytest.mark.parametrize(("namespaces", "pause"), [(0, 5.0), (4, 5.0), (40, 20.0)])
def test_proposals_and_approvals_are_listed_often_and_not_too_often(namespaces: int, pause: float) -> None:
    settings = Settings(approvals=True, watch_namespaces=tuple(f"n{index}" for index in range(namespaces)))
    relist = inbox_lists(cast("Cluster", None), cast("Store", None), settings)
    assert [kind.plural for kind in relist.kinds] == ["placementproposals", "placementapprovals"]
    assert relist.pause_seconds == pause
    assert relist.dispensable.keys() == relist.kinds.keys()
    assert not set(relist.kinds) & set(watched(settings)), "a watch of a missing kind would end the process"


def test_the_election_is_held_with_the_times_the_name_and_the_digest_of_the_settings() -> None:
    settings = Settings(identity="pod-0", standby=True, lease_times=LeaseTimes(6, 5.0, 0.5))
    shell = Shell(settings)
    elector = shell._elector(cast("Cluster", None))  # noqa: SLF001 - made when the process starts, which needs a cluster
    assert elector.times == LeaseTimes(6, 5.0, 0.5)
    assert (elector.candidate.identity, elector.candidate.settings) == ("pod-0", settings.digest())
    assert elector.waits
    assert elector.last_pass() is None
    shell.planner = cast("Any", SimpleNamespace(record=SimpleNamespace(succeeded_at=60.0)))
    assert elector.last_pass() == 60.0


async def test_where_another_holds_the_lease_a_process_that_does_not_wait_ends_and_plans_nothing() -> None:
    async def held() -> None:
        raise LeaseHeld("pod-0 holds the lease plimsoll-system/plimsoll")

    stopped: list[bool] = []
    shell = Shell(Settings(), lambda: stopped.append(True))
    await shell._lead(cast("Any", SimpleNamespace(acquire=held)), cast("Any", None))  # noqa: SLF001 - a task of its own
    assert stopped == [True]
    assert "pod-0 holds the lease" in shell.ending


def test_such_a_process_ends_with_the_reason_and_an_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(**_: object) -> None:
        shells[0].ending = "pod-0 holds the lease"

    def made(*arguments: Any) -> Shell:
        shells.append(Shell(*arguments))
        return shells[-1]

    async def named() -> None:
        """A cluster is named."""

    shells: list[Shell] = []
    monkeypatch.setattr(operator_module, "Shell", made)
    monkeypatch.setattr(operator_module, "_check_access", named)
    monkeypatch.setattr("plimsoll.app.operator.kopf.configure", lambda **_: None)
    monkeypatch.setattr("plimsoll.app.operator.kopf.run", ran)
    monkeypatch.setattr("plimsoll.app.operator.sys.setrecursionlimit", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        operator_module.run(Settings())
    assert ended.value.code == "plimsoll: pod-0 holds the lease"  # what Python prints, with exit status 1
