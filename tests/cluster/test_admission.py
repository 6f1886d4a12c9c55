"""A real API server takes the CRD, fills in the models' defaults, and refuses what cannot be meant, in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, Cluster
from plimsoll.api.bounds import MOST_LEVELS
from plimsoll.api.conversion.convert import check_without_model
from plimsoll.api.crd.not_carried import refused_fields
from plimsoll.api.crd.rules import check_rules, with_defaults
from plimsoll.api.crd.schema import root_schema
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.app.review.looking import look
from plimsoll.app.settings import Settings
from plimsoll.app.watch.pruning import inference_deployment, why_reduced
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import API_VERSION, KIND
from testbed.api_client import ApiError, http_text
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established
from testbed.waiting import wait_until
from tests.api.poison import BEYOND_THE_CRD, DIGITS, POISON, refusal
from tests.support.broken_rules import broken_manifests, copied, crd_rules, manifest_with
from tests.support.planes import borrowed_plane
from tests.support.vllm_flags import owned_flag

pytestmark = pytest.mark.cluster

COLLECTION = f"/apis/{API_VERSION}/namespaces/default/inferencedeployments"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferencedeployments.plimsoll.dev"
CRD = Path(__file__).resolve().parents[2] / "crds" / "plimsoll.dev_inferencedeployments.yaml"
MINIMAL: dict[str, Any] = {"model": {"name": "meta-llama/Llama-3.1-8B"}, "contextLength": 8192, "concurrency": 16}
FULL: dict[str, Any] = MINIMAL | {
    "model": {
        "name": "acme/llama",
        "revision": "3f2a",
        "tokenSecretRef": {"name": "hugging-face"},
        "config": {"architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-05},
        "path": "/models/llama",
        "parameters": 8_030_261_248,
    },
    "precision": "fp8",
    "kvCache": {"precision": "fp8"},
    "expectedTokens": {"prompt": 6000, "output": 2192},
    "replicas": 0,
    "gpu": {"allow": ["h100-sxm-80gb"], "deny": ["l4-24gb"], "maxPerReplica": 8, "maxHourlyPrice": "12.50"},
    "engine": {
        "image": "vllm:own",
        "version": "0.31",
        "extraArgs": ["--enable-prefix-caching"],
        "enforceEager": True,
        "speculation": {
            "method": "Draft",
            "tokens": 4,
            "draftModel": {"name": "acme/small", "config": {"rms_norm_eps": 1e-05}, "path": "/models/small"},
        },
    },
    "podTemplate": {
        "labels": {"team": "search"},
        "annotations": {"Example.com/Note": "a b"},
        "nodeSelector": {"disk": "ssd"},
        "env": [
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        ],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s", "optional": True}}],
        "imagePullSecrets": [{"name": "registry"}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
            {"name": "mixed", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "x"}]}}]}},
            {
                "name": "own",
                "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": 1}}}}},
            },
            {"name": "old", "rbd": {"monitors": ["a"], "image": "i", "secretRef": {"name": "s"}}},
        ],
        "volumeMounts": [
            {"name": "models", "mountPath": "/models", "readOnly": True},
            {"name": "cache", "mountPath": "/elsewhere", "subPath": "x"},
        ],
        "modelCache": {"sizeLimit": "200Gi"},
        "resources": {"requests": {"cpu": 4, "memory": "32Gi"}, "limits": {"memory": "64Gi"}},
    },
    "overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 8, "memoryPerGpu": "70.5Gi"},
    "rebalancing": {"mode": "Auto", "maxReplicas": 3, "minReplicas": 3},
    "suspend": True,
}
OWNED_SPELLINGS = (
    "--max-model-len=4096",
    "--max_model_len",
    "--max-model_len=1",
    "--max-mod",
    "--tensor-parallel-size",
    "--tensor_parallel_size=8",
    "--tensor-par",
    "-tp",
    "-tp=8",
    "-pp",
    "-dp=2",
    "-n2",
    "-q",
    "-qfp8",
    "-q=awq",
    "--quantization=fp8",
    "--gpu-memory-utilization=0.99",
    "--gpu_memory_utilization",
    "--gpu-m",
    "--kv-cache-dtype=fp8",
    "--kv_cache_dtype",
    "--dtype",
    "--dtype=a\nb",
    "--DTYPE=half",
    "--no-enforce-eager",
    "--model",
    "--served-model-name",
    "--host=::",
    "--port",
    "--hf-token",
    "--api-key=secret",
    "-sc",
    "-sc.method=ngram",
    '--speculative_config={"method": "ngram"}',
    "--spec-tokens=3",
    "--no-enable-lora",
    "--max-loras=4",
    "--language-model-only",
    "--offload-backend=uva",
)
FREE_ARGUMENTS = (
    "--enable-prefix-caching",
    "--max-num-partial-prefills=2",
    "--model-impl=transformers",
    "--kv-cache-dtype-skip-layers",
    "--port-range",
    "--trust-remote-code",
    "--tokenizer=--model",
    "value",
    "tp",
    "--quantization-param-path=/x",
)
REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "default minimum above the maximum": (
        {"rebalancing": {"maxReplicas": 0}},
        "spec.rebalancing.maxReplicas in body should be greater than or equal to 1",
    ),
    "a head that is not named": (
        {"engine": {"speculation": {"method": "Eagle", "tokens": 3}}},
        "speculation.method Eagle and Draft need speculation.draftModel: name the head or the small model",
    ),
    "a method of drafting that does not exist": (
        {"engine": {"speculation": {"method": "Medusa", "tokens": 3}}},
        "spec.engine.speculation.method",
    ),
    "no load": (
        {"concurrency": None},
        "write exactly one of concurrency (requests of one replica) and totalConcurrency (requests of all replicas)",
    ),
    "a mode in the wrong case": ({"rebalancing": {"mode": "auto"}}, 'supported values: "Off", "Recommend", "Auto"'),
    "a negative context": ({"contextLength": -1}, "spec.contextLength in body should be greater than or equal to 1"),
    "a context in words": ({"contextLength": "8k"}, 'spec.contextLength in body must be of type integer: "string"'),
    "half a token": ({"contextLength": 8192.5}, "spec.contextLength in body must be of type int64"),
    "no concurrency": ({"concurrency": 0}, "spec.concurrency in body should be greater than or equal to 1"),
    "a price with its currency": ({"gpu": {"maxHourlyPrice": "$12"}}, "spec.gpu.maxHourlyPrice in body should match"),
    "a negative price": ({"gpu": {"maxHourlyPrice": "-1"}}, "spec.gpu.maxHourlyPrice in body should match"),
    "a price as a float": ({"gpu": {"maxHourlyPrice": 12.5}}, "spec.gpu.maxHourlyPrice in body must be of type string"),
    "memory without a unit": (
        {"overrides": {"memoryPerGpu": "70"}},
        "spec.overrides.memoryPerGpu in body should match",
    ),
    "no memory at all": (
        {"overrides": {"memoryPerGpu": "0.0Gi"}},
        "overrides.memoryPerGpu must be more than 0",
    ),
    "an unknown precision": (
        {"precision": "fp5"},
        'spec.precision: Unsupported value: "fp5": supported values: "auto"',
    ),
    "an unknown cache precision": ({"kvCache": {"precision": "int2"}}, "spec.kvCache.precision: Unsupported value"),
    "all of a GPU's memory": (
        {"engine": {"gpuMemoryUtilizationPercent": 100}},
        "spec.engine.gpuMemoryUtilizationPercent in body should be less than or equal to 98",
    ),
    "a model id with three parts": ({"model": {"name": "a/b/c"}}, "spec.model.name in body should match"),
    "a model without a name": ({"model": {}}, "spec.model.name: Required value"),
    "weights at a relative path": ({"model": {"name": "m", "path": "models"}}, "spec.model.path in body should match"),
    "a misspelt field": ({"contextLenght": 1}, 'unknown field "spec.contextLenght"'),
}
BAD_NAMES = {
    "llama.8b": "metadata.name becomes a Service name: use lower-case letters, digits and dashes",
    "8b-llama": "metadata.name becomes a Service name: use lower-case letters, digits and dashes",
    "l" * 53: "metadata.name becomes a Service name: use at most 52 characters",
    "Llama": "metadata.name: Invalid value",
}


TEXTS_AND_NUMBERS: dict[str, dict[str, Any]] = {
    "spec.engine.cpuOffload": {"engine": {"cpuOffload": f"{DIGITS}Gi"}},
    "spec.overrides.memoryPerGpu": {"overrides": {"memoryPerGpu": f"{DIGITS}Gi"}},
    "spec.gpu.maxHourlyPrice": {"gpu": {"maxHourlyPrice": DIGITS}},
    "spec.engine.image": {"engine": {"image": "a b"}},
    "spec.model.config": {"model": {"name": "m", "config": {f"k{index}": 0 for index in range(1025)}}},
    "spec.model.tokenSecretRef.name": {"model": {"name": "m", "tokenSecretRef": {"name": "A_B"}}},
}
"""Values out of bounds, by the field."""

GOOD: dict[str, dict[str, Any]] = {
    "minimal": MINIMAL,
    "full": FULL,
    "explicit nulls": MINIMAL | {"gpu": None, "overrides": None},
    "empty objects": MINIMAL | {"rebalancing": {}},
    "resources that are null": MINIMAL | {"podTemplate": {"resources": None}},
    "no resources": MINIMAL | {"podTemplate": {"resources": {}}},
    "requests that are null": MINIMAL | {"podTemplate": {"resources": {"requests": None}}},
    "arguments of others": MINIMAL | {"engine": {"image": "vllm:own", "extraArgs": list(FREE_ARGUMENTS)}},
}

Body = dict[str, Any]


@cache
def written_crd() -> Body:
    """The CRD as we hand it out; change nothing."""
    crd: Body = yaml.safe_load(CRD.read_text())
    return crd


def manifest(spec: Mapping[str, Any], name: str = "llama") -> Body:
    head = {"name": name, "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": head, "spec": dict(spec)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with borrowed_plane() as control_plane:
        control_plane.apply([written_crd()])
        wait_until_established(control_plane.kubectl, "inferencedeployments.plimsoll.dev")
        yield control_plane


def words_of(refused: Callable[[], Any]) -> str:
    """The API server's words where it refuses something; empty where it takes it."""
    try:
        refused()
    except ApiError as error:
        return str(json.loads(str(error).partition(": ")[2])["message"])
    return ""


