"""What the user adds to the pods: refused by its field where it cannot work, passed on as written where it can."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from plimsoll.api.conversion.convert import check_without_model, to_request, to_workload_options
from plimsoll.domain.errors import InvalidInput
from tests.api.manifests import deployment
from tests.api.poison import BEYOND_THE_CRD, DIGITS, POISON, refusal
from tests.render.workloads import container, rendered
from tests.support.planning import LLAMA_8B, model
from tests.support.tables import every_case

LONGEST_REFUSAL = 1000


@every_case("case", POISON)
def test_what_would_break_the_pods_is_refused_by_the_fields_name(case: str) -> None:
    template, _, field = POISON[case]
    refused = refusal(podTemplate=template)
    assert refused.field == f"spec.podTemplate.{field}"
    assert refused.fix
    assert len(str(refused)) < LONGEST_REFUSAL


@every_case("case", BEYOND_THE_CRD)
def test_what_a_crd_cannot_say_is_refused_all_the_same(case: str) -> None:
    template, field = BEYOND_THE_CRD[case]
    assert refusal(podTemplate=template).field == f"spec.podTemplate.{field}"


def test_a_value_is_shown_in_a_bearable_length() -> None:
    refused = refusal(engine={"cpuOffload": f"{DIGITS}Gi"})
    assert str(refused).startswith("spec.engine.cpuOffload: '99999")
    assert len(str(refused)) < LONGEST_REFUSAL
    assert "an integer of 16607 bits" in str(refusal(contextLength=10**4999))
    assert len(str(refusal(podTemplate={"labels": {"x" * 5000: 1}}))) < LONGEST_REFUSAL


def test_what_is_nested_without_end_is_named() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    assert refusal(precision=deep).field.startswith("spec.precision")
    assert refusal(model={"name": "a/b", "config": deep}).field == "spec.model.config"


def levels(count: int, *, innermost: Any = 1) -> Any:
    node = innermost
    for _ in range(count):
        node = {"a": node}
    return node


def test_a_configuration_may_be_as_deep_as_the_crd_says() -> None:
    for config in (levels(11), levels(7, innermost=[[[[1]]]]), levels(11, innermost=[]), {"a": None, "b": [None, 0.5]}):
        check_without_model(deployment(model={"name": "a/b", "config": config}).spec)
    for config in (levels(12), {"a": [[[[[1]]]]]}, levels(10, innermost=[[1]])):
        assert "nested" in refusal(model={"name": "a/b", "config": config}).fix


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"a": dt.date(2026, 1, 1)}, "It holds a date; put what is no number in quotes"),
        ({1: 2}, "valid string"),
        ({f"k{index}": 0 for index in range(1025)}, "more than 1024 members"),
        ({"a": list(range(8192))}, "more than 8192 members"),
        ([], "dictionary"),
    ],
)
def test_a_configuration_is_plain_json_of_a_bearable_size(config: Any, why: str) -> None:
    assert why in refusal(model={"name": "a/b", "config": config}).fix


def test_a_quantity_without_quotes_is_taken_as_earlier_releases_took_it() -> None:
    template = {"resources": {"requests": {"cpu": 0.5, "memory": 8589934592}}}
    resources = to_workload_options(deployment(podTemplate=template)).pod.resources
    assert resources == {"requests": {"cpu": "0.5", "memory": 8589934592}}


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({}, {"cpu": "2", "memory": "8Gi"}),
        ({"limits": {"memory": "64Gi"}}, {"cpu": "2", "memory": "8Gi"}),
        ({"limits": {"memory": "4Gi", "cpu": 1}}, {"cpu": 1, "memory": "4Gi"}),
        ({"limits": {"memory": "4Gi"}, "requests": {"memory": "1Gi"}}, {"cpu": "2", "memory": "1Gi"}),
    ],
)
def test_no_request_of_the_operators_is_above_a_limit_of_the_users(
    resources: dict[str, Any], requests: dict[str, Any]
) -> None:
    resource = deployment(podTemplate={"resources": resources})
    check_without_model(resource.spec)
    made = container(rendered(to_workload_options(resource)))["resources"]
    assert {name: made["requests"][name] for name in ("cpu", "memory")} == requests


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_gpus_that_the_user_counts_are_left_out_with_a_warning(resource: str) -> None:
    written = {"limits": {resource: 2, "memory": "64Gi"}, "requests": {resource: 2}}
    given = deployment(podTemplate={"resources": written})
    check_without_model(given.spec)
    made = container(rendered(to_workload_options(given)))["resources"]
    assert [made[part].get("nvidia.com/gpu") for part in ("requests", "limits")] == ["1", "1"], "the plan's"
    assert {name for name in made["requests"] if "/" in name} == {"nvidia.com/gpu"}
    assert made["limits"]["memory"] == "64Gi"
    [said] = to_request(given, model(LLAMA_8B)).remarks
    assert said.startswith(f"spec.podTemplate.resources names {resource}, which is left out")
    assert "spec.overrides.tensorParallel" in said


def test_everything_of_a_config_map_becomes_environment() -> None:
    given = [{"prefix": "P_", "configMapRef": {"name": "c", "optional": True}}]
    resource = deployment(podTemplate={"envFrom": given})
    check_without_model(resource.spec)
    assert container(rendered(to_workload_options(resource)))["envFrom"] == given
    assert "envFrom" not in container(rendered(to_workload_options(deployment())))


def test_what_kubernetes_takes_is_taken() -> None:
    template: dict[str, Any] = {
        "labels": {"app.kubernetes.io/part-of": "x", "empty": ""},
        "annotations": {"Example.com/A": "any text: é"},
        "tolerations": [{"operator": "Exists"}, {"key": "a"}, {"key": "a", "operator": "Exists", "value": ""}],
        "volumes": [{"name": "nothing-said"}, {"name": "b", "hostPath": {"path": "/x", "type": ""}}],
        "volumeMounts": [{"name": "b", "mountPath": "/cache/inside"}, {"name": "shm", "mountPath": "/other/"}],
        "resources": {"limits": {"hugepages-2Mi": "4Mi", "nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 1}},
        "serviceAccountName": "",
        "priorityClassName": "",
    }
    check_without_model(deployment(podTemplate=template).spec)


def test_a_misspelt_field_is_named_where_it_stands() -> None:
    with pytest.raises(InvalidInput, match=r"^spec\.podTemplate\.env\[0\]\.valuefrom: .* There is no such field"):
        deployment(podTemplate={"env": [{"name": "A", "valuefrom": {}}]})
