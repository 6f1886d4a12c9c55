"""Make the CustomResourceDefinition from the pydantic models, so that the API server and Python have the same rules.

Pydantic writes JSON Schema 2020-12; a CRD needs the *structural* part of OpenAPI v3.0. The rules of that part are in
the Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions", section "Specifying a
structural schema". This module is pure: the caller writes the result of :func:`crd` to a file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from plimsoll.api.crd.not_carried import refuse_foreign_fields
from plimsoll.api.v1alpha1 import ApiModel, InferenceDeploymentSpec, InferenceDeploymentStatus, rule
from plimsoll.domain import kubernetes_names
from plimsoll.domain.public_words import ConditionReason, ConditionType

Schema = dict[str, Any]

MAX_NAME_LENGTH = 52
"""Longest object name: a Service name has 63 characters, and pools and revisions append up to 11 of their own."""

ROOT_RULES = (
    rule(
        f"self.metadata.name.size() <= {MAX_NAME_LENGTH}",
        f"metadata.name becomes a Service name: use at most {MAX_NAME_LENGTH} characters",
    ),
    rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name becomes a Service name: use lower-case letters, digits and dashes, "
        "start with a letter, end with a letter or digit",
    ),
)
"""Rules for a name in addition to the API server's. That one allows a DNS subdomain: with dots, or a digit first."""

OF_ONE_MANAGER: Schema = {"x-kubernetes-map-type": "atomic"}
"""The operator writes a status as a whole: what others wrote into it goes with the next write.

The API server then records one owner of the status and not one of each field. That was a quarter of what it stored of
an object, and a sixth of its CPU time for a write (measured).
"""

UNSEEN: Schema = {
    "conditions": [
        {
            "type": kind.value,
            "status": status,
            "reason": ConditionReason.PENDING.value,
            "message": "The operator has not seen this object yet. What helps: wait a moment; if this stays, look "
            "whether the operator runs.",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }
        for kind, status in ((ConditionType.READY, "Unknown"), (ConditionType.RECONCILING, "True"))
    ]
}
"""The status of an object that no operator has seen, which the API server fills in. Without one, tools that follow
kstatus (Flux, Argo CD, ``kubectl wait``) call a new object current. The Gateway API does the same."""

_KEPT_KEYWORDS = frozenset(
    {
        "type", "format", "description", "default", "enum", "required", "pattern", "minLength", "maxLength", "minimum",
        "maximum", "minItems", "maxItems", "minProperties", "maxProperties", "nullable",
    }
)  # fmt: skip
_DROPPED_KEYWORDS = frozenset({"title", "$defs"})
"""Titles repeat the field names. Definitions are copied to where they are used, because a CRD has no references."""


def crd() -> Schema:
    """Make the CustomResourceDefinition of InferenceDeployment, as a plain mapping.

    Raises:
        ValueError: a model uses a JSON-schema keyword that a structural schema cannot hold; the message names field and
            keyword.
    """
    kind = (kubernetes_names.KIND, kubernetes_names.PLURAL, kubernetes_names.SHORT_NAME)
    version = {
        "additionalPrinterColumns": _printer_columns(),
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": _root_schema()},
    }
    return definition(kind, version)


def definition(kind: tuple[str, str, str], version: Schema) -> Schema:
    """Return the CustomResourceDefinition of a kind, its plural and its short name, with what its version has."""
    name, plural, short = kind
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{kubernetes_names.GROUP}"},
        "spec": {
            "group": kubernetes_names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": name,
                "listKind": f"{name}List",
                "plural": plural,
                "singular": name.lower(),
                "shortNames": [short],
                "categories": [kubernetes_names.CATEGORY],
            },
            "versions": [{"name": kubernetes_names.VERSION, "served": True, "storage": True, **version}],
        },
    }


@lru_cache(maxsize=1)
def root_schema() -> Schema:
    """Return the schema of a whole InferenceDeployment. It is made once: do not change it."""
    root: Schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return root


def _printer_columns() -> list[Schema]:
    """Return the columns of ``kubectl get``: the results first; with ``-o wide`` also the inputs."""
    ready, troubled = (
        f'.status.conditions[?(@.type=="{kind}")]' for kind in (ConditionType.READY, ConditionType.TROUBLED)
    )
    return [
        column("Ready", "string", f"{ready}.status", "Whether the model is served as asked."),
        column("Reason", "string", f"{ready}.reason", "Why it is, or is not."),
        column("Trouble", "string", f"{troubled}.reason", "What is wrong while it serves; empty if nothing is."),
        column("Model", "string", ".spec.model.name", "The model."),
        column("GPU", "string", ".status.placement.gpuType", "Chosen GPU type."),
        column("TP", "integer", ".status.placement.tensorParallel", "Chosen tensor-parallel degree."),
        column("Replicas", "string", ".status.replicasSummary", "Serving and wanted replicas."),
        column("GiB/GPU", "string", ".status.estimate.gibPerGpu", "Memory that one GPU needs."),
        column("Age", "date", ".metadata.creationTimestamp", "Time since the object was made."),
        column("Context", "integer", ".spec.contextLength", "Longest request in tokens.", wide=True),
        column("Concurrency", "integer", ".spec.concurrency", "Requests that a replica serves at once.", wide=True),
        column(
            "KV Tokens", "integer", ".status.estimate.kvCapacityTokens", "Tokens the cache has room for.", wide=True
        ),
        column(
            "TPOT",
            "integer",
            ".status.placement.performance.tpotMilliseconds",
            "Predicted milliseconds per output token.",
            wide=True,
        ),
        column("$/h", "string", ".status.placement.hourlyPrice", "US dollars per hour of all replicas.", wide=True),
        column("URL", "string", ".status.url", "Base URL of the OpenAI API, inside the cluster.", wide=True),
    ]


