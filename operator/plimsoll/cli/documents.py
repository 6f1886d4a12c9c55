"""Manifests and fleets from YAML or JSON files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.names import KIND

Body = dict[str, Any]


def load_deployments(paths: Sequence[str]) -> list[InferenceDeployment]:
    """Every InferenceDeployment in the files, in order; documents of other kinds are passed over.

    Raises:
        InvalidInput: a file cannot be read, holds no InferenceDeployment, or one that cannot be used.
    """
    found = [
        parse_inference_deployment(body) for path in paths for body in load_bodies(path) if body.get("kind") == KIND
    ]
    if not found:
        raise InvalidInput("-f", ", ".join(paths), f"Name a file with at least one {KIND}.")
    return found


def load_fleet_objects(path: str) -> tuple[list[Body], list[Body]]:
    """Nodes and pods from a file, as ``kubectl get nodes,pods -A -o yaml`` writes it.

    Raises:
        InvalidInput: the file cannot be read, holds no Node, or holds an object that no API server would take.
    """
    bodies = [_checked(body) for body in load_bodies(path)]
    nodes = [body for body in bodies if body.get("kind") == "Node"]
    if not nodes:
        raise InvalidInput("--fleet", path, "Name a file with Nodes: kubectl get nodes,pods -A -o yaml > fleet.yaml")
    return nodes, [body for body in bodies if body.get("kind") == "Pod"]


def load_bodies(path: str) -> Iterator[Body]:
    """The documents of a file, Lists opened. Raises :class:`InvalidInput` where it cannot be read or is no YAML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        documents = list(yaml.safe_load_all(text))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("file", path, f"It cannot be read: {error}.") from error
    except yaml.YAMLError as error:
        raise InvalidInput("file", path, f"It is not YAML: {error}.") from error
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise InvalidInput("file", path, "Write Kubernetes objects: a mapping with apiVersion and kind.")
        listed = document.get("items") if str(document.get("kind", "")).endswith("List") else None
        yield from (item for item in (listed if isinstance(listed, list) else [document]) if isinstance(item, dict))


def _checked(body: Body) -> Body:
    """An object as the API server would have it: files are written by hand, and reading trusts the server's types."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise InvalidInput(f"{body.get('kind')}.metadata", metadata, "Give the object a metadata.name.")
    labels = metadata.get("labels") or {}
    if not isinstance(labels, dict):
        raise InvalidInput(f"{metadata['name']}: metadata.labels", labels, "Write a mapping of strings.")
    for key, value in labels.items():
        if not isinstance(value, str):
            raise InvalidInput(f"{metadata['name']}: metadata.labels[{key}]", value, "Labels are strings: quote it.")
    for part in ("spec", "status"):
        if not isinstance(body.get(part) or {}, dict):
            raise InvalidInput(f"{metadata['name']}: {part}", body[part], "Write a mapping.")
    return body
