"""A real API server takes the CRD, fills in the models' defaults, and refuses what cannot be meant, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.api.convert import check_without_model
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.domain.names import API_VERSION, KIND
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established
from testbed.waiting import wait_until
from tests.api.poison import BEYOND_THE_CRD, DIGITS, POISON, refusal
from tests.support.vllm_flags import owned_flag

pytestmark = pytest.mark.cluster

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
    "fp8 permitted for a cache whose precision is fixed": (
        {"kvCache": {"precision": "bf16", "allowFp8": True}},
        "kvCache.allowFp8 leaves the choice to auto: set kvCache.precision to auto, or remove allowFp8",
    ),
    "one GPU type allowed and denied": (
        {"gpu": {"allow": ["h100-sxm-80gb", "l4-24gb"], "deny": ["l4-24gb"]}},
        "gpu.allow and gpu.deny name the same GPU type: remove it from one of them",
    ),
    "more replicas at least than at most": (
        {"rebalancing": {"minReplicas": 4, "maxReplicas": 3}},
        "rebalancing.minReplicas must not exceed rebalancing.maxReplicas",
    ),
    "default minimum above the maximum": (
        {"rebalancing": {"maxReplicas": 0}},
        "spec.rebalancing.maxReplicas in body should be greater than or equal to 1",
    ),
    "a head that is not named": (
        {"engine": {"speculation": {"method": "Eagle", "tokens": 3}}},
        "speculation.method Eagle and Draft need speculation.draftModel: name the head or the small model",
    ),
    "a draft model for a method without one": (
        {"engine": {"speculation": {"method": "Ngram", "tokens": 3, "draftModel": {"name": "acme/small"}}}},
        "speculation.draftModel is for the methods Eagle and Draft: remove it, or change the method",
    ),
    "neither images nor videos": (
        {"engine": {"multimodal": {"imagesPerPrompt": 0, "videosPerPrompt": 0}}},
        "engine.multimodal takes neither images nor videos: write engine.textOnly instead",
    ),
    "images for text alone": (
        {"engine": {"textOnly": True, "multimodal": {"imagesPerPrompt": 1}}},
        "engine.textOnly leaves the tower out, which engine.multimodal is about: remove one of them",
    ),
    "a method of drafting that does not exist": (
        {"engine": {"speculation": {"method": "Medusa", "tokens": 3}}},
        "spec.engine.speculation.method",
    ),
    "the load of one replica and that of all": (
        {"totalConcurrency": 100},
        "write exactly one of concurrency (requests of one replica) and totalConcurrency (requests of all replicas)",
    ),
    "no load": (
        {"concurrency": None},
        "write exactly one of concurrency (requests of one replica) and totalConcurrency (requests of all replicas)",
    ),
    "replicas where the planner chooses them": (
        {"concurrency": None, "totalConcurrency": 100, "replicas": 3},
        "totalConcurrency lets the planner choose the number of replicas: remove replicas, or write minReplicas",
    ),
    "the fewest replicas next to declared ones": (
        {"minReplicas": 2},
        "minReplicas belongs to totalConcurrency: with concurrency write replicas",
    ),
    "more replicas than requests": (
        {"concurrency": None, "totalConcurrency": 4, "minReplicas": 5},
        "minReplicas exceeds totalConcurrency: lower it, or raise totalConcurrency",
    ),
    "fewer requests at the same time than declared": (
        {"engine": {"maxSequences": 15}},
        "engine.maxSequences is less than concurrency: raise it, lower concurrency, or remove it",
    ),
    "Auto without a bound": (
        {"rebalancing": {"mode": "Auto"}},
        "rebalancing.mode Auto needs rebalancing.maxReplicas",
    ),
    "a mode in the wrong case": ({"rebalancing": {"mode": "auto"}}, 'supported values: "Off", "Recommend", "Auto"'),
    "expected requests longer than the context": (
        {"expectedTokens": {"prompt": 8000, "output": 193}},
        "expectedTokens.prompt + expectedTokens.output must not exceed contextLength",
    ),
    "a negative context": ({"contextLength": -1}, "spec.contextLength in body should be greater than or equal to 1"),
    "a context in words": ({"contextLength": "8k"}, 'spec.contextLength in body must be of type integer: "string"'),
    "half a token": ({"contextLength": 8192.5}, "spec.contextLength in body must be of type int64"),
    "no concurrency": ({"concurrency": 0}, "spec.concurrency in body should be greater than or equal to 1"),
    "a price with its currency": ({"gpu": {"maxHourlyPrice": "$12"}}, "spec.gpu.maxHourlyPrice in body should match"),
    "a negative price": ({"gpu": {"maxHourlyPrice": "-1"}}, "spec.gpu.maxHourlyPrice in body should match"),
    "a price as a float": ({"gpu": {"maxHourlyPrice": 12.5}}, "spec.gpu.maxHourlyPrice in body must be of type string"),
    "an override beyond the bound": (
        {"gpu": {"maxPerReplica": 4}, "overrides": {"tensorParallel": 8}},
        "overrides.tensorParallel exceeds gpu.maxPerReplica: raise one or lower the other",
    ),
    "an override that is denied": (
        {"gpu": {"deny": ["l4-24gb"]}, "overrides": {"gpuType": "l4-24gb"}},
        "overrides.gpuType is in gpu.deny",
    ),
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
    "two kinds of cache": (
        {"podTemplate": {"modelCache": {"claimName": "weights", "sizeLimit": "1Gi"}}},
        "modelCache: claimName and sizeLimit exclude each other",
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


def manifest(spec: dict[str, Any], name: str = "llama") -> str:
    return json.dumps({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        control_plane.kubectl("create", "-f", str(CRD))
        wait_until_established(control_plane.kubectl, "inferencedeployments.plimsoll.dev")
        yield control_plane


def answer(cluster: ControlPlane, spec: dict[str, Any], name: str = "llama") -> str:
    """What the API server says to this object, without keeping it."""
    return cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=manifest(spec, name), check=False)


@pytest.mark.parametrize("case", REFUSALS)
def test_a_bad_spec_is_refused_with_a_reason(cluster: ControlPlane, case: str) -> None:
    change, message = REFUSALS[case]
    said = answer(cluster, MINIMAL | change)
    assert message in said
    assert "created" not in said


@pytest.mark.parametrize("case", POISON)
def test_what_would_break_the_pods_is_refused_by_the_fields_name(cluster: ControlPlane, case: str) -> None:
    template, message, field = POISON[case]
    said = answer(cluster, MINIMAL | {"podTemplate": template})
    assert message in said
    assert "created" not in said
    assert refusal(podTemplate=template).field == f"spec.podTemplate.{field}"


@pytest.mark.parametrize("case", BEYOND_THE_CRD)
def test_what_a_crd_cannot_say_is_refused_by_the_operator(cluster: ControlPlane, case: str) -> None:
    template, field = BEYOND_THE_CRD[case]
    assert "created" in answer(cluster, MINIMAL | {"podTemplate": template})
    assert refusal(podTemplate=template).field == f"spec.podTemplate.{field}"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"engine": {"cpuOffload": f"{DIGITS}Gi"}}, "spec.engine.cpuOffload"),
        ({"overrides": {"memoryPerGpu": f"{DIGITS}Gi"}}, "spec.overrides.memoryPerGpu"),
        ({"gpu": {"maxHourlyPrice": DIGITS}}, "spec.gpu.maxHourlyPrice"),
        ({"engine": {"image": "a b"}}, "spec.engine.image"),
        ({"model": {"name": "m", "config": []}}, "spec.model.config"),
        ({"model": {"name": "m", "config": {f"k{index}": 0 for index in range(1025)}}}, "spec.model.config"),
        ({"model": {"name": "m", "tokenSecretRef": {"name": "A_B"}}}, "spec.model.tokenSecretRef.name"),
    ],
)
def test_texts_and_numbers_are_bounded(cluster: ControlPlane, change: dict[str, Any], field: str) -> None:
    said = answer(cluster, MINIMAL | change)
    assert field in said
    assert "created" not in said
    assert refusal(**change).field == field


@pytest.mark.parametrize("nothing", [None, {}, {"requests": None}])
def test_no_resources_are_no_harm(cluster: ControlPlane, nothing: Any) -> None:
    spec = MINIMAL | {"podTemplate": {"resources": nothing}}
    assert "created" in answer(cluster, spec)
    check_without_model(parse_inference_deployment(json.loads(manifest(spec))).spec)


DEEP = 5000
"""Levels: an API server reads 10,000, Python's reader about 1,000."""


