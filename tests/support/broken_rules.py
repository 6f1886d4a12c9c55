"""A manifest against each rule of the CRD: it breaks that rule, and the API server accepts everything else in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plimsoll.api.crd.not_carried import is_refused
from plimsoll.api.crd.schema import Schema, root_schema

_MINIMAL: dict[str, Any] = {
    "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
    "contextLength": 8192,
    "concurrency": 16,
}
_TOLERATION = {"key": "gpu", "operator": "Exists"}
_LIMITS = {"bad key": "1"}
_EIGHT = {"cron": "0 8 * * *", "minReplicas": 3}
_ZERO = {"mode": "Auto", "maxReplicas": 2, "minReplicas": 0, "wake": "Manual"}
_DRAFT = {"name": "meta-llama/Llama-3.2-1B"}


def _pod(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": fields}


def _model(**fields: Any) -> dict[str, Any]:
    return {"model": {**_MINIMAL["model"], **fields}}


def _mounted(**fields: Any) -> dict[str, Any]:
    mount = {"name": "own", "mountPath": "/own", **fields}
    return _pod(volumes=[{"name": "own", "emptyDir": {}}], volumeMounts=[mount])


def _engine(**fields: Any) -> dict[str, Any]:
    return {"engine": fields}


Rule = tuple[str, str]
"""The path of the object that a rule is about, and the rule's message."""

