"""Objects of a tenant who means harm, or types without looking; and what must have become of each."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from tests.support.installed import CRD, GROUP, View, condition, inference_deployment

_FIVE_THOUSAND = "9" * 5000
NOT_YET = {"", "Pending"}
_EXPLAINED_SECONDS = 60.0


def _pod(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": fields}


def _deep(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"end": True}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


_EMPTY = {"name": "twice", "emptyDir": {}}
_CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096}

POISONED_SPECS: Mapping[str, Mapping[str, Any]] = {
    "env-without-a-name": _pod(env=[{"foo": "bar"}]),
    "env-of-numbers": _pod(env=[{"name": "A", "value": 1}]),
    "env-name-is-a-list": _pod(env=[{"name": ["A"], "value": "x"}]),
    "env-twice": _pod(env=[{"name": "A", "value": "x"}, {"name": "A", "valueFrom": {"nobody": 1}}]),
    "requests-are-a-word": _pod(resources={"requests": "lots"}),
    "requests-are-null": _pod(resources={"requests": None, "limits": None}),
    "requests-are-a-list": _pod(resources={"requests": [1], "limits": [2]}),
    "quantity-is-a-word": _pod(resources={"requests": {"cpu": "lots"}}),
    "quantity-is-null": _pod(resources={"requests": {"cpu": None, "memory": None}}),
    "quantity-is-endless": _pod(resources={"requests": {"memory": _FIVE_THOUSAND}}),
    "memory-limit-below-request": _pod(resources={"requests": {"memory": "8Gi"}, "limits": {"memory": "1Gi"}}),
    "gpus-in-resources": _pod(resources={"limits": {"nvidia.com/gpu": "64"}}),
    "more-cpu-than-any-node": _pod(resources={"requests": {"cpu": "900"}}),
    "more-memory-than-any-node": _pod(resources={"requests": {"memory": "900Ti"}}),
    "offload-of-5000-digits": {"engine": {"cpuOffload": _FIVE_THOUSAND + "Gi"}},
    "offload-of-5000-decimals": {"engine": {"cpuOffload": f"0.{_FIVE_THOUSAND}Gi"}},
    "cache-of-5000-digits": _pod(modelCache={"sizeLimit": _FIVE_THOUSAND + "Gi"}),
    "cache-without-a-claim": _pod(modelCache={"claimName": "nobody-made-it"}),
    "need-without-end": {"overrides": {"memoryPerGpu": "9" * 30 + "Gi"}},
    "mount-without-a-volume": _pod(volumeMounts=[{"name": "nowhere", "mountPath": "/x"}]),
    "mount-without-a-name": _pod(volumeMounts=[{"mountPath": "/x"}]),
    "mount-on-ours": _pod(volumes=[_EMPTY], volumeMounts=[{"name": "twice", "mountPath": "/dev/shm"}]),  # noqa: S108
    "volume-twice": _pod(volumes=[_EMPTY, _EMPTY]),
    "volume-of-two-kinds": _pod(volumes=[_EMPTY | {"hostPath": {"path": "/"}}]),
    "volume-is-a-number": _pod(volumes=[{"name": 7, "emptyDir": 8}]),
    "labels-with-blanks": _pod(labels={"a b": "c d"}),
    "labels-of-ours": _pod(labels={"plimsoll.dev/deployment": "other", "plimsoll.dev/pool": "other"}),
    "annotations-with-blanks": _pod(annotations={"a/b/c": "d"}),
    "annotations-of-ours": _pod(annotations={"plimsoll.dev/pool-record": "{"}),
    "selector-with-blanks": _pod(nodeSelector={"a b": "c d"}),
    "toleration-of-nothing": _pod(tolerations=[{"operator": "Exists", "value": "x", "effect": "NoExecute"}]),
    "account-of-nobody": _pod(serviceAccountName="nobody"),
    "priority-of-nobody": _pod(priorityClassName="nobody"),
    "runtime-of-nobody": _pod(runtimeClassName="nobody"),
    "pull-secret-of-nothing": _pod(imagePullSecrets=[{"nam": 1}]),
    "image-with-blanks": {"engine": {"image": "a b\nc"}},
    "version-without-a-law": {"engine": {"version": "999.999.999"}},
    "arguments-without-sense": {"engine": {"extraArgs": ["\u202e", "--" + "x" * 1000, "-"]}},
    "gpu-of-nobody": {"gpu": {"allow": ["h100"]}},
    "longest-context": {"contextLength": 100_000_000, "concurrency": 65_536},
    "a-thousand-replicas": {"replicas": 1000, "overrides": {"gpuType": "l4-24gb"}},
    "config-of-words": {"model": {"name": "x/words", "config": _CONFIG | {"num_hidden_layers": "many"}}},
    "config-of-lists": {"model": {"name": "x/lists", "config": {"architectures": [{}], "hidden_size": [1]}}},
    "config-without-layers": {"model": {"name": "x/zero", "config": _CONFIG | {"num_hidden_layers": 0}}},
    "config-without-end": {"model": {"name": "x/huge", "config": _CONFIG | {"num_hidden_layers": 10**15}}},
    "config-very-deep": {"model": {"name": "x/deep", "config": _CONFIG | _deep(90)}},
    "config-is-empty": {"model": {"name": "x/empty", "config": {}}},
    "config-of-nulls": {"model": {"name": "x/null", "config": dict.fromkeys([*_CONFIG, "num_hidden_layers"])}},
}
"""By name: what a spec of nonsense holds besides the minimal example. Validation may refuse any of them."""


FAR_FROM_THE_TYPE: Mapping[str, Mapping[str, Any]] = {
    "template-of-words": {"podTemplate": {"env": "x", "volumes": 7, "tolerations": {"a": 1}}},
    "template-is-empty": {"podTemplate": {}},
    "unknown-fields": {"podTemplate": {"hostNetwork": True, "nobody": {"knows": "it"}}},
    "entries-are-words": {"podTemplate": {"env": ["A=1"], "volumeMounts": [None], "imagePullSecrets": ["x"]}},
    "labels-of-numbers": {"podTemplate": {"labels": {"a": 1}, "annotations": {"b": None}, "nodeSelector": {"c": []}}},
    "engine-of-words": {"engine": {"version": 32, "extraArgs": "--x", "gpuMemoryUtilizationPercent": "most"}},
    "engine-beyond-bounds": {"engine": {"gpuMemoryUtilizationPercent": 10**30, "maxBatchedTokens": -1}},
    "engine-of-lists": {"engine": {"image": ["x"], "lora": [], "multimodal": "all", "speculation": 3}},
}
"""By name: what no CRD of this release admits, but an older or an edited one may."""


def opened_crd() -> dict[str, Any]:
    """The CRD with everything admitted below podTemplate, engine and status, as an older or edited one would."""
    crd: dict[str, Any] = yaml.load(CRD.read_text(), Loader=yaml.CSafeLoader)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["status"] = anything
    schema["spec"]["properties"] |= {"podTemplate": anything, "engine": anything}
    schema["spec"].pop("x-kubernetes-validations", None)
    return crd


def create(view: View, name: str, spec: Mapping[str, Any], **metadata: Any) -> bool:
    """Create an InferenceDeployment as raw JSON. False if the API server refuses it, which is as good."""
    manifest = inference_deployment(name, view.namespace, **spec)
    manifest["metadata"] |= metadata
    try:
        view.control_plane.client.send("POST", f"{GROUP}/namespaces/{view.namespace}/inferencedeployments", manifest)
    except ApiError as error:
        if error.status in (400, 413, 422):
            return False
        raise
    except (ssl.SSLEOFError, ConnectionError):
        return False  # too large: it answers and closes before everything is sent
    return True


def unexplained(view: View, names: Iterable[str]) -> dict[str, str]:
    """Objects that neither serve nor say why not, with what they say."""
    found: dict[str, str] = {}
    for name in names:
        ready = condition(view.get(name), "Ready")
        if ready.get("reason", "") in NOT_YET:
            found[name] = str(ready)
    return found


def assert_explained(view: View, names: Iterable[str]) -> None:
    """Every object serves, or has a condition Ready with a reason why it does not."""
    wanted = tuple(names)
    try:
        view.wait(lambda: not unexplained(view, wanted), "a word about every object", _EXPLAINED_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}: {unexplained(view, wanted)}") from error


def clear(view: View) -> None:
    """Delete every InferenceDeployment of the tenant, and wait until its pods hold nothing any more."""
    plane: ControlPlane = view.control_plane
    plane.client.send("DELETE", f"{GROUP}/namespaces/{view.namespace}/inferencedeployments")
    view.wait(lambda: not view.all("pods") and not view.all("deployments"), "the tenant's pods gone", 60)