@pytest.mark.parametrize(
    "config",
    ['{"a":' * DEEP + "1" + "}" * DEEP, '{"a":' + "[" * DEEP + "1" + "]" * DEEP + "}"],
    ids=["objects", "lists"],
)
@pytest.mark.parametrize(
    "place",
    [
        '"model": {{"name": "a/b", "config": {}}}',
        '"model": {{"name": "a/b"}}, "podTemplate": {{"volumes": [{{"name": "a", "rbd": {}}}]}}',
        '"model": {{"name": "a/b"}}, "podTemplate": {{"volumes": [{{"name": "a", "projected": {{"sources": [{}]}}}}]}}',
    ],
    ids=["model", "volume", "projection"],
)
def test_what_python_could_not_read_is_never_stored(cluster: ControlPlane, place: str, config: str) -> None:
    """One object that cannot be read would keep the operator from listing all the others."""
    spec = f'{place.format(config)}, "contextLength": 1, "concurrency": 1'
    body = f'{{"apiVersion": "{API_VERSION}", "kind": "{KIND}", "metadata": {{"name": "deep"}}, "spec": {{{spec}}}}}'
    path = f"/apis/{API_VERSION}/namespaces/default/inferencedeployments"
    said = cluster.kubectl("create", "--raw", path, "-f", "-", stdin=body, check=False)
    assert "must have at most 0 items" in said
    assert "created" in answer(cluster, MINIMAL)
    assert isinstance(json.loads(cluster.kubectl("get", "--raw", path)), dict)


