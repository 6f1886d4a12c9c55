"""The chart's alerts and dashboard on a real Prometheus, which has scraped the operator's and an engine's own pages."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pytest
import yaml

from plimsoll.console.sources.prometheus_live import PrometheusLive
from plimsoll.console.views.fleet import GpuTotal
from plimsoll.domain.public_words import ConditionReason, LiveTrouble, NodeReason, PriceDoubt
from testbed.binaries import ensure_binaries
from testbed.engine_metrics import Server
from testbed.played_past import PlayedPast
from testbed.prometheus import Prometheus
from testbed.waiting import wait_until
from tests.support.alerting import DASHBOARD, RECORDS, RULES, Rule, queries, spelled_out
from tests.support.helm import all_of
from tests.support.played_scenes import CHAT, Played, Scene, Story

pytestmark = pytest.mark.cluster

APART_SECONDS = 80 * 60.0
"""Between the ends of two stories: the windows of the rules see one story only."""

WELL = Story(Scene())
FULL = Scene(usage=1.0, running=50, waiting=5)
LIMITED = Scene(usage=0.2, running=8, waiting=4)

FAULTY = {
    "PlimsollDeploymentDown": {"a bad field": Story(Scene(problem=ConditionReason.INVALID_SPEC), 20)},
    "PlimsollDeploymentInTrouble": {
        "promise missed": Story(Scene(trouble=LiveTrouble.PROMISE_MISSED), 20),
        "slow replica": Story(Scene(trouble=LiveTrouble.REPLICA_SLOW), 20),
        "silent replica": Story(Scene(trouble=LiveTrouble.REPLICA_SILENT), 20),
    },
    "PlimsollDeploymentWaits": {
        "one replica": Story(Scene(missing=1), 20),
        "a hub without an answer": Story(Scene(problem=ConditionReason.MODEL_SOURCE_UNAVAILABLE), 20),
    },
    "PlimsollDeploymentStartsLong": {"weights": Story(Scene(starts=True), 35)},
    "PlimsollDeploymentOverLine": {"an estimate": Story(Scene(is_over=True), 20)},
    "PlimsollNodesIgnored": {"no label": Story(Scene(ignored=(NodeReason.NO_PRODUCT_LABEL,)), 35)},
    "PlimsollPriceDoubtful": {"an old price": Story(Scene(doubts=(PriceDoubt.OLD_PRICE,)), 35)},
    "PlimsollProposalWaits": {"half an hour": Story(Scene(proposes=True), 35)},
    "PlimsollKvCacheOverLine": {
        "full": Story(FULL, 20),
        "full, an old release": Story(replace(FULL, former_names=True)),
        "full, SGLang": Story(replace(FULL, server=Server.SGLANG)),
    },
    "PlimsollQueueWithFreeCache": {
        "a limit": Story(LIMITED, 20),
        "a limit, an old release": Story(replace(LIMITED, former_names=True)),
        "a limit, SGLang": Story(replace(LIMITED, server=Server.SGLANG)),
    },
    "PlimsollAtMaximumWithQueue": {"a queue": Story(Scene(reason="AtMaxReplicas", waiting=4), 20)},
    "PlimsollNoPlaceForMore": {
        "no GPUs": Story(Scene(reason="NoPlaceFound"), 20),
        "no dollars": Story(Scene(reason="DollarsPerHourSpent"), 20),
    },
    "PlimsollAdditionsInVain": {
        "none serves": Story(Scene(reason="AdditionsDoNotServe"), 10),
        "none helps": Story(Scene(reason="AdditionsDoNotHelp"), 10),
    },
    "PlimsollReversalsSpent": {"a swing": Story(Scene(reason="ReversalsSpent"), 20)},
    "PlimsollSignalsLate": {"two minutes": Story(Scene(late=120), 15)},
    "PlimsollEngineMetricsUnusable": {"none": Story(Scene(reason="MetricsMissing"), 20)},
    "PlimsollEstimateOff": {
        "too much promised": Story(Scene(reported=0.8), 20),
        "too little promised": Story(Scene(reported=1.3), 20),
    },
    "PlimsollNoLeader": {"the lease is lost": Story(Scene(leads=False), 10)},
    "PlimsollPassesFail": {"all": Story(Scene(failing=2), 25)},
    "PlimsollDataOld": {"half an hour": Story(Scene(age=1800), 10)},
    "PlimsollWatchSilent": {"two minutes": Story(Scene(silent=120), 5)},
    "PlimsollFaults": {
        "the first one": Story(Scene(faults=1), since=5, until=4),
        "again": Story(Scene(faults=1), 30),
    },
    "PlimsollWritesFail": {"again and again": Story(Scene(unwritten=1), 35)},
}
"""Stories in which each alert fires."""

HONEST = {
    "PlimsollDeploymentDown": {
        "reads the model": Story(Scene(problem=ConditionReason.RESOLVING_MODEL), 5),
        "somebody knows": Story(Scene(problem=ConditionReason.INVALID_SPEC, acknowledged=True)),
    },
    "PlimsollDeploymentInTrouble": {
        "a short one": Story(Scene(trouble=LiveTrouble.PROMISE_MISSED), 5),
        "a slow replica is replaced": Story(Scene(trouble=LiveTrouble.REPLICA_SLOW), since=15, until=7),
        "a silent replica that somebody knows": Story(Scene(trouble=LiveTrouble.REPLICA_SILENT, acknowledged=True)),
        "somebody knows": Story(Scene(trouble=LiveTrouble.PROMISE_MISSED, acknowledged=True)),
    },
    "PlimsollDeploymentWaits": {"for 10 minutes": Story(Scene(missing=1), 10)},
    "PlimsollDeploymentStartsLong": {"20 minutes": Story(Scene(starts=True), 20)},
    "PlimsollDeploymentOverLine": {"a short time": Story(Scene(is_over=True), 10)},
    "PlimsollNodesIgnored": {"cordoned": Story(Scene(ignored=(NodeReason.CORDONED,)))},
    "PlimsollPriceDoubtful": {"for a short time": Story(Scene(doubts=(PriceDoubt.OLD_PRICE,)), 10)},
    "PlimsollProposalWaits": {"for 10 minutes": Story(Scene(proposes=True), 10)},
    "PlimsollKvCacheOverLine": {
        "full without a queue": Story(replace(FULL, waiting=0)),
        "a queue next to a cache with room": Story(replace(FULL, usage=0.85)),
        "an SGLang whose cache has room": Story(replace(FULL, usage=0.85, server=Server.SGLANG)),
        "for a short time": Story(FULL, 5),
        "an engine of others": Story(replace(FULL, model="of-others")),
        "an SGLang of others": Story(replace(FULL, model="of-others", server=Server.SGLANG)),
    },
    "PlimsollQueueWithFreeCache": {
        "the cache is in use": Story(replace(LIMITED, usage=0.9)),
        "no queue": Story(replace(LIMITED, waiting=0)),
        "an SGLang without a queue": Story(replace(LIMITED, waiting=0, server=Server.SGLANG)),
        "an engine of others": Story(replace(LIMITED, model="of-others")),
    },
    "PlimsollAtMaximumWithQueue": {
        "nobody waits": Story(Scene(reason="AtMaxReplicas")),
        "a queue below the maximum": Story(Scene(reason="ReplicasStarting", waiting=4, usage=0.6)),
    },
    "PlimsollNoPlaceForMore": {"for a short time": Story(Scene(reason="NoPlaceFound"), 10)},
    "PlimsollAdditionsInVain": {
        "at the maximum": Story(Scene(reason="AtMaxReplicas")),
        "not known yet": Story(Scene(reason="AdditionNotProven")),
    },
    "PlimsollReversalsSpent": {"a usual pause": Story(Scene(reason="CoolingDown"))},
    "PlimsollSignalsLate": {"half a minute": Story(Scene(late=30))},
    "PlimsollEngineMetricsUnusable": {"another reason": Story(Scene(reason="CoolingDown"))},
    "PlimsollEstimateOff": {"4 % less": Story(Scene(reported=0.96)), "5 % more": Story(Scene(reported=1.05))},
    "PlimsollNoLeader": {"a change of leaders": Story(Scene(leads=False), 3)},
    "PlimsollPassesFail": {"every second one": Story(Scene(failing=1)), "a standby": Story(Scene(leads=False))},
    "PlimsollDataOld": {"a late list": Story(Scene(age=600))},
    "PlimsollWatchSilent": {"a slow watch": Story(Scene(silent=30))},
    "PlimsollFaults": {"long ago": Story(Scene(faults=1), since=25, until=24)},
    "PlimsollWritesFail": {"one refusal": Story(Scene(unwritten=1), since=9, until=8)},
}
"""For each alert, stories near to these in which it does not fire."""

ALL_AT_ONCE = Scene(
    missing=1,
    trouble=LiveTrouble.PROMISE_MISSED,
    starts=True,
    is_over=True,
    problem=ConditionReason.INVALID_SPEC,
    ignored=(NodeReason.NO_PRODUCT_LABEL,),
    doubts=(PriceDoubt.OLD_PRICE,),
    proposes=True,
    reported=0.8,
    reason="MetricsMissing",
    age=1800,
    silent=120,
    late=120,
    faults=1,
    unwritten=1,
    usage=1.0,
    running=50,
    waiting=5,
)


OLD_ENGINE, SGLANG = "an engine of an old release", "an engine of SGLang"
STORIES = {
    "all is well": WELL,
    OLD_ENGINE: Story(Scene(former_names=True)),
    SGLANG: Story(Scene(server=Server.SGLANG)),
    **{
        f"{alert}: {name}": story
        for table in (FAULTY, HONEST)
        for alert, of in table.items()
        for name, story in of.items()
    },
}


@dataclass(frozen=True, slots=True)
class Past:
    """A Prometheus that has scraped all stories; ``ends`` are their ends, POSIX seconds, and the last one is now."""

    prometheus: Prometheus
    ends: dict[str, float]
    now: float

    def firing(self, rule: Rule, at: float) -> list[dict[str, str]]:
        """The labels for which the expression held at each minute of the time that the rule asks for."""
        points = rule.minutes + 1
        held = self.prometheus.query(f"count_over_time(({spelled_out(rule.expression)})[{points}m:1m])", at=at)
        return [series.labels for series in held if series.value == points]


ON = ("--set", "metrics.prometheusRule.enabled=true")
RUNBOOKS = ("--set", "metrics.prometheusRule.runbookUrl=https://git.example/plimsoll/docs/runbooks.md")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    directory = tmp_path_factory.mktemp("alerts")
    (rule_object,) = all_of("PrometheusRule", *ON, *RUNBOOKS)
    rules = directory / "rules.yaml"
    rules.write_text(yaml.safe_dump(rule_object["spec"]))
    now = time.time() // 60 * 60
    ends = {name: now - APART_SECONDS * place for place, name in enumerate(STORIES, start=1)}
    before = [Played(story, ends[name]) for name, story in reversed(STORIES.items())]
    days = int((len(STORIES) + 1) * APART_SECONDS / 86_400) + 1
    played = PlayedPast([*before, Played(Story(ALL_AT_ONCE), now, buckets=True, after=30)], days)
    with (
        played,
        Prometheus(ensure_binaries(), directory, [], jobs=[played.job], days=days, rules=[rules]) as prometheus,
    ):
        wait_until(lambda: prometheus.query("plimsoll_leader", at=now), 60, "the scrape of all stories")
        yield Past(prometheus, ends, now)


def cases(table: dict[str, dict[str, Story]]) -> list[tuple[str, str]]:
    return [(alert, name) for alert, stories in table.items() for name in stories]


@pytest.mark.parametrize(("alert", "story"), cases(FAULTY))
def test_the_alert_fires_on_the_fault(past: Past, alert: str, story: str) -> None:
    found = past.firing(RULES[alert], past.ends[f"{alert}: {story}"])
    named = set(re.findall(r"\$labels\.(\w+)", RULES[alert].annotations["summary"]))
    assert found
    assert all(labels.keys() == named for labels in found)


@pytest.mark.parametrize("story", FAULTY["PlimsollDeploymentInTrouble"])
def test_the_alert_names_the_state(past: Past, story: str) -> None:
    alert = "PlimsollDeploymentInTrouble"
    [labels] = past.firing(RULES[alert], past.ends[f"{alert}: {story}"])
    assert labels["state"] == story


@pytest.mark.parametrize(("alert", "story"), cases(HONEST))
def test_the_alert_is_quiet_where_it_only_looks_like_the_fault(past: Past, alert: str, story: str) -> None:
    assert past.firing(RULES[alert], past.ends[f"{alert}: {story}"]) == []


def test_every_alert_has_a_fault_and_a_neighbour_and_none_fires_where_all_is_well(past: Past) -> None:
    assert FAULTY.keys() == HONEST.keys() == RULES.keys()
    for name in ("all is well", OLD_ENGINE, SGLANG):
        assert [alert for alert, rule in RULES.items() if past.firing(rule, past.ends[name])] == []


def test_a_prometheus_without_an_operator_fires_that_and_nothing_else(past: Past) -> None:
    nobody = past.ends["all is well"] + 30 * 60
    assert [alert for alert, rule in RULES.items() if past.firing(rule, nobody)] == ["PlimsollNoLeader"]


EXCLUDED = {
    "PlimsollNoLeader",
    "PlimsollPassesFail",
    "PlimsollQueueWithFreeCache",
    "PlimsollAtMaximumWithQueue",
    "PlimsollNoPlaceForMore",
    "PlimsollAdditionsInVain",
    "PlimsollReversalsSpent",
}
"""They cannot be true together with the others."""


def alerts_of(prometheus: Prometheus) -> dict[str, dict[str, Any]]:
    return {each["labels"]["alertname"]: each for each in prometheus.ask("alerts")["alerts"]}


def test_prometheus_takes_the_chart_s_rules_and_writes_their_sentences(past: Past) -> None:
    """The rules run as they are installed. Of those with a time to wait, the alert is pending."""
    expected = RULES.keys() - EXCLUDED
    wait_until(lambda: expected <= alerts_of(past.prometheus).keys(), 60, "the alerts")
    found = alerts_of(past.prometheus)
    assert found.keys() == expected
    for name, alert in found.items():
        said = alert["annotations"]
        assert said["runbook_url"] == f"https://git.example/plimsoll/docs/runbooks.md#{name.lower()}"
        assert "<" not in said["summary"], said["summary"]
        assert "{" not in said["summary"], said["summary"]
    assert found["PlimsollFaults"]["state"] == "firing"
    assert found["PlimsollDeploymentDown"]["annotations"]["summary"] == (
        "serving/mail does not serve, and waiting does not help: invalid spec."
    )
    rules = chain.from_iterable(group["rules"] for group in past.prometheus.ask("rules")["groups"])
    assert {each["health"] for each in rules} == {"ok"}


def asked(expression: str, namespace: str = ".*", deployment: str = ".*") -> str:
    """A query of the dashboard as Grafana sends it."""
    chosen = {"$__rate_interval": "4m", "$namespace": namespace, "$deployment": deployment}
    for variable, value in chosen.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    return expression


@pytest.mark.parametrize("title", queries())
def test_every_query_of_the_dashboard_has_an_answer(past: Past, title: str) -> None:
    """The recorded series begin with the test: the question is about the present."""
    question = asked(queries()[title])
    wait_until(lambda: past.prometheus.query(question), 60, "an answer")
    answer = past.prometheus.query(question)
    assert not any(math.isnan(series.value) for series in answer)


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("story", ["full", "full, an old release", "full, SGLang"])
def test_no_recorded_name_is_empty_for_any_engine(past: Past, story: str, record: str) -> None:
    at = past.ends[f"PlimsollKvCacheOverLine: {story}"]
    [found] = past.prometheus.query(spelled_out(record), at=at)
    assert (found.labels["namespace"], found.labels["name"]) == ("serving", "chat")


def test_the_chosen_deployment_is_the_only_one_shown(past: Past) -> None:
    own, other = (
        asked(queries()["KV cache in use of each deployment A"], CHAT.namespace, name) for name in (CHAT.name, "mail")
    )
    assert [each.value for each in past.prometheus.query(own, at=past.now)] == [1.0]
    assert past.prometheus.query(other, at=past.now) == []


def test_deployments_can_be_chosen_also_where_they_cannot_be_planned(past: Past) -> None:
    *_, variable = DASHBOARD["templating"]["list"]
    selector = variable["query"]["query"].removeprefix("label_values(").removesuffix(", name)")
    found = past.prometheus.query(f"group by (name) ({asked(selector)})", at=past.now)
    assert sorted(each.labels["name"] for each in found) == ["busy", CHAT.name, "mail", "slow", "wide"]


def test_the_console_reads_the_totals_of_the_fleet_from_the_operators_own_metrics(past: Past) -> None:
    found = PrometheusLive(past.prometheus.url).totals(now=time.time())
    assert found is not None
    assert found.types == (GpuTotal("h100-sxm-80gb", 7, 1),)
    assert found.at == pytest.approx(past.now, abs=600)