def table(wrong: Mapping[Any, Any]) -> str:
    """Every row that is wrong, with what was said."""
    return "".join(f"\n{case}: {said}" for case, said in wrong.items())


def tried(cluster: ControlPlane, body: Body, validation: str = "Strict") -> Body:
    """Ask as kubectl does, without keeping the object; what the API server would store."""
    stored: Body = cluster.client.send("POST", f"{COLLECTION}?dryRun=All&fieldValidation={validation}", body)
    return stored


def refused(cluster: ControlPlane, spec: Mapping[str, Any], name: str = "llama") -> str:
    return words_of(lambda: tried(cluster, manifest(spec, name)))


def refused_by_plan(body: Body) -> InvalidInput | None:
    """What ``plimsoll plan`` says without an API server."""
    try:
        parse_inference_deployment(body)
        check_rules(body)
    except InvalidInput as error:
        return error
    return None


def test_a_bad_spec_and_a_bad_name_are_refused_with_a_reason_and_by_plan_for_the_same_field(
    cluster: ControlPlane,
) -> None:
    rows = {case: (manifest(MINIMAL | change), message) for case, (change, message) in REFUSALS.items()}
    rows |= {name: (manifest(MINIMAL, name), message) for name, message in BAD_NAMES.items()}
    wrong = {}
    for case, (body, message) in rows.items():
        theirs, ours = words_of(partial(tried, cluster, body)), refused_by_plan(body)
        if message not in theirs or ours is None or ours.field not in theirs:
            wrong[case] = theirs, ours
    assert not wrong, table(wrong)