def test_a_configuration_keeps_its_nulls_lists_and_numbers(cluster: ControlPlane) -> None:
    config = {"rope_scaling": None, "a": [None, {"b": [[1, 2.5, "x", True]]}], "c": {"d": {"e": {"f": {"g": 1e-05}}}}}
    spec = MINIMAL | {"model": {"name": "a/b", "config": config}}
    told = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=manifest(spec))
    assert json.loads(told)["spec"]["model"]["config"] == config


def test_what_an_older_crd_let_through_is_named_and_leaves_its_neighbour_alone(cluster: ControlPlane) -> None:
    """An upgrade finds objects that would be refused today. They can be read, and their status can be written."""
    crd = yaml.safe_load(CRD.read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["podTemplate"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    cluster.kubectl("replace", "-f", "-", stdin=json.dumps(crd))
    bad = {
        "env": [{"foo": "bar"}],
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}],
        "labels": {"team": "a b"},
    }
    cases = [{"podTemplate": {name: value}} for name, value in bad.items()]

    def stored() -> bool:
        said = [
            cluster.kubectl("apply", "-f", "-", stdin=manifest(MINIMAL | case, f"old-{index}"), check=False)
            for index, case in enumerate(cases)
        ]
        return all("created" in each or "unchanged" in each for each in said)

    wait_until(stored, 30, "the older CRD is served")
    cluster.kubectl("apply", "-f", "-", stdin=manifest(MINIMAL, "honest"))
    cluster.kubectl("replace", "-f", str(CRD))
    wait_until(lambda: "created" not in answer(cluster, MINIMAL | cases[2], "new"), 30, "the CRD of today is served")

    listed = json.loads(cluster.kubectl("get", "infd", "-o", "json"))["items"]
    bodies = {body["metadata"]["name"]: body for body in listed}
    for index, field in enumerate(("env[0].name", "volumes[1].name", "labels.team")):
        assert refusal(**bodies[f"old-{index}"]["spec"]).field == f"spec.podTemplate.{field}"
        patch = json.dumps({"status": {"observedGeneration": 1}})
        said = cluster.kubectl("patch", "infd", f"old-{index}", "--subresource=status", "--type=merge", "-p", patch)
        assert "patched" in said
    check_without_model(parse_inference_deployment(bodies["honest"]).spec)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused_with_a_reason(cluster: ControlPlane, name: str) -> None:
    assert BAD_NAMES[name] in answer(cluster, MINIMAL, name)


