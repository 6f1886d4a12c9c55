"""Fields that people copy from other kinds, and that an InferenceDeployment does not have. Each is refused by name.

The API server drops a field that the schema does not declare before any rule sees it, and says so only to clients that
ask for strict validation. So these fields are declared, each with a rule that refuses every value, and the message says
what to write instead.

Below ``podTemplate`` they are all of Kubernetes' ``PodSpec`` and ``Container``, which a test compares with the client's
models. Elsewhere they are those that people write there: ``DeploymentSpec``, a few fields of pods, the engine's own
options, and our own fields in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Schema = dict[str, Any]

REFUSED = "false"
"""The rule of a field that is refused with any value."""

_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_OBJECTS: Schema = {"type": "array", "items": _ANYTHING}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_SWITCH: Schema = {"type": "boolean"}
"""Types of values. With another type the API server would complain of the type instead of quoting the rule."""


class FieldRefusal(NamedTuple):
    """The type that people write, and what to do instead, as the end of a sentence."""

    shape: Schema
    advice: str


Refusals = Mapping[str, FieldRefusal]

_BY_POLICY = "remove it, or let an admission policy of the cluster add it to the pods"
_SET = "the operator sets it; remove it"
_PLACES = "the planner chooses the nodes"
_LABELS = "the operator sets labels and selectors; use podTemplate.labels for further labels"
_REPLACES = "the operator replaces pods by itself, new ones before old ones; remove it"
_BY_NAME = "the engine downloads model.name from the hub; for another source mount a volume and write model.path"


def _all(shape: Schema, names: str, advice: str = _BY_POLICY) -> dict[str, FieldRefusal]:
    return dict.fromkeys(names.split(), FieldRefusal(shape, advice))


_POD: Refusals = {
    **_all(_OBJECTS, "evictionResponders readinessGates"),
    **_all(_ANYTHING, "os"),
    **_all(_TEXT, "hostname hostnameOverride subdomain"),
    **_all(_SWITCH, "hostUsers setHostnameAsFQDN"),
    **_all(_SWITCH, "enableServiceLinks", _SET),
    **_all(_SWITCH, "automountServiceAccountToken", "engines get no token; mount one with a projected volume"),
    **_all(_TEXT, "restartPolicy", "engines always restart; remove it"),
    **_all(_WHOLE, "activeDeadlineSeconds", "an engine runs without an end; remove it"),
    **_all(_SWITCH, "hostIPC hostNetwork hostPID shareProcessNamespace", "engines share no namespaces; remove it"),
    **_all(_TEXT, "nodeName", f"{_PLACES}; use podTemplate.nodeSelector with kubernetes.io/hostname"),
    **_all(_OBJECTS, "schedulingGates", f"{_PLACES}; remove it"),
    **_all(_ANYTHING, "schedulingGroup", f"{_PLACES}; remove it"),
    **_all(_OBJECTS, "resourceClaims", "the operator requests GPUs as extended resources of the nodes; remove it"),
    **_all(_ANYTHING, "overhead", "use podTemplate.runtimeClassName: the class sets it"),
    **_all(_TEXT, "preemptionPolicy", "use podTemplate.priorityClassName: the class sets it"),
    **_all(_WHOLE, "priority", "use podTemplate.priorityClassName"),
    **_all(_TEXT, "serviceAccount", "use podTemplate.serviceAccountName"),
    **_all(_OBJECTS, "ephemeralContainers", "use kubectl debug on the pod"),
}
"""``PodSpec``, without what ``podTemplate`` has."""

_CONTAINER: Refusals = {
    **_all(_OBJECTS, "resizePolicy restartPolicyRules"),
    **_all(_SWITCH, "stdin stdinOnce tty"),
    **_all(_TEXT, "terminationMessagePath workingDir"),
    **_all(_TEXT, "terminationMessagePolicy name", _SET),
    **_all(_TEXT, "imagePullPolicy", "Kubernetes chooses it by the image's tag; remove it"),
    **_all(_ANYTHING, "lifecycle", _SET),
    **_all(_OBJECTS, "ports", "the engine listens where the Service expects it; remove it"),
    **_all(_OBJECTS, "volumeDevices", "use podTemplate.volumes and volumeMounts"),
    **_all(_TEXTS, "args", "use engine.extraArgs"),
    **_all(_TEXTS, "command", "use engine.image with an entry point of its own, and engine.extraArgs"),
    **_all(_TEXT, "image", "use engine.image"),
}
"""``Container``, without what ``podTemplate`` has."""

_WRITTEN_ANYWHERE = ("hostNetwork", "image", "args", "command", "ports")
"""Fields of pods and containers that people write outside ``podTemplate``, too.

