"""The bounds that hold a change back, and the reasons for moves, with a real API server, scheduler and Prometheus.

Rebalancing is suspended for the whole cluster at first, and everything that wants a change is deployed meanwhile. Each
has a neighbour that nothing holds back, or that has no reason for a change. The tests build on one another in the order
of this file. :mod:`tests.support.hurried` makes two waits of five minutes and one of a minute shorter.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.look_back import quiet_before
from plimsoll.rebalance.signals.metrics import PodSignals
from testbed.audit import AuditLog
from testbed.engine_queue import Stream
from testbed.operator_process import OperatorProcess
from tests.support.hurried import MODULE, SHORT, Wait, environment
from tests.support.installed import View, inference_deployment
from tests.support.live_loop import (
    L4_POOL,
    L40S_POOL,
    PRESSURE,
    TIMING,
    Bench,
    bench_of,
    changes,
    engine_spec,
    makes_ready,
)

pytestmark = [pytest.mark.cluster, pytest.mark.story]

# A scheduler that is late on a busy machine must not send a replica to the place that it is to move to later.
# Nothing is saved on nodes that are paid for whoever uses them, so a move for the price needs the admin's word.
ENVIRONMENT = environment(Wait.PROMISE, Wait.CHEAPER_PLACE, Wait.MINUTE_EARLY) | {
    "PLIMSOLL_STRANDED_SECONDS": "120",
    "PLIMSOLL_BILLING": "onDemand",
}
MOVES_PER_HOUR = 8
"""A namespace makes half of them at most."""

AUTO = {"mode": "Auto", "maxReplicas": 3, **TIMING}
ONE_AT_MOST = AUTO | {"maxReplicas": 1}
TOO_SMALL = {L4_POOL: 30_000}
"""KV tokens of an engine; the declared load needs 48,000."""

SMALL_MODELS = {
    "opens": "Qwen2.5-0.5B",
    "waits": "Qwen2.5-0.5B-Instruct",
    "free": "Qwen2.5-1.5B",
    "first": "Qwen2.5-1.5B-Instruct",
    "second": "Qwen2.5-3B",
    "late": "Qwen2.5-3B-Instruct",
    "elsewhere": "Qwen3-0.6B",
}
"""All deployments of a model learn from the KV cache that one engine gets. So each that gets too little has its own."""

BOTH, TWO_L4 = {"L4": 1, "L40S": 1}, {"L4": 2}
FEW = {"concurrency": 2}
LONG = FEW | {"expectedTokens": {"prompt": 8000, "output": 500}}
"""Engines may run as many requests at the same time as their cache holds of these. Those that come are shorter."""
PROMISE = FEW | {"slo": {"tpotMilliseconds": 80}}
"""An L4 takes 65 ms for a token of a request that is alone, by the performance model, and 76 at the upper quarter."""

IN_TIME = Stream(rate=0.5, prompt=1500, output=20, first_token_seconds=0.3, token_seconds=0.065)
TOO_LATE = replace(IN_TIME, output=8, token_seconds=0.2)
MANY = Stream(rate=0.6, prompt=1500, output=100, first_token_seconds=0.3, token_seconds=0.066)
"""More requests than an L4 carries with the limit of requests at the same time that the declared load gives it."""
ON_L40S = replace(IN_TIME, token_seconds=0.023)

STARTUP_SECONDS = 15
READY_EARLY = timedelta(seconds=STARTUP_SECONDS + SHORT[Wait.MINUTE_EARLY][2])
"""So long before the time of a schedule its replicas are started, if the start-up is known."""

RESTART = timedelta(seconds=15)
"""From the end of an operator until another one has made its first passes."""

WITHIN_SECONDS = 120.0
"""A very busy machine of two cores takes most of it to start pods; an idle one needs five to ten seconds."""


def window(opens: datetime) -> dict[str, str]:
    """A maintenance window of an hour that opens at this minute of every day."""
    return {"schedule": f"{opens.minute} {opens.hour} * * *", "duration": "1h"}


def minute_after(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0) + timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Wish:
    """A deployment on nodes of its own, and the GPUs there."""

    name: str
    gpus: Mapping[str, int]
    rebalancing: Mapping[str, Any]
    capacities: Mapping[str, int] | None = None
    spec: Mapping[str, Any] | None = None

    def manifest(self, namespace: str) -> dict[str, Any]:
        spec = engine_spec(self.name, self.rebalancing, self.capacities, **(self.spec or {}))
        return inference_deployment(self.name, namespace, **spec)


def outgrown(name: str, rebalancing: Mapping[str, Any]) -> Wish:
    """A deployment that has to leave the L4 on which it is placed at first."""
    return Wish(name, BOTH, rebalancing, TOO_SMALL, {"model": {"name": f"Qwen/{SMALL_MODELS[name]}"}})


def make(bench: Bench, *wishes: Wish) -> None:
    bench.add_nodes_of({wish.name: wish.gpus for wish in wishes})
    bench.view.control_plane.apply([wish.manifest(bench.view.namespace) for wish in wishes])


@dataclass(slots=True)
class Scene:
    """Three namespaces: one with maintenance windows, one that uses its moves up, and another one.

    ``opens`` is when the window of one deployment opens, ``lifted`` the audit log's end when rebalancing went on. At
    ``turns`` the schedule of one deployment begins and that of another one ends.
    """

    windows: Bench
    full: Bench
    other: Bench
    opens: datetime
    operator: OperatorProcess
    suspended_since: int = 0
    lifted: int = 0
    turns: datetime = field(init=False)

    @property
    def later(self) -> datetime:
        """When the windows of the others open."""
        return self.opens + timedelta(hours=6)

    @property
    def benches(self) -> tuple[Bench, ...]:
        return self.windows, self.full, self.other

    def writes(self, names: Iterable[str]) -> list[tuple[str, str, str]]:
        """Changes of what runs while rebalancing was suspended and everything served."""
        return [each for name in names for each in changes(self.full.writes(self.suspended_since, name))]

    def start_again(self, **settings: str) -> None:
        """End the operator and start another process, as a roll-out of its Deployment does."""
        self.operator.stop()
        self.operator = _operator(self.full, settings).start().wait_healthy()
        self.windows, self.full, self.other = (replace(bench, operator=self.operator) for bench in self.benches)

    def decision(self, bench: Bench, name: str) -> str:
        """The reason of the last decision, by the metrics of the operator that runs now."""
        labels = f'[^}}]*name="{name}",namespace="{bench.view.namespace}"'
        found = re.search(rf"^plimsoll_live_decision{{{labels}[^}}]*}} 1\.0$", self.operator.metrics(), re.MULTILINE)
        return "" if found is None else _label(found[0], "reason")

    def needed(self, bench: Bench, name: str) -> float:
        """The replicas that the load needs, by the same metrics."""
        labels = f'name="{name}",namespace="{bench.view.namespace}"'
        found = re.search(rf"^plimsoll_live_needed_replicas{{{labels}}} (\S+)$", self.operator.metrics(), re.MULTILINE)
        return 0.0 if found is None else float(found[1])


def _label(series: str, name: str) -> str:
    found = re.search(rf'{name}="([^"]*)"', series)
    return "" if found is None else found[1]


def _operator(bench: Bench, settings: dict[str, str]) -> OperatorProcess:
    own = {"PLIMSOLL_SIGNALS_SECONDS": "1", "PLIMSOLL_REBALANCING_MOVES_PER_HOUR": str(MOVES_PER_HOUR)}
    url, environment = bench.prometheus.url, ENVIRONMENT | own | settings
    return OperatorProcess(bench.view.control_plane, prometheus_url=url, environment=environment, module=MODULE)


def _deploy(scene: Scene) -> None:
    soon, later = ({"maintenanceWindows": [window(at)]} for at in (scene.opens, scene.later))
    make(
        scene.windows,
        outgrown("opens", AUTO | soon),
        outgrown("waits", AUTO | later),
        outgrown("free", AUTO),
        Wish("untuned", TWO_L4, ONE_AT_MOST | later, spec=LONG),
        Wish("tuned", TWO_L4, ONE_AT_MOST, spec=LONG),
        Wish("grows", TWO_L4, AUTO | later),
    )
    make(
        scene.full,
        Wish("slow", BOTH, ONE_AT_MOST, spec=PROMISE),
        Wish("prompt", BOTH, ONE_AT_MOST, spec=PROMISE),
        Wish("dear", {"L40S": 1}, AUTO),
        Wish("fair", {"L40S": 1}, AUTO),
        outgrown("first", AUTO),
        outgrown("second", AUTO),
    )
    make(
        scene.other,
        Wish("external", TWO_L4, AUTO | {"scale": "External"}),
        Wish("ours", TWO_L4, AUTO),
        Wish("held", TWO_L4, AUTO),
        *(Wish(name, TWO_L4, AUTO) for name in ("begins", "ends", "unscheduled")),
    )
    autoscale(scene.other, "external", least=2, most=3)


def _load(scene: Scene) -> None:
    scene.windows.load("grows", kv_tokens=PRESSURE)
    for name in ("tuned", "untuned"):
        scene.windows.stream(name, MANY)
    for name, stream in {"slow": TOO_LATE, "prompt": IN_TIME, "dear": ON_L40S, "fair": ON_L40S}.items():
        scene.full.stream(name, stream)
    for name in ("external", "ours", "held"):
        scene.other.load(name, kv_tokens=PRESSURE)


def autoscale(bench: Bench, name: str, *, least: int, most: int) -> None:
    """A HorizontalPodAutoscaler with these bounds. The cluster has no metrics for it, so that only they count."""
    bench.view.control_plane.apply(
        [
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": name, "namespace": bench.view.namespace},
                "spec": {
                    "scaleTargetRef": {
                        "apiVersion": "plimsoll.dev/v1alpha1",
                        "kind": "InferenceDeployment",
                        "name": name,
                    },
                    "minReplicas": least,
                    "maxReplicas": most,
                },
            }
        ]
    )


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    suspended = ENVIRONMENT | {"PLIMSOLL_REBALANCING_SUSPENDED": "true"}
    with bench_of("windows", suspended, module=MODULE) as windows:
        control_plane = windows.view.control_plane
        full, other = (
            replace(windows, view=View(control_plane, control_plane.create_namespace(name)))
            for name in ("full", "other")
        )
        opens = minute_after(datetime.now(UTC) + timedelta(seconds=20))
        made = Scene(windows, full, other, opens, windows.operator)
        _deploy(made)
        for bench in made.benches:
            for body in bench.view.all("inferencedeployments"):
                bench.view.wait_ready(body["metadata"]["name"], WITHIN_SECONDS)
        other.view.patch("held", {"suspend": True})
        made.suspended_since = full.now()
        _load(made)
        yield made
        made.operator.close()


def _schedule(scene: Scene) -> None:
    """Ask for two replicas of one deployment from a minute on, and of another one until then.

    The next process of the operator could start them too early if it had forgotten how long a start-up takes.
    """
    other = scene.other
    other.play_startup("begins", STARTUP_SECONDS)
    other.view.wait(
        lambda: other.rebalancing("begins").get("learned", {}).get("startupSeconds") == STARTUP_SECONDS,
        "the start-up is known",
        WITHIN_SECONDS,
    )
    scene.turns = minute_after(datetime.now(UTC) + RESTART + READY_EARLY)
    for name, begin in {"begins": scene.turns, "ends": scene.turns - timedelta(hours=1)}.items():
        entry = {"cron": f"{begin.minute} {begin.hour} * * *", "duration": "1h", "minReplicas": 2}
        other.view.patch(name, {"rebalancing": {"schedule": [entry]}})


@pytest.fixture(scope="module")
def going_on(scene: Scene) -> Scene:
    """Rebalancing after the switch was taken back, with GPUs that are cheaper for one deployment, and an autoscaler
    that wants fewer replicas than it wanted before. It looks every 15 s."""
    if not scene.lifted:
        scene.lifted = scene.full.now()
        _schedule(scene)
        scene.start_again()
        scene.full.add_nodes("dear", L4=1)
        scene.other.wait_settled("external", {L4_POOL: 2}, WITHIN_SECONDS)
        autoscale(scene.other, "external", least=1, most=1)
    return scene


AUTOMATIC = ("opens", "waits", "free", "untuned", "tuned", "grows")


def test_while_the_cluster_is_suspended_the_load_is_seen_and_nothing_changes(scene: Scene) -> None:
    reported = scene.windows.wait_reasons(dict.fromkeys(AUTOMATIC, "SuspendedForCluster"), WITHIN_SECONDS)
    assert {part["decision"] for part in reported.values()} == {"Wait"}
    assert reported["grows"]["message"].startswith("Waiting: rebalancing is suspended for the whole cluster.")
    scene.windows.view.wait(
        lambda: scene.needed(scene.windows, "grows") >= 2, "the load is measured meanwhile", WITHIN_SECONDS
    )
    scene.windows.view.wait(
        lambda: scene.needed(scene.windows, "tuned") >= 2, "the requests are counted meanwhile", WITHIN_SECONDS
    )
    assert scene.windows.rebalancing("grows")["targetReplicas"] == 1
    assert scene.writes((*AUTOMATIC, "slow", "dear", "first", "second", "ours")) == []


def test_while_the_cluster_is_suspended_an_autoscaler_is_obeyed(scene: Scene) -> None:
    """It changes the spec, and changes of specs go on."""
    scene.other.wait_settled("external", {L4_POOL: 2}, WITHIN_SECONDS)
    assert scene.other.view.get("external")["spec"]["replicas"] == 2
    assert scene.decision(scene.other, "external") == "SuspendedForCluster"


def test_after_the_switch_is_lifted_the_loop_goes_on(going_on: Scene) -> None:
    going_on.other.wait_settled("ours", {L4_POOL: 2}, WITHIN_SECONDS)
    assert [each["kind"] for each in going_on.other.rebalancing("ours")["changes"]] == ["Add"]


def test_a_suspended_object_stays_until_it_is_lifted_as_well(going_on: Scene) -> None:
    other = going_on.other
    assert going_on.writes(["held"]) == []
    assert other.settled("held") == {L4_POOL: 1}
    assert "SuspendedForCluster" not in str(going_on.decision(other, "held"))
    other.view.patch("held", {"suspend": False})
    other.wait_settled("held", {L4_POOL: 2}, WITHIN_SECONDS)


def test_more_replicas_wait_for_no_window(going_on: Scene) -> None:
    going_on.windows.wait_settled("grows", {L4_POOL: 2}, WITHIN_SECONDS)
    assert [each["kind"] for each in going_on.windows.rebalancing("grows")["changes"]] == ["Add"]


@pytest.mark.parametrize(("name", "wanted"), [("waits", "PlacementTooSmall"), ("untuned", "ArrivalsExceedCapacity")])
def test_a_move_and_a_change_of_settings_wait_for_the_window_and_say_until_when(
    going_on: Scene, name: str, wanted: str
) -> None:
    reported = going_on.windows.wait_reason(name, "OutsideMaintenanceWindow", WITHIN_SECONDS)
    opens = going_on.later.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert f"Waiting ({wanted}): no maintenance window is open. The next one opens at {opens}" in reported["message"]
    assert "changes" not in reported
    assert going_on.writes([name]) == []


def test_without_windows_the_same_changes_are_made(going_on: Scene) -> None:
    windows = going_on.windows
    windows.wait_settled("free", {L40S_POOL: 1}, WITHIN_SECONDS)
    windows.view.wait(lambda: windows.rebalancing("tuned").get("changes"), "a change of settings", WITHIN_SECONDS)
    assert [each["kind"] for each in windows.rebalancing("tuned")["changes"]] == ["Retune"]
    windows.wait_settled("tuned", {L4_POOL: 1}, WITHIN_SECONDS)


def test_a_promise_that_no_number_of_replicas_keeps_moves_to_a_faster_gpu(going_on: Scene) -> None:
    full = going_on.full
    full.wait_settled("slow", {L40S_POOL: 1}, WITHIN_SECONDS)
    [made] = full.rebalancing("slow")["changes"]
    assert (made["kind"], made["reason"]) == ("Move", "PromiseOutOfReach")
    assert "the mean time per token is 200 ms and 80 ms are promised" in full.rebalancing("slow")["lastChange"]
    assert new_before_old(full, "slow", L40S_POOL, L4_POOL)
    full.stream("slow", ON_L40S)


def test_the_same_load_moves_to_a_cheaper_gpu_that_becomes_free(going_on: Scene) -> None:
    full = going_on.full
    full.wait_settled("dear", {L4_POOL: 1}, WITHIN_SECONDS)
    [made] = full.rebalancing("dear")["changes"]
    assert (made["kind"], made["reason"]) == ("Move", "CheaperPlace")
    assert new_before_old(full, "dear", L4_POOL, L40S_POOL)


def test_a_kept_promise_and_the_cheapest_place_that_is_free_move_nothing(going_on: Scene) -> None:
    full = going_on.full
    for name, pool in {"prompt": L4_POOL, "fair": L40S_POOL}.items():
        assert full.settled(name) == {pool: 1}
        assert "changes" not in full.rebalancing(name)
    assert going_on.writes(["prompt", "fair"]) == []


def new_before_old(bench: Bench, name: str, new: str, old: str) -> bool:
    """Whether the new pool served before the old one went, by the audit log."""
    log = AuditLog(bench.view.control_plane.audit_log).events()
    served = next(event.timestamp for event in log if makes_ready(event, f"{name}-{new}-"))
    [ended] = [event.timestamp for event in log if (event.verb, event.name) == ("delete", f"{name}-{old}")]
    return datetime.fromisoformat(served) < datetime.fromisoformat(ended)


def test_prometheus_shows_the_requests_of_pods_that_serve_and_of_those_that_are_gone(going_on: Scene) -> None:
    """A new process of the operator learns from it for how long no request has come."""
    full = going_on.full
    [serving] = [pod["metadata"]["name"] for pod in full.view.pods("dear")]
    full.view.wait(lambda: serving in _scraped(full), "a scrape of the new pod", WITHIN_SECONDS)
    found = _scraped(full)
    assert {name.startswith(f"dear-{L40S_POOL}-") for name in found.keys() - {serving}} == {True}
    quiet = quiet_before(found, [serving], None, time.time())
    assert quiet is not None
    gone = max(signals.samples[-1].at for name, signals in found.items() if name != serving)
    assert quiet.since(None) >= gone, "nobody knows what came after its last scrape"


def _scraped(bench: Bench) -> Mapping[str, PodSignals]:
    """The samples of all pods that the deployment with the cheaper place had, from the real Prometheus."""
    reader, metrics = PrometheusSignals(bench.prometheus.url), engine_of().metrics
    found = reader.scrapes_before(bench.view.namespace, "dear", metrics, until=time.time(), seconds=600)
    return found or {}


def test_a_namespace_that_has_used_its_moves_up_waits_and_says_so(going_on: Scene) -> None:
    full = going_on.full
    for name in ("first", "second"):
        full.wait_settled(name, {L40S_POOL: 1}, WITHIN_SECONDS)
    make(full, outgrown("late", AUTO))
    reported = full.wait_reason("late", "FleetBudgetSpent", WITHIN_SECONDS)
    assert reported["message"] == (
        "Waiting (PlacementTooSmall): the last hour saw 4 moves and changes of settings in this namespace, and the "
        "operator allows 4."
    )
    assert full.settled("late") == {L4_POOL: 1}


def test_another_process_has_not_forgotten_it_and_another_namespace_keeps_its_share(going_on: Scene) -> None:
    going_on.start_again()
    full, other = going_on.full, going_on.other
    full.view.wait(
        lambda: going_on.decision(full, "late") == "FleetBudgetSpent", "the decision of the new process", WITHIN_SECONDS
    )
    make(other, outgrown("elsewhere", AUTO))
    other.wait_settled("elsewhere", {L40S_POOL: 1}, WITHIN_SECONDS)
    assert full.rebalancing("late")["reason"] == "FleetBudgetSpent"
    assert full.settled("late") == {L4_POOL: 1}
    assert "changes" not in full.rebalancing("late")


def test_an_autoscaler_alone_decides_the_number_where_the_spec_says_so(going_on: Scene) -> None:
    """Down as well as up, while the load would keep both replicas."""
    other = going_on.other
    other.wait_settled("external", {L4_POOL: 1}, WITHIN_SECONDS)
    reported = other.wait_reason("external", "ScaledExternally", WITHIN_SECONDS)
    assert (reported["baseReplicas"], reported["targetReplicas"]) == (1, 1)
    assert "changes" not in reported
    assert other.settled("ours") == {L4_POOL: 2}


def test_a_move_is_made_when_its_window_opens(going_on: Scene) -> None:
    windows = going_on.windows
    windows.wait_settled("opens", {L40S_POOL: 1}, WITHIN_SECONDS)
    [made] = windows.rebalancing("opens")["changes"]
    assert datetime.fromisoformat(made["at"]) >= going_on.opens
    assert windows.settled("waits") == {L4_POOL: 1}
    assert windows.rebalancing("waits")["reason"] == "OutsideMaintenanceWindow"


def test_the_replicas_of_a_schedule_are_ready_when_it_begins_and_go_after_it(going_on: Scene) -> None:
    """They are started by the longest start-up that an earlier process saw, and not sooner."""
    other, turns = going_on.other, going_on.turns
    other.wait_settled("begins", {L4_POOL: 2}, WITHIN_SECONDS)
    [added] = other.rebalancing("begins")["changes"]
    assert (added["kind"], added["reason"]) == ("Add", "ScheduledMinimum")
    assert turns - READY_EARLY <= datetime.fromisoformat(added["at"]) < turns
    assert max(_served_since(other, "begins")) <= turns
    other.wait_settled("ends", {L4_POOL: 1}, WITHIN_SECONDS)
    added, removed = other.rebalancing("ends")["changes"]
    assert [each["kind"] for each in (added, removed)] == ["Add", "Remove"]
    assert added["reason"] == "ScheduledMinimum"
    assert datetime.fromisoformat(added["at"]) < turns <= datetime.fromisoformat(removed["at"])
    assert other.settled("begins") == {L4_POOL: 2}


def _served_since(bench: Bench, name: str) -> list[datetime]:
    conditions = [each for pod in bench.view.pods(name) for each in pod["status"]["conditions"]]
    return [datetime.fromisoformat(each["lastTransitionTime"]) for each in conditions if each["type"] == "Ready"]


def test_who_has_no_schedule_keeps_its_replica(going_on: Scene) -> None:
    assert going_on.other.settled("unscheduled") == {L4_POOL: 1}
    assert "changes" not in going_on.other.rebalancing("unscheduled")
    assert going_on.writes(["unscheduled"]) == []