@pytest.mark.parametrize("argument", OWNED_SPELLINGS)
def test_an_owned_flag_is_refused_however_it_is_spelt(cluster: ControlPlane, argument: str) -> None:
    assert owned_flag(argument) is not None
    said = answer(cluster, MINIMAL | {"engine": {"extraArgs": ["--enable-prefix-caching", argument]}})
    assert "extraArgs holds a flag that the operator owns" in said


def test_every_other_argument_is_taken(cluster: ControlPlane) -> None:
    assert [argument for argument in FREE_ARGUMENTS if owned_flag(argument)] == []
    assert "created" in answer(cluster, MINIMAL | {"engine": {"extraArgs": list(FREE_ARGUMENTS)}})


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        pytest.param(MINIMAL, "llama", id="minimal"),
        pytest.param(FULL, "llama", id="full"),
        pytest.param(MINIMAL, "l" * 52, id="longest name"),
        pytest.param(MINIMAL | {"gpu": None, "overrides": None}, "llama", id="explicit nulls"),
        pytest.param(MINIMAL | {"rebalancing": {}}, "llama", id="empty objects"),
    ],
)
def test_a_good_spec_is_taken(cluster: ControlPlane, spec: dict[str, Any], name: str) -> None:
    assert "created" in answer(cluster, spec, name)


@pytest.mark.parametrize("spec", [MINIMAL, FULL], ids=["minimal", "full"])
def test_the_api_server_and_python_fill_in_the_same_defaults(cluster: ControlPlane, spec: dict[str, Any]) -> None:
    told = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=manifest(spec))
    parsed = InferenceDeploymentSpec.model_validate(spec)
    assert json.loads(told)["spec"] == parsed.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_the_api_server_keeps_the_crd_as_it_was_written(cluster: ControlPlane) -> None:
    """Otherwise GitOps tools would see a difference for ever."""
    kept = yaml.safe_load(
        cluster.kubectl("get", "crd", "inferencedeployments.plimsoll.dev", "-o", "yaml", "--show-managed-fields=false")
    )
    written = yaml.safe_load(CRD.read_text())
    assert kept["spec"]["versions"] == written["spec"]["versions"]
    assert kept["spec"]["names"] == written["spec"]["names"]


def test_kubectl_explains_the_spec(cluster: ControlPlane) -> None:
    told = cluster.kubectl("explain", "infd.spec", "--recursive")
    assert "contextLength" in told
    assert "gpuMemoryUtilizationPercent" in told
    assert "Longest request in tokens" in cluster.kubectl("explain", "infd.spec.contextLength")


def test_kubectl_shows_waits_for_and_scales_a_deployment(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=manifest(MINIMAL, "shown"))
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
                "message": "1 of 1 replicas serve",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "infd", "shown", "--subresource=status", "--type=merge", "--patch", patch)

    cluster.kubectl("wait", "--for=condition=Ready", "--timeout=10s", "infd/shown")
    header, row = cluster.kubectl("get", "infd", "shown", "-o", "wide").splitlines()
    assert header.split("  ")[0] == "NAME"
    for shown in ("True", "Serving", "meta-llama/Llama-3.1-8B", "h100-sxm-80gb", "2", "1/1", "8192", "16", "5.90"):
        assert shown in row.split()
    assert "shown" in cluster.kubectl("get", "inference")

    cluster.kubectl("scale", "infd", "shown", "--replicas=3")
    scale = cluster.client.get("/apis/plimsoll.dev/v1alpha1/namespaces/default/inferencedeployments/shown/scale")
    assert scale["spec"]["replicas"] == 3
    assert scale["status"] == {"replicas": 1, "selector": "app=shown"}


def test_a_status_with_a_bad_condition_is_refused(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=manifest(MINIMAL, "unwell"))
    patch = json.dumps({"status": {"conditions": [{"type": "Ready", "status": "Maybe", "reason": ""}]}})
    said = cluster.kubectl(
        "patch", "infd", "unwell", "--subresource=status", "--type=merge", "--patch", patch, check=False
    )
    assert "status.conditions[0].status" in said
    assert "status.conditions[0].reason" in said
    assert "status.conditions[0].lastTransitionTime: Required value" in said
