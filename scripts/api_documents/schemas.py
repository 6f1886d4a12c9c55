"""JSON schemas for editors and for checks of manifests without a cluster, made from the CRDs.

They are JSON Schema of draft 7, which is what the YAML language server and kubeconform read. An unknown field is an
error in them. A field that is refused with any value (``api/crd/not_carried.py``) carries the words on what to write
instead, for editors that show ``errorMessage``. JSON Schema cannot say what a CRD says in CEL: the API server and
`plimsoll plan` check it.
"""

from __future__ import annotations

import json
from typing import Any

from plimsoll.api.crd.not_carried import is_refused

Schema = dict[str, Any]

_KEPT = (
    "default", "description", "enum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength",
    "minProperties", "minimum", "pattern", "required", "type", "uniqueItems",
)  # fmt: skip
_ANYTHING = "x-kubernetes-preserve-unknown-fields"
_METADATA = {
    "type": "object",
    "description": "Name, namespace, labels and annotations, as of any object of Kubernetes.",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def file_name(definition: Schema) -> str:
    """Return the path of a kind's schema below the folder of schemas, as kubeconform looks for it."""
    kind, version = definition["spec"]["names"]["kind"].lower(), definition["spec"]["versions"][0]["name"]
    return f"{definition['spec']['group']}/{kind}_{version}.json"


def schema_text(definition: Schema) -> str:
    """Return the JSON schema of the manifests of a kind."""
    return json.dumps(editor_schema(definition), indent=1, ensure_ascii=False) + "\n"


def editor_schema(definition: Schema) -> dict[str, Any]:
    """Return the same as a value."""
    group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
    (version,) = definition["spec"]["versions"]
    root = version["schema"]["openAPIV3Schema"]
    heads: dict[str, Any] = {
        "apiVersion": {"const": f"{group}/{version['name']}"},
        "kind": {"const": kind},
        "metadata": _METADATA,
    }
    given = {name: node for name, node in root["properties"].items() if name not in heads}
    if "status" in given:
        given["status"] = {"type": "object", "description": "Written by the operator.", _ANYTHING: True}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"{kind} ({group}/{version['name']})",
        **_translated({**root, "properties": given}, heads),
        "required": ["apiVersion", "kind", "metadata", *root.get("required", ())],
    }


def _translated(node: Schema, heads: Schema | None = None) -> dict[str, Any]:
    """Return a node without what is Kubernetes' own, and closed against unknown fields."""
    if is_refused(node):
        words = node["description"]
        return {"not": {}, "description": words, "errorMessage": words, "doNotSuggest": True}
    found = {key: node[key] for key in _KEPT if key in node}
    if node.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
    if "items" in node:
        found["items"] = _translated(node["items"])
    if "properties" in node:
        found["properties"] = {
            **(heads or {}),
            **{name: _translated(child) for name, child in node["properties"].items()},
        }
    if isinstance(node.get("additionalProperties"), dict):
        found["additionalProperties"] = _translated(node["additionalProperties"])
    elif "properties" in node and not node.get(_ANYTHING):
        found["additionalProperties"] = False
    return found