The API server builds a table of all fields of a level for each field that a rule reads there. So a field that nobody
writes has its price with every write: declaring all of them everywhere took half a millisecond of CPU.
"""

_DEPLOYMENT: Refusals = {
    **_all(_WHOLE, "minReadySeconds progressDeadlineSeconds revisionHistoryLimit", _SET),
    **_all(_SWITCH, "paused", "use suspend"),
    **_all(_ANYTHING, "selector", _LABELS),
    **_all(_ANYTHING, "strategy updateStrategy rolloutStrategy", _REPLACES),
    **_all(_ANYTHING, "template", "use podTemplate"),
    **_all(_TEXT, "serviceName podManagementPolicy", _SET),
    **_all(_OBJECTS, "volumeClaimTemplates", "use podTemplate.volumes, with ephemeral or a claim"),
}
"""``DeploymentSpec``, and what ``StatefulSetSpec`` adds."""

_SOURCES: Refusals = {
    **_all(_TEXT, "uri storageUri", _BY_NAME),
    **_all(_ANYTHING, "storage storageInitializer modelFormat source", _BY_NAME),
    **_all(_TEXT, "runtime", "use engine.name and engine.image"),
    **_all(_TEXT, "runtimeVersion", "use engine.version"),
    **_all(_TEXT, "id", "use model.name"),
}
"""KServe's fields of a model."""

_ENGINE_WORDS: Refusals = {
    **_all(_WHOLE, "maxModelLen", "use contextLength"),
    **_all(_WHOLE, "maxNumSeqs", "use concurrency, and engine.maxSequences for the limit"),
    **_all(_WHOLE, "maxNumBatchedTokens", "use engine.maxBatchedTokens"),
    **_all(_NUMBER, "gpuMemoryUtilization", "use engine.gpuMemoryUtilizationPercent"),
    **_all(_WHOLE, "tensorParallelSize", "the planner chooses the split; use overrides.tensorParallel to set it"),
    **_all(_WHOLE, "pipelineParallelSize dataParallelSize", "the planner chooses the split; remove it"),
    **_all(_TEXT, "dtype quantization", "use precision"),
    **_all(_TEXT, "kvCacheDtype", "use kvCache.precision"),
    **_all(_TEXT, "servedModelName", "use metadata.name: clients use the object's name"),
    **_all(_ANYTHING, "speculativeConfig", "use engine.speculation"),
    **_all(_SWITCH, "enableLora", "use engine.lora"),
    **_all(_SWITCH, "trustRemoteCode", "write --trust-remote-code in engine.extraArgs"),
}
"""The engine's own options, written as fields."""

_GPU_WORDS: Refusals = {
    **_all(_WHOLE, "count", "the planner chooses the number; use overrides.tensorParallel to set it"),
    **_all(_TEXT, "type product model name", "use gpu.allow, with names as in `plimsoll gpus`"),
    **_all(_TEXT, "memory", "the planner computes it; use overrides.memoryPerGpu to set it"),
}

_TEMPLATE: Refusals = {
    **_all(_ANYTHING, "metadata", "use podTemplate.labels and podTemplate.annotations"),
    **_all(_ANYTHING, "spec template", "write its fields directly below podTemplate"),
}
"""``PodTemplateSpec``."""