def test_every_rule_says_the_same_on_the_api_server_and_in_plan(cluster: ControlPlane) -> None:
    rules = {message for _, message in crd_rules()}
    wrong = {}
    for part, body in broken_manifests("default"):
        theirs, ours = words_of(partial(tried, cluster, body)), refused_by_plan(body)
        if not [rule for rule in rules if part in rule and rule in theirs and rule in str(ours)]:
            wrong[part, body["metadata"]["name"]] = theirs, ours
    assert not wrong, table(wrong)


def test_a_field_that_does_not_exist_is_refused_by_name_whatever_validation_a_client_asks_for(
    cluster: ControlPlane,
) -> None:
    """Many clients ask for none, and without a rule the API server would drop the field without a word."""
    fields = dict(refused_fields(root_schema()))
    wrong = {}
    for validation in ("Ignore", "Strict"):
        for path, node in fields.items():
            body = manifest_with(path, copied(node))
            theirs, ours = words_of(partial(tried, cluster, body, validation)), refused_by_plan(body)
            said, field = node["x-kubernetes-validations"][0]["message"], path.replace("[]", "[0]")
            if f"{field}: Invalid value" not in theirs or said not in theirs or ours is None or said not in ours.fix:
                wrong[path, validation] = theirs, ours
    assert len(fields) > 150
    assert not wrong, table(wrong)
    neighbour = manifest_with("spec.podTemplate", {"nodeSelector": {"zone": "a"}, "affinity": None})
    assert tried(cluster, neighbour)["spec"]["podTemplate"] == {"nodeSelector": {"zone": "a"}}
    assert refused_by_plan(neighbour) is None


