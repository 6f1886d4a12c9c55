"""ResourceQuotas: what a namespace may still ask for."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.domain.cluster.quota_accounts import is_counted, resource_in
from plimsoll.facts.cluster.quota_reading import NamespaceQuotas, read_quotas

GPUS = "requests.nvidia.com/gpu"


def quota(
    hard: dict[str, str], used: dict[str, str] | None = None, namespace: str = "ml", name: str = "q", **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }


def left(*quotas: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {namespace: dict(limits) for namespace, limits in read_quotas(quotas).remaining.items()}


def test_what_is_left_is_the_limit_less_what_is_used() -> None:
    assert left(quota({GPUS: "8"}, {GPUS: "3"})) == {"ml": {"nvidia.com/gpu": 5}}
    assert left(quota({GPUS: "8"})) == {"ml": {"nvidia.com/gpu": 8}}


def test_a_quota_that_was_lowered_below_its_use_leaves_less_than_nothing() -> None:
    assert left(quota({GPUS: "2"}, {GPUS: "3"})) == {"ml": {"nvidia.com/gpu": -1}}


def test_of_several_the_smallest_counts_and_namespaces_do_not_mix() -> None:
    shown = left(
        quota({GPUS: "8"}, {GPUS: "1"}),
        quota({GPUS: "4", "requests.amd.com/gpu": "2"}, {GPUS: "1"}, name="tight"),
        quota({GPUS: "1"}, namespace="other"),
    )
    assert shown == {"ml": {"nvidia.com/gpu": 3, "amd.com/gpu": 2}, "other": {"nvidia.com/gpu": 1}}


def test_limits_of_other_things_are_no_matter() -> None:
    assert left(quota({"requests.storage": "8", "limits.nvidia.com/gpu": "1", "nvidia.com/gpu": "1"})) == {}


def test_pods_are_counted_by_both_of_their_names() -> None:
    assert left(quota({"pods": "8", "count/pods": "9"}, {"pods": "8", "count/pods": "4"})) == {
        "ml": {"pods": 0, "count/pods": 5}
    }


def test_cpu_is_left_in_thousandths_of_a_core_and_memory_in_bytes() -> None:
    hard = {"requests.cpu": "8", "limits.cpu": "1500m", "requests.memory": "16Gi", "limits.memory": "1G"}
    used = {"requests.cpu": "2500m", "requests.memory": "4Gi"}
    assert left(quota(hard, used)) == {
        "ml": {"requests.cpu": 5500, "limits.cpu": 1500, "requests.memory": 12 * 2**30, "limits.memory": 10**9}
    }


def test_a_quota_may_name_requests_without_the_prefix_and_the_smaller_one_counts() -> None:
    both = quota({"cpu": "4", "requests.cpu": "8", "memory": "3"}, {"cpu": "1", "requests.cpu": "6", "memory": "1"})
    assert left(both) == {"ml": {"requests.cpu": 2000, "requests.memory": 2}}
    assert left(quota({"requests.cpu": "8", "cpu": "4"})) == {"ml": {"requests.cpu": 4000}}


def test_a_quota_on_cpu_that_was_lowered_below_its_use_leaves_less_than_nothing_and_scopes_count_for_it_too() -> None:
    assert left(quota({"cpu": "1"}, {"cpu": "3"})) == {"ml": {"requests.cpu": -2000}}
    assert left(quota({"cpu": "1"}, scopes=["BestEffort"])) == {}
    assert "ResourceQuota ml/q" in read_quotas([quota({"cpu": "1"}, scopes=["Own"])]).complaints[0]


@pytest.mark.parametrize("scopes", [["NotTerminating"], ["NotBestEffort"], ["NotBestEffort", "NotTerminating"]])
def test_scopes_that_engines_are_always_in_count(scopes: list[str]) -> None:
    assert left(quota({GPUS: "2"}, scopes=scopes)) == {"ml": {"nvidia.com/gpu": 2}}


@pytest.mark.parametrize("scopes", [["Terminating"], ["BestEffort"], ["NotTerminating", "BestEffort"]])
def test_scopes_that_they_are_never_in_do_not_and_nobody_hears_of_it(scopes: list[str]) -> None:
    assert read_quotas([quota({GPUS: "2"}, scopes=scopes)]) == NamespaceQuotas()


def scoped(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        ({"scopeSelector": scoped("In", "high", "higher")}, {"high", "higher"}),
        ({"scopeSelector": scoped("NotIn", "high", "higher")}, {"low", ""}),
        ({"scopeSelector": scoped("Exists")}, {"high", "higher", "low"}),
        ({"scopes": ["PriorityClass", "NotTerminating"]}, {"high", "higher", "low"}),
        ({"scopeSelector": scoped("DoesNotExist")}, {""}),
        ({"scopes": ["PriorityClass"], "scopeSelector": scoped("NotIn", "high")}, {"higher", "low"}),
        ({}, {"high", "higher", "low", ""}),
    ],
)
def test_a_scope_of_priority_classes_counts_the_pods_that_the_api_server_counts(
    spec: dict[str, Any], counted: set[str]
) -> None:
    shown = read_quotas([quota({GPUS: "1"}, **spec)])
    assert shown.complaints == ()
    [(account, amount)] = shown.remaining["ml"].items()
    assert (resource_in(account), amount) == ("nvidia.com/gpu", 1)
    assert {each for each in ("high", "higher", "low", "") if is_counted(account, each)} == counted


def test_quotas_of_the_same_classes_are_one_limit_however_they_are_written() -> None:
    first = quota({GPUS: "8"}, scopeSelector=scoped("In", "b", "a"))
    second = quota({GPUS: "3"}, name="other", scopeSelector=scoped("In", "a", "b", "a"))
    assert left(first, second) == {"ml": {"nvidia.com/gpu of PriorityClass In a,b": 3}}


def test_a_quota_of_priority_classes_and_of_pods_that_are_not_ours_binds_nobody() -> None:
    assert read_quotas([quota({GPUS: "0"}, scopes=["BestEffort", "PriorityClass"])]) == NamespaceQuotas()


def test_a_scope_that_cannot_be_judged_is_left_out_and_named() -> None:
    term = {"scopeName": "PriorityClass", "operator": "Like", "values": ["high"]}
    shown = read_quotas([quota({GPUS: "0"}, scopeSelector={"matchExpressions": [term]}), quota({GPUS: "4"}, name="b")])
    assert dict(shown.remaining["ml"]) == {"nvidia.com/gpu": 4}
    [complaint] = shown.complaints
    assert "ResourceQuota ml/q" in complaint
    assert "PriorityClass Like" in complaint


def test_a_limit_that_is_no_number_limits_nothing() -> None:
    assert left(quota({GPUS: "many"})) == {}


@pytest.mark.parametrize(
    "entry", ["requests.ephemeral-storage", "hugepages-2Mi", "requests.example.com/nic", "count/deployments.apps"]
)
def test_an_entry_that_may_refuse_us_and_is_not_evaluated_is_named_and_the_others_count(entry: str) -> None:
    shown = read_quotas([quota({GPUS: "4", entry: "0"})])
    assert dict(shown.remaining["ml"]) == {"nvidia.com/gpu": 4}
    [complaint] = shown.complaints
    assert f"ResourceQuota ml/q limits {entry}, which is not evaluated here" in complaint
    assert read_quotas([quota({entry: "0"})]).complaints == shown.complaints
    assert read_quotas([quota({entry: "0"}, scopes=["BestEffort"])]).complaints == ()


def test_entries_for_what_no_deployment_needs_are_passed_over() -> None:
    others = {"requests.storage": "1Gi", "secrets": "0", "count/inferencedeployments.plimsoll.dev": "9"}
    assert read_quotas([quota(others)]) == NamespaceQuotas()