SPECS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "must not exceed contextLength": ({"expectedTokens": {"prompt": 8000, "output": 193}},),
    "write exactly one of concurrency": ({"totalConcurrency": 64},),
    "totalConcurrency lets the planner choose": ({"concurrency": None, "totalConcurrency": 64, "replicas": 3},),
    "minReplicas belongs to totalConcurrency": ({"minReplicas": 2},),
    "minReplicas exceeds totalConcurrency": ({"concurrency": None, "totalConcurrency": 4, "minReplicas": 5},),
    "engine.maxSequences is less than concurrency": (_engine(maxSequences=15),),
    "kvCache.allowFp8 leaves the choice to auto": ({"kvCache": {"precision": "bf16", "allowFp8": True}},),
    "kvCache.hostMemory sets the cache in host memory": (
        {"kvCache": {"hostMemory": "8Gi"}, **_engine(extraArgs=["--kv_offloading_size=8"])},
        {"kvCache": {"hostMemory": "auto"}, **_engine(extraArgs=["--seed=1", "--kv-transfer-config.kv_role=kv_both"])},
    ),
    "sizing Expected needs expectedTokens": ({"sizing": "Expected"},),
    "workload.sharedPrefix.tokens must be less": (
        {"workload": {"sharedPrefix": {"tokens": 8192}}},
        {"expectedTokens": {"prompt": 900, "output": 100}, "workload": {"sharedPrefix": {"tokens": 900}}},
    ),
    "exceeds gpu.maxPerReplica": ({"gpu": {"maxPerReplica": 1}, "overrides": {"tensorParallel": 2}},),
    "overrides.gpuType is in gpu.deny": ({"gpu": {"deny": ["l4-24gb"]}, "overrides": {"gpuType": "l4-24gb"}},),
    "two ways for the same": (_engine(cpuOffload="8Gi", weightStreaming={"group": 4, "layers": 1, "prefetch": 1}),),
    "engine.textOnly leaves the tower out": (_engine(textOnly=True, multimodal={"imagesPerPrompt": 1}),),
    "engine.imageVendor is about engine.image": (_engine(imageVendor="NVIDIA"),),
    "engine.version is about one engine": (_engine(name="auto", version="0.32.0"),),
    "engine.image is about one engine": (_engine(name="auto", image="registry.example/engine:1"),),
    "engine.prefer is the order of the engines": (_engine(prefer=["sglang"]), _engine(name="vllm", prefer=["sglang"])),
    "extraArgs holds a flag that the operator owns": (_engine(extraArgs=["--tensor-parallel-size=2"]),),
    "lora.maxRank must be a rank": (_engine(lora={"maxAdapters": 1, "maxRank": 24}),),
    "lora is not for SGLang": (_engine(name="sglang", lora={"maxAdapters": 1, "maxRank": 16}),),
    "takes neither images nor videos": (_engine(multimodal={"imagesPerPrompt": 0, "videosPerPrompt": 0}),),
    "need speculation.draftModel": (_engine(speculation={"method": "Draft", "tokens": 3}),),
    "is for the methods Eagle and Draft": (
        _engine(speculation={"method": "Ngram", "tokens": 3, "draftModel": _DRAFT}),
    ),
    "weightStreaming.layers must not exceed": (_engine(weightStreaming={"group": 2, "layers": 3, "prefetch": 1}),),
    "model.name: s3://": (_model(name="s3://bucket/llama"), _model(name="gs://bucket/llama")),
    "model.path: s3://": (_model(path="s3://bucket/llama/"),),
    "model.path names weights that are in the pod": (
        _model(path="/w", cache={"claimName": "w"}),
        _model(path="/w", source="s3://bucket/llama"),
    ),
    "model.sourceSecretRef is for a source": (
        _model(sourceSecretRef={"name": "keys"}),
        _model(source="oci://registry.example/llama:1", sourceSecretRef={"name": "keys"}),
    ),
    "model.cache is not for images": (_model(source="oci://registry.example/llama:1", cache={"claimName": "w"}),),
    "model.revision is for models of the hub": (_model(source="s3://bucket/llama", revision="main"),),
    "speculation.draftModel.name: s3://": (
        _engine(speculation={"method": "Draft", "tokens": 3, "draftModel": {"name": "s3://bucket/draft"}}),
    ),
    "speculation.draftModel.path: s3://": (
        _engine(speculation={"method": "Draft", "tokens": 3, "draftModel": {**_DRAFT, "path": "gs://bucket/draft"}}),
    ),
    "gpu.allow and gpu.deny": ({"gpu": {"allow": ["h100-sxm-80gb", "l4-24gb"], "deny": ["l4-24gb"]}},),
    "overrides.memoryPerGpu must be more than 0": ({"overrides": {"memoryPerGpu": "0Gi"}},),
    "must be the name of a volume": (_pod(volumeMounts=[{"name": "nowhere", "mountPath": "/x"}]),),
    "annotations: a key": (_pod(annotations={"bad key": "x"}),),
    "exclude each other: remove one of them": (
        _pod(env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        _mounted(subPath="a", subPathExpr="b"),
    ),
    "env.valueFrom needs exactly one": (_pod(env=[{"name": "A", "valueFrom": {}}]),),
    "envFrom needs exactly one": (_pod(envFrom=[{"prefix": "P_"}]),),
    "labels: a key": (_pod(labels={"bad key": "x"}),),
    "labels: keys under plimsoll.dev/": (_pod(labels={"plimsoll.dev/pool": "x"}),),
    "modelCache: claimName and sizeLimit": (_pod(modelCache={"claimName": "c", "sizeLimit": "1Gi"}),),
    "nodeSelector: a key": (_pod(nodeSelector={"bad key": "x"}),),
    "resources: write cpu": (_pod(resources={"limits": _LIMITS}), _pod(resources={"requests": _LIMITS})),
    "without a key the operator must be Exists": (_pod(tolerations=[{"operator": "Equal", "value": "x"}]),),
    "with operator Exists the value must be empty": (_pod(tolerations=[{**_TOLERATION, "value": "x"}]),),
    "tolerationSeconds is for effect NoExecute": (
        _pod(tolerations=[{**_TOLERATION, "effect": "NoSchedule", "tolerationSeconds": 5}]),
    ),
    "volumeMounts.mountPath": (_mounted(mountPath="/cache"),),
    "recursiveReadOnly needs readOnly": (_mounted(recursiveReadOnly="Enabled"),),
    "volumes.name": (_pod(volumes=[{"name": "tmp", "emptyDir": {}}]),),
    "a volume has one source": (_pod(volumes=[{"name": "own", "emptyDir": {}, "hostPath": {"path": "/x"}}]),),
    "rebalancing.minReplicas must not exceed": ({"rebalancing": {"minReplicas": 3, "maxReplicas": 2}},),
    "mode Auto needs rebalancing.maxReplicas": ({"rebalancing": {"mode": "Auto"}},),
    "moves Auto needs rebalancing.mode Auto": ({"rebalancing": {"moves": "Auto"}},),
    "minReplicas 0 needs rebalancing.mode Auto": ({"rebalancing": {"minReplicas": 0, "wake": "Manual"}},),
    "rebalancing.limits.dollarsPerHour must be more than 0": ({"rebalancing": {"limits": {"dollarsPerHour": "0.00"}}},),
    "minReplicas 0 needs a signal": ({"rebalancing": {"mode": "Auto", "maxReplicas": 2, "minReplicas": 0}},),
    "wake Gateway needs a gateway": ({"rebalancing": {"wake": "Gateway"}},),
    "rebalancing.gateway names the gateway of somebody else": (
        {"rebalancing": {"gateway": {"inferencePool": "chat"}}, "routing": {"mode": "Standalone"}},
    ),
    "routing.mode Gateway needs routing.gateway": ({"routing": {"mode": "Gateway"}},),
    "routing.gateway belongs to routing.mode Gateway": (
        {"routing": {"mode": "Standalone", "gateway": {"name": "shared"}}},
        {"routing": {"gateway": {"name": "shared"}}},
    ),
    "leaves the number to another controller": ({"rebalancing": {**_ZERO, "scale": "External"}},),
    "slo.percentile says which": ({"slo": {"percentile": "P95"}},),
    "write exactly one of duration": (
        {"rebalancing": {"schedule": [_EIGHT | {"duration": "1h", "until": "0 9 * * *"}]}},
        {"rebalancing": {"schedule": [_EIGHT]}},
    ),
    "a minReplicas exceeds rebalancing.maxReplicas": (
        {"rebalancing": {"maxReplicas": 2, "schedule": [_EIGHT | {"duration": "1h"}]}},
    ),
    "also that of a schedule": ({"rebalancing": {"scale": "External", "schedule": [_EIGHT | {"duration": "1h"}]}},),
    "a load that is always there": ({"concurrency": None, "totalConcurrency": 4, "rebalancing": _ZERO},),
    "so rebalancing.scale must not be": (
        {"concurrency": None, "totalConcurrency": 4, "rebalancing": {"scale": "External"}},
    ),
}
"""Changes that make the minimal spec break a rule, by a part of the rule's message that no other rule has."""