_OF_A_RUNTIME = "the pods get what Kubernetes has without it; remove it"
_INNER: Mapping[str, Refusals] = {
    "podTemplate.resources": _all(
        _OBJECTS, "claims", "the operator requests GPUs as extended resources of the nodes; remove it"
    ),
    "podTemplate.env[].valueFrom": _all(
        _ANYTHING, "fileKeyRef", "the engine reads no file of another container as environment; mount the volume"
    ),
    "podTemplate.volumeMounts[]": _all(_TEXTS, "bindMountOptions", _OF_A_RUNTIME),
    "podTemplate.volumes[].emptyDir": _all(_TEXT, "mode", _OF_A_RUNTIME),
    **{
        f"podTemplate.volumes[].{source}": _all(_WHOLE, "defaultUser", _OF_A_RUNTIME)
        for source in ("configMap", "downwardAPI", "projected", "secret")
    },
    **{
        f"podTemplate.volumes[].{source}.items[]": _all(_WHOLE, "user", _OF_A_RUNTIME)
        for source in ("configMap", "downwardAPI", "secret")
    },
}
"""Fields of the parts of a pod that are carried otherwise."""

_GROUPS = ("engine", "podTemplate", "overrides")
"""Fields of the spec whose own fields people write next to them."""


def refuse_foreign_fields(root: Schema) -> None:
    """Declare, in the schema of a whole object, the fields that it does not have, each with a rule that refuses it."""
    spec: Schema = root["properties"]["spec"]
    groups = {group: _misplaced(f"{group}.", spec["properties"][group]) for group in _GROUPS}
    whole = _misplaced("spec.", spec)
    elsewhere = _all(_WHOLE, "maxReplicas", "use rebalancing.maxReplicas")
    pod = {**_CONTAINER, **_POD}
    often = {name: pod[name] for name in _WRITTEN_ANYWHERE}
    places: Mapping[str, Refusals] = {
        "": {
            **often,
            **_DEPLOYMENT,
            **elsewhere,
            **groups["overrides"],
            **groups["podTemplate"],
        },
        "model": _SOURCES,
        "gpu": _GPU_WORDS,
        "engine": {**often, **_ENGINE_WORDS, **groups["podTemplate"]},
        "podTemplate": {**pod, **_TEMPLATE, **_all(_TEXTS, "extraArgs", "use engine.extraArgs")},
        **_INNER,
    }
    for place, refusals in places.items():
        _declare(_at(spec, place), place, refusals)
    _declare(root, "", {**whole, **_all(_ANYTHING, "inference resource tuning", "use spec.model and spec.gpu")})


def is_refused(node: Schema) -> bool:
    """Whether a field is declared only to be refused."""
    return any(each["rule"] == REFUSED for each in node.get("x-kubernetes-validations", ()))


def refused_fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield the path of each refused field below a schema, with its own schema. ``[]`` marks an entry of a list."""
    for name, child in schema.get("properties", {}).items():
        if is_refused(child):
            yield f"{path}.{name}".removeprefix("."), child
        else:
            yield from refused_fields(child, f"{path}.{name}")
    if "items" in schema:
        yield from refused_fields(schema["items"], f"{path}[]")


def _misplaced(place: str, node: Schema) -> dict[str, FieldRefusal]:
    return {name: FieldRefusal(_shape(child), f"use {place}{name}") for name, child in node["properties"].items()}


def _shape(node: Schema) -> Schema:
    if node["type"] == "object":
        return _ANYTHING
    if node["type"] == "array":
        return _TEXTS if node["items"]["type"] == "string" else _OBJECTS
    return {"type": node["type"]}


def _at(spec: Schema, place: str) -> Schema:
    node = spec
    for part in place.split(".") if place else ():
        node = node["properties"][part.removesuffix("[]")]
        node = node["items"] if part.endswith("[]") else node
    return node


def _declare(node: Schema, place: str, refusals: Refusals) -> None:
    path = f"{place.replace('[]', '')}." if place else ""
    for name, (shape, advice) in refusals.items():
        if name not in node["properties"]:
            node["properties"][name] = {
                **shape,
                "description": f"Not carried: {advice}.",
                "x-kubernetes-validations": [{"rule": REFUSED, "message": f"{path}{name} is not carried: {advice}"}],
            }