def test_what_would_break_the_pods_is_refused_by_the_fields_name(cluster: ControlPlane) -> None:
    wrong = {}
    for case, (template, message, field) in POISON.items():
        theirs, ours = refused(cluster, MINIMAL | {"podTemplate": template}), refusal(podTemplate=template).field
        if message not in theirs or ours != f"spec.podTemplate.{field}":
            wrong[case] = theirs, ours
    assert not wrong, table(wrong)


def test_what_a_crd_cannot_say_is_refused_by_the_operator(cluster: ControlPlane) -> None:
    wrong = {}
    for case, (template, field) in BEYOND_THE_CRD.items():
        theirs, ours = refused(cluster, MINIMAL | {"podTemplate": template}), refusal(podTemplate=template).field
        if theirs or ours != f"spec.podTemplate.{field}":
            wrong[case] = theirs, ours
    assert not wrong, table(wrong)


def test_texts_and_numbers_are_bounded(cluster: ControlPlane) -> None:
    rows = [*TEXTS_AND_NUMBERS.items(), ("spec.model.config", {"model": {"name": "m", "config": []}})]
    wrong = {}
    for field, change in rows:
        theirs, ours = refused(cluster, MINIMAL | change), refusal(**change).field
        if field not in theirs or ours != field:
            wrong[field] = theirs, ours
    assert not wrong, table(wrong)


DEEP = 5000
"""Levels: an API server reads 10,000, Python's reader about 1,000."""


NESTED = ('{"a":' * DEEP + "1" + "}" * DEEP, '{"a":' + "[" * DEEP + "1" + "]" * DEEP + "}")
PLACES = (
    '"model": {{"name": "a/b", "config": {}}}',
    '"model": {{"name": "a/b"}}, "podTemplate": {{"volumes": [{{"name": "a", "rbd": {}}}]}}',
    '"model": {{"name": "a/b"}}, "podTemplate": {{"volumes": [{{"name": "a", "projected": {{"sources": [{}]}}}}]}}',
)


async def test_an_object_as_deep_as_it_can_be_stored_hides_no_other_one(cluster: ControlPlane) -> None:
    """One object that cannot be read would keep everybody from listing all the others."""
    url, names = cluster.server + COLLECTION, list[str]()
    for place in PLACES:
        for nested in NESTED:
            names.append(f"deep-{len(names)}")
            head = f'"apiVersion": "{API_VERSION}", "kind": "{KIND}", "metadata": {{"name": "{names[-1]}"}}'
            body = f'{{{head}, "spec": {{{place.format(nested)}, "contextLength": 1, "concurrency": 1}}}}'
            http_text(url, tls=cluster.client.tls, method="POST", body=body, content_type="application/json")
    cluster.client.send("POST", COLLECTION, manifest(MINIMAL) | {"metadata": {"name": "shallow"}})
    try:
        async with Cluster(str(cluster.admin_kubeconfig)) as client:
            seen = await look(client, Settings(watch_namespaces=("default",), fleet_file=None))
        found = {body["metadata"]["name"]: body for body in seen.picture.all(INFERENCE_DEPLOYMENTS)}
        assert found.keys() >= {*names, "shallow"}
        assert {name for name, body in found.items() if "spec" not in body} == set(names)
        assert all((reason := why_reduced(found[name])) and reason.size.levels > MOST_LEVELS for name in names)
    finally:
        for name in (*names, "shallow"):
            cluster.client.send("DELETE", f"{COLLECTION}/{name}")


