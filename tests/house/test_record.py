"""The status has one reader and one writer: everybody else uses the attributes of the record."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from plimsoll.api.v1alpha1 import InferenceDeploymentStatus, status
from plimsoll.api.v1alpha1.base import ApiModel

PACKAGE = Path(__file__).resolve().parents[2] / "operator" / "plimsoll"

# fmt: off
SHARED = frozenset({
    "avoidedNodes", "capacityType", "concurrency", "conditions", "controller", "dataParallel", "dtype", "engine",
    "expertParallel", "gateway", "generation", "gpuType", "id", "kind", "lastTransitionTime", "message", "model",
    "name", "namespace", "nodeLabels", "nodeSelector", "observedGeneration", "parameters", "pipelineParallel",
    "quantization", "reason", "rebalancing", "replicas", "resource", "routing", "selector", "source", "spec", "state",
    "status", "tensorParallel", "type", "version",
})
# fmt: on
"""Fields that a spec, the record of a pool or an object of Kubernetes has as well."""


def fields() -> frozenset[str]:
    """Fields that only our status has."""
    models = [each for each in vars(status).values() if isinstance(each, type) and issubclass(each, ApiModel)]
    return frozenset(str(field.alias) for model in models for field in model.model_fields.values()) - SHARED


def looked_up(source: str) -> Iterator[str]:
    """Texts that are used as keys: ``body["key"]`` and ``body.get("key")``."""
    for node in ast.walk(ast.parse(source)):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            key = node.args[0] if node.args else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def test_only_the_record_looks_up_fields_of_a_status_by_their_names() -> None:
    files = [path for layer in ("app", "cli") for path in (PACKAGE / layer).rglob("*.py")]
    assert len(files) > 50
    names = fields()
    found = [f"{path.name}: {key}" for path in files for key in looked_up(path.read_text("utf-8")) if key in names]
    assert found == []


def test_the_rule_would_see_such_a_look_up() -> None:
    names = fields()
    parts = {str(field.alias) for field in InferenceDeploymentStatus.model_fields.values()}
    assert {"pools", "observations", "rehomings", "tooSmall", "estimate", "placement"} <= parts & names
    source = 'a["pools"]; b.get("tooSmall"); b.get("replicas"); get("estimate"); c[0]; d.get(); ["placement"]'
    assert [key for key in looked_up(source) if key in names] == ["pools", "tooSmall"]