def column(name: str, kind: str, path: str, description: str, *, wide: bool = False) -> Schema:
    """Return a column of ``kubectl get``; a wide one is shown with ``-o wide`` only."""
    shown: Schema = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return shown | {"priority": 1} if wide else shown


def _root_schema() -> Schema:
    root = {
        "type": "object",
        "description": "An LLM to serve: the operator computes its need of VRAM, picks the GPUs and runs vLLM.",
        "required": ["spec"],
        "x-kubernetes-validations": [dict(each) for each in ROOT_RULES],
        "properties": head(kubernetes_names.KIND)
        | {
            "spec": of_model(InferenceDeploymentSpec, "spec"),
            "status": of_model(InferenceDeploymentStatus, "status") | OF_ONE_MANAGER | {"default": UNSEEN},
        },
    }
    refuse_foreign_fields(root)
    return root


def head(kind: str) -> Schema:
    """Return the schemas of the fields that all objects of a kind have."""
    return {
        "apiVersion": {"type": "string", "description": f"{kubernetes_names.API_VERSION}."},
        "kind": {"type": "string", "description": f"{kind}."},
        "metadata": {"type": "object"},
    }


def of_model(model: type[ApiModel], path: str) -> Schema:
    """Return the structural schema of a model, which stands at this path of an object."""
    schema = model.model_json_schema(by_alias=True)
    return structural(schema, schema.get("$defs", {}), path)


def structural(node: Schema, definitions: Schema, path: str) -> Schema:
    """Turn one JSON-schema node, and all below it, into its structural form."""
    flat = _flat(node, definitions)
    result: Schema = {}
    for keyword, value in flat.items():
        if keyword == "properties":
            result["properties"] = _properties(flat, definitions, path)
        elif keyword == "items":
            result["items"] = structural(value, definitions, f"{path}[*]")
        elif keyword == "additionalProperties":
            result |= _values(value, definitions, path)
        elif keyword in _KEPT_KEYWORDS or keyword.startswith("x-kubernetes-"):
            result[keyword] = value
        elif keyword not in _DROPPED_KEYWORDS:
            raise ValueError(f"{path}: a CRD cannot hold {keyword!r}; write the model's field without it")
    if "description" in result:
        result["description"] = result["description"].replace("``", "`")  # docstrings use two backticks, kubectl one
    if result.get("default", ...) is None:
        del result["default"]  # a null default means "absent": a structural schema has no default then
    if result.get("type") == "integer":
        result["format"] = "int64"
    return result


def _properties(flat: Schema, definitions: Schema, path: str) -> Schema:
    required = flat.get("required", ())
    return {
        name: _property(child, definitions, f"{path}.{name}", required=name in required)
        for name, child in flat["properties"].items()
    }


def _property(node: Schema, definitions: Schema, path: str, *, required: bool) -> Schema:
    """Return one property. An optional object that is never null gets a default: the defaults of its fields.

    Pydantic leaves a default factory out of its JSON schema. The API server sets defaults from the outside in, so
    without a default here it would never reach the defaults inside. An empty default would be enough for that. But the
    API server checks the object's rules against this default as it is written here, and the rules read fields.
    """
    result = structural(node, definitions, path)
    if not required and "$ref" in node and result["type"] == "object":
        inner = {name: child["default"] for name, child in result["properties"].items() if "default" in child}
        result.setdefault("default", inner)
    return result


def _values(value: bool | Schema, definitions: Schema, path: str) -> Schema:  # noqa: FBT001 - JSON Schema's own union
    """Keep the schema of a map's values. Drop true and false: in a structural schema pruning has their effect."""
    if isinstance(value, bool):
        return {}
    return {"additionalProperties": structural(value, definitions, f"{path}.*")}


def _flat(node: Schema, definitions: Schema) -> Schema:
    """Replace a reference by its definition and ``anyOf [X, null]`` by X; keywords next to them take precedence.

    A CRD does not need null: the API server drops null fields before it validates.
    """
    kept = dict(node)
    if reference := kept.pop("$ref", None):
        return _flat(definitions[reference.removeprefix("#/$defs/")], definitions) | kept
    alternatives = [each for each in kept.get("anyOf", ()) if each != {"type": "null"}]
    if len(alternatives) == 1:
        del kept["anyOf"]
        return _flat(alternatives[0], definitions) | kept
    return kept