def test_a_configuration_keeps_its_nulls_lists_and_numbers(cluster: ControlPlane) -> None:
    config = {"rope_scaling": None, "a": [None, {"b": [[1, 2.5, "x", True]]}], "c": {"d": {"e": {"f": {"g": 1e-05}}}}}
    stored = tried(cluster, manifest(MINIMAL | {"model": {"name": "a/b", "config": config}}))
    assert stored["spec"]["model"]["config"] == config


def test_what_an_older_crd_let_through_is_named_and_leaves_its_neighbour_alone(cluster: ControlPlane) -> None:
    """An upgrade finds objects that would be refused today. They can be read, and their status can be written."""
    older = deepcopy(written_crd())
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["podTemplate"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    bad = {
        "env": [{"foo": "bar"}],
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}],
        "labels": {"team": "a b"},
    }
    cases = [MINIMAL | {"podTemplate": {name: value}} for name, value in bad.items()]
    replace_crd(cluster, older)
    wait_until(lambda: not any(refused(cluster, case) for case in cases), 60, "the older CRD is served")
    cluster.apply([manifest(case, f"old-{index}") for index, case in enumerate(cases)])
    cluster.apply([manifest(MINIMAL, "honest")])
    replace_crd(cluster, written_crd())
    wait_until(lambda: "podTemplate.labels" in refused(cluster, cases[2]), 60, "the CRD of today is served")

    bodies = {body["metadata"]["name"]: body for body in cluster.client.get(COLLECTION)["items"]}
    for index, field in enumerate(("env[0].name", "volumes[1].name", "labels.team")):
        assert refusal(**bodies[f"old-{index}"]["spec"]).field == f"spec.podTemplate.{field}"
        cluster.client.merge_patch(f"{COLLECTION}/old-{index}/status", {"status": {"observedGeneration": 1}})
    check_without_model(parse_inference_deployment(bodies["honest"]).spec)


def replace_crd(cluster: ControlPlane, crd: Body) -> None:
    version = cluster.client.get(CRD_PATH)["metadata"]["resourceVersion"]
    cluster.client.send("PUT", CRD_PATH, crd | {"metadata": crd["metadata"] | {"resourceVersion": version}})


def test_an_owned_flag_is_refused_however_it_is_spelt_and_every_other_argument_is_taken(cluster: ControlPlane) -> None:
    wrong = {}
    for argument in OWNED_SPELLINGS:
        theirs = refused(cluster, MINIMAL | {"engine": {"extraArgs": ["--enable-prefix-caching", argument]}})
        if "extraArgs holds a flag that the operator owns" not in theirs or owned_flag(argument) is None:
            wrong[argument] = theirs
    assert not wrong, table(wrong)
    assert [argument for argument in FREE_ARGUMENTS if owned_flag(argument)] == []


def test_a_good_spec_is_taken_and_python_fills_in_the_same_defaults(cluster: ControlPlane) -> None:
    stored = {name: tried(cluster, manifest(spec))["spec"] for name, spec in GOOD.items()}
    for name, spec in GOOD.items():
        assert refused_by_plan(manifest(spec)) is None, name
        check_without_model(parse_inference_deployment(manifest(spec)).spec)
    for name in ("minimal", "full"):
        parsed = InferenceDeploymentSpec.model_validate(GOOD[name])
        assert stored[name] == parsed.model_dump(mode="json", by_alias=True, exclude_none=True)
    more = {"rebalancing": {"mode": "Off"}, "podTemplate": {"env": [{"name": "A"}]}}
    assert tried(cluster, manifest(MINIMAL | more))["spec"] == with_defaults(manifest(MINIMAL | more))["spec"]
    assert refused(cluster, MINIMAL, "l" * 52) == "", "the longest name"


