"""The same workloads without an operator: the time that Kubernetes itself needs for them on this machine.

This is the floor of every figure of an operator. The objects are those that the operator renders, created directly.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from testbed.fleet import gpu_node
from tests.support.installed import inference_deployment

_COLLECTIONS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Service": "/api/v1/namespaces/{}/services",
}
_OWNER_LABEL = "plimsoll.dev/deployment"


def workloads(
    namespace: str, count: int, models: Sequence[str], products: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and body of every object that so many InferenceDeployments would get."""
    rendered = _rendered(namespace, models, products)
    for number in range(count):
        name, objects = rendered[number % len(rendered)]
        for body in json.loads(json.dumps(objects).replace(name, f"many-{number:04}")):
            yield _COLLECTIONS[body["kind"]].format(namespace), body


def _rendered(
    namespace: str, models: Sequence[str], products: Sequence[str]
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The objects of one InferenceDeployment for each model, as ``plimsoll plan --output objects`` prints them."""
    names = [f"template-{number}" for number in range(len(models))]
    wishes = [
        inference_deployment(name, namespace, model={"name": model}) for name, model in zip(names, models, strict=True)
    ]
    nodes = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [gpu_node(product.lower(), product, 8) for product in products],
    }
    with tempfile.TemporaryDirectory() as folder:
        fleet, files = Path(folder, "fleet.yaml"), Path(folder, "wishes.yaml")
        fleet.write_text(yaml.safe_dump(nodes))
        files.write_text(yaml.safe_dump_all(wishes))
        command = [sys.executable, "-m", "plimsoll", "plan", "-f", str(files), "--fleet", str(fleet)]
        printed = subprocess.run([*command, "-o", "objects"], check=True, capture_output=True, text=True).stdout  # noqa: S603
    objects = list(yaml.safe_load_all(printed))
    for each in objects:
        del each["metadata"]["ownerReferences"]  # their owner does not exist
    return [(name, [each for each in objects if each["metadata"]["labels"][_OWNER_LABEL] == name]) for name in names]
