"""Whatever one object holds, reading, checking and rendering it succeeds or names a field: it never crashes.

Objects are made field by field: each is right, likely wrong, or any JSON. An object that is right all over is served.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plimsoll.api.checks.pod_policy import PodPolicy, check_pod_policy
from plimsoll.api.conversion.convert import check_without_model, to_request, to_workload_options
from plimsoll.api.gpu_names import check_gpu_names
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.requests.workload import Manifest
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.render.objects import deployment, disruption_budget, service
from tests.api.manifests import manifest
from tests.render.workloads import chosen_pool
from tests.support.planning import model
from tests.support.tables import examples

pytestmark = pytest.mark.lengthy

LONGEST_REFUSAL = 2000
POOL, CHOICE = chosen_pool()
MODEL = model()
UNRESTRICTED = PodPolicy(unrestricted_namespaces=("*",))
ENORMOUS = 10**4999
"""An integer that Python does not write as text."""


def nested(levels: int) -> Any:
    """An object in an object, so many times."""
    node: Any = 1
    for _ in range(levels):
        node = {"a": node}
    return node


NASTY: tuple[Any, ...] = (
        None, True, 0, -1, 2**63, ENORMOUS, 0.5, 1e308, float("nan"),
        "", "lots", "1", "9" * 5000 + "Gi", "1e99", "0", "\0", "a\nb", "\ud800", "x" * 9000, "..", "//", "/cache/",
        "/models/../cache", "a:b", "plimsoll.dev/deployment", "cache", "default",
        [], {}, [None], [[]], [{}], {"": ""}, {"a": None}, {"name": 1}, {"x" * 5000: 1}, nested(100), nested(990),
        {1: 2}, {"name": "a", "value": 1}, {"foo": "bar"}, {"requests": "lots"},
)  # fmt: skip
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, False, "", "x", "1", "cache", "a", "/cache", "1Gi", [], {}])
    | st.integers()
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FULL: dict[str, Any] = {
    "model": {
        "name": "meta-llama/Llama-3.1-8B-Instruct",
        "revision": "main",
        "tokenSecretRef": {"name": "hf-token", "key": "token"},
        "config": {"architectures": ["LlamaForCausalLM"], "rope_scaling": {"factor": 8.0, "type": None}},
        "path": "/models/llama",
        "parameters": 8_030_261_248,
    },
    "contextLength": 8192,
    "concurrency": 16,
    "precision": "auto",
    "kvCache": {"precision": "auto"},
    "expectedTokens": {"prompt": 1000, "output": 200},
    "sizing": "Expected",
    "replicas": 1,
    "gpu": {"allow": ["h100-sxm-80gb"], "deny": ["t4-16gb"], "maxPerReplica": 8, "maxHourlyPrice": "12.50"},
    "engine": {
        "image": "registry.example/vllm:1",
        "version": "0.32.0",
        "extraArgs": ["--seed=1"],
        "gpuMemoryUtilizationPercent": 90,
        "maxBatchedTokens": 4096,
        "enforceEager": True,
        "cpuOffload": "1Gi",
        "lora": {"maxAdapters": 2, "maxRank": 16},
        "speculation": {"method": "Ngram", "tokens": 3},
    },
    "podTemplate": {
        "labels": {"team": "search"},
        "annotations": {"example.com/note": "a b"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
            {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "E", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        ],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}],
        "serviceAccountName": "engine",
        "imagePullSecrets": [{"name": "pull"}],
        "priorityClassName": "high",
        "runtimeClassName": "nvidia",
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
            {"name": "b", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p", "mode": 256}]}},
            {"name": "c", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "x"}]}}], "defaultMode": 292}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": 1}}}}}},
            {"name": "e", "rbd": {"monitors": ["a"], "image": "x"}},
            {"name": "f", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "g", "csi": {"driver": "a.example", "volumeAttributes": {"a": "b"}}},
            {"name": "h", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ],
        "volumeMounts": [
            {"name": "a", "mountPath": "/models", "readOnly": True, "recursiveReadOnly": "IfPossible"},
            {"name": "cache", "mountPath": "/elsewhere", "subPath": "x/y", "mountPropagation": "None"},
        ],
        "modelCache": {"sizeLimit": "200Gi"},
        "resources": {
            "requests": {"cpu": 4, "memory": "32Gi", "example.com/nic": "1"},
            "limits": {"memory": "64Gi", "example.com/nic": 1},
        },
    },
    "overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 1, "memoryPerGpu": "70Gi"},
    "rebalancing": {"mode": "Recommend", "minReplicas": 1, "maxReplicas": 2},
    "suspend": False,
}


def places(node: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an object, outermost first."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path for key, child in inner for path in ((*prefix, key), *places(child, (*prefix, key)))]


PLACES = places(FULL)


def put(spec: dict[str, Any], place: tuple[Any, ...], value: Any) -> None:
    """Replace what is at a place, where the place is still there."""
    node: Any = spec
    for key in place[:-1]:
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(node, dict) or (isinstance(node, list) and isinstance(place[-1], int) and place[-1] < len(node)):
        node[place[-1]] = value


def served(spec: Any, facts: ModelFacts = MODEL) -> list[Manifest]:
    """All steps from the object to the manifests that are applied."""
    body = manifest() | {"spec": spec}
    resource = parse_inference_deployment(body)
    check_without_model(resource.spec)
    check_gpu_names(resource.spec, {"h100-sxm-80gb", "t4-16gb"})
    check_pod_policy(resource.spec, UNRESTRICTED, "ml")
    wanted = to_request(resource, facts)
    assert wanted.replicas == resource.spec.replicas
    options = to_workload_options(resource)
    return [service(options), disruption_budget(options), deployment(options, POOL, CHOICE)]


def check(spec: Any) -> None:
    """It is served, in JSON that an API server can read, or refused in a sentence of bearable length."""
    answer = served_or_refused(spec)
    if isinstance(answer, list):
        json.dumps(answer, allow_nan=False)
        return
    assert 0 < len(str(answer)) < LONGEST_REFUSAL
    if isinstance(answer, InvalidInput):
        assert answer.field
        assert answer.fix


def served_or_refused(spec: Any) -> list[Manifest] | PlimsollError:
    try:
        return served(spec)
    except PlimsollError as refusal:
        return refusal


def test_the_object_that_all_others_are_made_from_is_served() -> None:
    (_, _, workload) = served(FULL)
    pod = workload["spec"]["template"]["spec"]
    given = FULL["podTemplate"]
    engine = pod["containers"][0]
    assert pod["volumes"][-len(given["volumes"]) :] == given["volumes"]
    assert engine["volumeMounts"][-len(given["volumeMounts"]) :] == given["volumeMounts"]
    assert engine["env"][-5:] == given["env"]
    assert engine["envFrom"] == given["envFrom"]
    assert pod["tolerations"][1:] == given["tolerations"]
    assert engine["resources"]["requests"]["memory"] == "32Gi"


@pytest.mark.parametrize("field", FULL)
def test_each_nasty_value_at_each_place_is_refused_or_served(field: str) -> None:
    for place in (place for place in PLACES if place[0] == field):
        for value in NASTY:
            spec = copy.deepcopy(FULL)
            put(spec, place, value)
            check(spec)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), ANYTHING), min_size=1, max_size=4))
def test_several_changes_at_once_are_refused_or_served(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    spec = copy.deepcopy(FULL)
    for place, value in changes:
        put(spec, place, value)
    check(spec)


@settings(max_examples=examples(200), deadline=None)
@given(place=st.sampled_from(PLACES), key=st.text(max_size=8) | st.just("x" * 5000), value=ANYTHING)
def test_a_field_that_does_not_exist_is_refused_or_served(place: tuple[Any, ...], key: str, value: Any) -> None:
    spec = copy.deepcopy(FULL)
    put(spec, (*place, key), value)
    check(spec)


@settings(max_examples=examples(200), deadline=None)
@given(spec=ANYTHING)
@example(spec=None)
@example(spec=[])
def test_anything_as_the_whole_spec_is_refused(spec: Any) -> None:
    with pytest.raises(PlimsollError):
        served(spec)


@pytest.mark.parametrize(
    "value",
    [ENORMOUS, -ENORMOUS, 1e308, float("nan"), nested(100), nested(5000), None, [nested(900)], {"a": {"b": ENORMOUS}}],
    ids=["5,000 digits", "minus 5,000 digits", "1e308", "NaN", "100 deep", "5,000 deep", "null", "list", "inside"],
)
@pytest.mark.parametrize("field", ["hidden_size", "rope_scaling", "architectures", "quantization_config", "vocab_size"])
def test_a_configuration_with_an_absurd_value_is_refused_or_read(field: str, value: Any) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, field: value}
    with pytest.raises(PlimsollError):
        read_model_facts("a/b", config, revision=None, source=FactsSource.INLINE)