def test_the_api_server_keeps_the_crd_as_it_was_written(cluster: ControlPlane) -> None:
    """Otherwise GitOps tools would see a difference for ever."""
    kept = cluster.client.get(CRD_PATH)
    written = written_crd()
    assert kept["spec"]["versions"] == written["spec"]["versions"]
    assert kept["spec"]["names"] == written["spec"]["names"]


def test_kubectl_explains_the_spec(cluster: ControlPlane) -> None:
    assert "infd" in cluster.kubectl("api-resources", "--api-group=plimsoll.dev")  # it learns of new kinds here
    told = cluster.kubectl("explain", "infd.spec", "--recursive")
    assert "contextLength" in told
    assert "gpuMemoryUtilizationPercent" in told
    assert "Longest request in tokens" in cluster.kubectl("explain", "infd.spec.contextLength")
    copied_field = cluster.kubectl("explain", "infd.spec.podTemplate.nodeName")
    assert "Not carried: the planner chooses the nodes; use podTemplate.nodeSelector" in " ".join(copied_field.split())


def test_kubectl_shows_waits_for_and_scales_a_deployment(cluster: ControlPlane) -> None:
    cluster.apply([manifest(MINIMAL, "shown")])
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "replicasSummary": "1/1",
        "selector": "app=shown",
        "placement": {
            "gpuType": "h100-sxm-80gb",
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "tensorParallel": 2,
            "pipelineParallel": 1,
            "gpusPerReplica": 2,
            "hourlyPrice": "5.90",
            "engine": {
                "maxModelLen": 8192,
                "maxNumSeqs": 16,
                "maxNumBatchedTokens": 2048,
                "gpuMemoryUtilizationPercent": 92,
                "dtype": "bfloat16",
                "kvCacheDtype": "auto",
                "enforceEager": False,
                "version": "0.32.0",
            },
        },
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Serving",
                "message": "1 of 1 replica serves",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    cluster.client.merge_patch(f"{COLLECTION}/shown/status", {"status": status})

    cluster.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "infd/shown")
    header, row = cluster.kubectl("get", "infd", "shown", "-o", "wide").splitlines()
    assert header.split("  ")[0] == "NAME"
    for shown in ("True", "Serving", "meta-llama/Llama-3.1-8B", "h100-sxm-80gb", "2", "1/1", "8192", "16", "5.90"):
        assert shown in row.split()
    assert "shown" in cluster.kubectl("get", "inference")

    cluster.kubectl("scale", "infd", "shown", "--replicas=3")
    scale = cluster.client.get(f"{COLLECTION}/shown/scale")
    assert scale["spec"]["replicas"] == 3
    assert scale["status"] == {"replicas": 1, "selector": "app=shown"}


def test_a_status_with_a_bad_condition_is_refused(cluster: ControlPlane) -> None:
    cluster.apply([manifest(MINIMAL, "unwell")])
    bad = {"status": {"conditions": [{"type": "Ready", "status": "Maybe", "reason": ""}]}}
    said = words_of(lambda: cluster.client.merge_patch(f"{COLLECTION}/unwell/status", bad))
    assert "status.conditions[0].status" in said
    assert "status.conditions[0].reason" in said
    assert "status.conditions[0].lastTransitionTime: Required value" in said


def test_an_object_that_no_operator_has_seen_is_not_current(cluster: ControlPlane) -> None:
    """By kstatus an object without conditions is current, and Flux would call its roll-out done."""
    cluster.apply([manifest(MINIMAL, "unseen")])
    body = cluster.client.get(f"{COLLECTION}/unseen")
    found = {each["type"]: (each["status"], each["reason"]) for each in body["status"]["conditions"]}
    assert found == {"Ready": ("Unknown", "Pending"), "Reconciling": ("True", "Pending")}
    assert "Pending" in cluster.kubectl("get", "infd", "unseen")
    kept = inference_deployment(body)
    assert "status" not in kept, "nothing was decided"
    said = {"status": {"observedGeneration": 1, "conditions": [{**body["status"]["conditions"][0], "status": "True"}]}}
    cluster.client.merge_patch(f"{COLLECTION}/unseen/status", said)
    [ready] = cluster.client.get(f"{COLLECTION}/unseen")["status"]["conditions"]
    assert ready["status"] == "True", "what the operator writes replaces it"
