"""The chart's dashboard and alerts: do they name what exists, and does somebody say what to do?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.engines.metrics import count_of, total_of
from plimsoll.engines.registry import ENGINES
from plimsoll.status.severity import State
from scripts.dashboard.__main__ import text
from tests.support.alerting import CHART, DASHBOARD, RECORDS, RULES, exported, metrics_of, of_engines, panels, queries

DOCS = Path(__file__).resolve().parents[2] / "docs"
RUNBOOKS = (DOCS / "runbooks.md").read_text()
PROMETHEUS = (DOCS / "prometheus.md").read_text()
EXPRESSIONS = queries() | {name: rule.expression for name, rule in RULES.items()}
SHARES = {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"} | {
    name for name in exported() | RECORDS.keys() if re.search(r"_ratio(:|$)", name)
}
KNOWN = "plimsoll:deployments:group1d"
"""Holds the deployments that there are."""

MEANINGS = {
    "plimsoll:engine_kv_cache_usage_ratio:max": "kv_usage",
    "plimsoll:engine_running_requests:sum": "running",
    "plimsoll:engine_waiting_requests:sum": "waiting",
    "plimsoll:engine_preemptions:rate5m": "preemptions",
    "plimsoll:engine_prompt_tokens:rate5m": "prompt_tokens",
    "plimsoll:engine_generation_tokens:rate5m": "generation_tokens",
    "plimsoll:engine_first_token_seconds:mean5m": "first_token_seconds",
    "plimsoll:engine_token_gap_seconds:mean5m": "token_gap_seconds",
}
"""The figure of an engine that each name records."""
ADDED_UP = re.compile(r"\b(?:sum|avg)\b(?:\s+(?:by|without)\s*\([^)]*\))?\s*\(")


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_every_metric_that_is_asked_for_is_one_that_exists(title: str) -> None:
    named = metrics_of(EXPRESSIONS[title])
    assert named
    assert named - exported() - RECORDS.keys() == set()


def test_a_metric_that_was_renamed_would_be_noticed() -> None:
    assert metrics_of(
        'sum(rate(vllm:num_preemptions{pod="a"}[5m])) > plimsoll_unplaced'
    ) - exported() - of_engines() == {
        "vllm:num_preemptions",
        "plimsoll_unplaced",
    }


def spellings_of(figure: str) -> list[list[str]]:
    """The names of a figure of each engine, the current one first; of a histogram those of its sums and its counts."""
    return [
        [series, *(former for former, now in engine.metrics.former_names.items() if now == series)]
        for engine in ENGINES.values()
        for name in (getattr(engine.metrics, figure),)
        for series in ((total_of(name), count_of(name)) if figure.endswith("_seconds") else (name,))
    ]


def test_every_name_is_recorded_from_all_names_of_all_engines_and_known_deployments_only() -> None:
    assert RECORDS.keys() - {KNOWN} == MEANINGS.keys()
    for record, figure in MEANINGS.items():
        expression = RECORDS[record]
        names = spellings_of(figure)
        assert metrics_of(expression) == {KNOWN, *(name for series in names for name in series)}, record
        for series in names:
            places = [expression.index(name) for name in series]
            assert places == sorted(places), f"{record}: the current name counts before its former ones"
        assert expression.count('"name", "$1", "model_name"') == expression.count("label_replace(")
        assert expression.endswith(f"and on (namespace, name) {KNOWN}")
    assert {engine.metrics.model_label for engine in ENGINES.values()} == {"model_name"}


def test_a_pod_that_is_scraped_twice_counts_once_and_each_of_its_ranks_counts() -> None:
    """A sum is over the labels that engines set themselves. A Prometheus adds others, e.g. its job."""
    own = sorted(set[str]().union(*(engine.metrics.labels for engine in ENGINES.values())))
    once = f"max by ({', '.join(('namespace', 'pod', *own))}) ("
    for record in MEANINGS:
        sums = RECORDS[record].count("sum by (")
        assert sums or record.endswith(":max")
        assert RECORDS[record].count(once) == sums, record


def test_every_recorded_name_is_read_and_described() -> None:
    read = {name for expression in (*EXPRESSIONS.values(), *RECORDS.values()) for name in metrics_of(expression)}
    assert RECORDS.keys() - read == set()
    assert set(re.findall(r"^\| `(plimsoll:[\w:]+)`", PROMETHEUS, re.MULTILINE)) == MEANINGS.keys()


def test_the_panels_of_recorded_names_say_who_records_them() -> None:
    needs = {p["title"] for p in panels() if any("plimsoll:" in each["expr"] for each in p["targets"])}
    assert len(needs) == 7
    assert needs == {p["title"] for p in panels() if "metrics.prometheusRule" in p["description"]}


def added_up(expression: str) -> set[str]:
    """The metrics inside every sum and every mean of a query."""
    found = set[str]()
    for start in ADDED_UP.finditer(expression):
        depth = 0
        for end in range(start.end() - 1, len(expression)):
            depth += {"(": 1, ")": -1}.get(expression[end], 0)
            if depth == 0:
                found |= metrics_of(expression[start.end() : end])
                break
    return found


@pytest.mark.parametrize("title", EXPRESSIONS | RECORDS)
def test_no_share_is_added_up(title: str) -> None:
    assert SHARES & added_up((EXPRESSIONS | RECORDS)[title]) == set()


def test_a_share_that_is_added_up_would_be_noticed() -> None:
    gauge = "vllm:kv_cache_usage_perc"
    for wrong in (
        f"sum({gauge})",
        f'sum by (a) (label_replace({gauge}{{b=~"c"}}, "d"))',
        f"avg by (a) (max(b) + {gauge})",
    ):
        assert gauge in added_up(wrong), wrong
    for right in (
        f"max by (a) ({gauge})",
        f"sum by (a) (plimsoll_leader) and {gauge}",
        f"sum(plimsoll_leader) * max({gauge})",
    ):
        assert gauge not in added_up(right), right


def test_the_file_is_what_the_tables_of_panels_say() -> None:
    assert (CHART / "dashboards" / "plimsoll.json").read_text() == text()


def test_every_panel_has_its_own_number_and_place_and_says_how_to_read_it() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers) == len(set(places))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in DASHBOARD["panels"])
    assert [panel["title"] for panel in panels() if not panel["description"].endswith(".")] == []
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)
    assert [row["title"].split(":")[0] for row in DASHBOARD["panels"] if row["type"] == "row"] == [
        "Fleet",
        "Placement",
        "Live",
        "Accuracy",
        "Operator",
    ]


def sources(node: Any) -> list[Any]:
    """Every data source that a part of the dashboard names."""
    if isinstance(node, list):
        return [found for each in node for found in sources(each)]
    if not isinstance(node, dict):
        return []
    own = [node["datasource"]] if "datasource" in node else []
    return own + [found for each in node.values() for found in sources(each)]


def test_the_data_source_is_chosen_and_never_fixed() -> None:
    found = sources(DASHBOARD)
    assert len(found) > len(list(panels()))
    assert all(each == {"type": "prometheus", "uid": "${datasource}"} for each in found)
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "namespace", "deployment"]


def test_the_chosen_deployments_limit_every_query_about_them() -> None:
    about = re.compile(
        r"(plimsoll_(?:live|unplaced|planned|placement|problems|estimate|predicted|reported|waiting)\w*|plimsoll:[\w:]+)(.?)"
    )
    for title, expression in queries().items():
        for metric, brace in about.findall(expression):
            assert brace == "{", f"{title}: {metric} has no selector"
        assert expression.count('namespace=~"$namespace"') == len(about.findall(expression))


@pytest.mark.parametrize("name", RULES)
def test_every_alert_links_to_a_heading_that_says_what_to_do(name: str) -> None:
    rule = RULES[name]
    assert rule.annotations["runbook_url"] == f"#{name.lower()}"
    assert rule.labels["severity"] in {"critical", "warning", "info"}
    assert f"| [{name}](#{name.lower()}) | {rule.labels['severity']} |" in RUNBOOKS
    _, section = RUNBOOKS.split(f"\n## {name}\n")
    section = section.split("\n## ")[0]
    assert re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE) == ["What it means.", "What to check.", "What to do."]


def test_every_heading_belongs_to_an_alert() -> None:
    assert re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE) == list(RULES)


def test_the_anchors_are_all_that_the_chart_puts_an_address_before() -> None:
    rules = (CHART / "alerts" / "plimsoll.yaml").read_text()
    assert rules.count("runbook_url: '#") == len(RULES) == rules.count("runbook_url")
    assert not re.search(r"https?://", rules + json.dumps(DASHBOARD))


def test_the_links_of_the_runbooks_lead_somewhere() -> None:
    for page, anchor in re.findall(r"\]\(([\w.-]+\.md)?(?:#([\w-]+))?\)", RUNBOOKS):
        words = (DOCS / page).read_text() if page else RUNBOOKS
        headings = [
            re.sub(r"[^\w -]", "", each).strip().lower() for each in re.findall(r"^#+ (.+)$", words, re.MULTILINE)
        ]
        assert not anchor or anchor in {each.replace(" ", "-") for each in headings}, f"{page}#{anchor}"


def test_the_states_that_a_runbook_names_are_those_of_the_label() -> None:
    named = re.findall(r"label `state` says\s+which \(([^)]*)\)", RUNBOOKS)
    assert named
    assert set(re.findall(r"`([^`]*)`", " ".join(named))) <= {*State}


def test_both_are_off_unless_somebody_wants_them() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["metrics"]
    assert values["dashboard"] == {
        "enabled": False,
        "namespace": "",
        "labels": {"grafana_dashboard": "1"},
        "annotations": {},
    }
    assert values["prometheusRule"] == {"enabled": False, "additionalLabels": {}, "runbookUrl": "docs/runbooks.md"}


def test_each_panel_with_the_kv_cache_in_use_says_that_kept_prefixes_are_not_in_it() -> None:
    shown = ("plimsoll_live_kv_cache_used_tokens", "plimsoll:engine_kv_cache_usage_ratio:max")
    about = [each for each in panels() if any(name in target["expr"] for name in shown for target in each["targets"])]
    assert len(about) == 3
    for each in about:
        assert "Prefixes that are kept and that no request uses are not in it." in each["description"], each["title"]