NAMES = {"use at most 52 characters": "a" * 53, "start with a letter": "0-digits-first"}
"""The same for rules about the name."""


def broken_manifests(namespace: str) -> list[tuple[str, dict[str, Any]]]:
    """Every manifest, with a part of the message of the rule that it breaks."""
    named = [(message, _manifest(name, namespace, {})) for message, name in NAMES.items()]
    specs = [(message, spec) for message, several in SPECS.items() for spec in several]
    return named + [
        (message, _manifest(f"case-{index}", namespace, spec)) for index, (message, spec) in enumerate(specs)
    ]


def _manifest(name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {name: value for name, value in {**_MINIMAL, **spec}.items() if value is not None},
    }


ENTRIES: Mapping[str, dict[str, Any]] = {
    "spec": _MINIMAL,
    "spec.model": _MINIMAL["model"],
    "spec.podTemplate.env[]": {"name": "A"},
    "spec.podTemplate.volumeMounts[]": {"name": "cache", "mountPath": "/elsewhere"},
    "spec.podTemplate.volumes[]": {"name": "own"},
    "spec.podTemplate.volumes[].configMap": {"name": "c"},
    "spec.podTemplate.volumes[].secret": {"secretName": "s"},
    **{f"spec.podTemplate.volumes[].{each}.items[]": {"key": "a", "path": "b"} for each in ("configMap", "secret")},
    "spec.podTemplate.volumes[].downwardAPI.items[]": {
        "path": "b",
        "fieldRef": {"fieldPath": "metadata.name"},
    },
}
"""The values of a valid part of an object, by its path."""


def manifest_with(path: str, value: Any, name: str = "copied", namespace: str = "default") -> dict[str, Any]:
    """A good manifest that has this value at a path, as ``refused_fields`` writes paths."""
    return _manifest(name, namespace, {}) | _placed(path.split("."), "", value)


def _placed(parts: Sequence[str], above: str, value: Any) -> dict[str, Any]:
    name, *below = parts
    path = f"{above}.{name}".removeprefix(".")
    inner = {**ENTRIES.get(path, {}), **_placed(below, path, value)} if below else value
    return {name.removesuffix("[]"): [inner] if name.endswith("[]") else inner}


def copied(node: Schema) -> Any:
    """A value as people copy it into a field of this schema: of its type, with content that the schema lacks."""
    match node["type"]:
        case "object":
            return {"copied": [{"from": "elsewhere"}]}
        case "array":
            return ["copied"] if node["items"]["type"] == "string" else [{"copied": "from elsewhere"}]
        case "string":
            return "copied"
        case "boolean":
            return False
        case _:
            return 1


def crd_rules(schema: Schema | None = None, path: str = "") -> Iterator[Rule]:
    """Every rule of the CRD, but those of fields that are always refused: these are not rules about a value."""
    node = root_schema() if schema is None else schema
    if is_refused(node):
        return
    yield from ((path, each["message"]) for each in node.get("x-kubernetes-validations", ()))
    for name, child in (node.get("properties") or {}).items():
        yield from crd_rules(child, f"{path}.{name}")
    for part, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(node.get(part), dict):
            yield from crd_rules(node[part], f"{path}{mark}")
