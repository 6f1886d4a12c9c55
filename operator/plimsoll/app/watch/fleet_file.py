"""Nodes from a file, for an operator that may not read them from the cluster."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import yaml

from plimsoll.adapters.cluster.client import Listing
from plimsoll.adapters.cluster.kinds import NODES
from plimsoll.domain.errors import SourceUnavailable

LARGEST_BYTES = 64 * 1024 * 1024
"""The size limit: about 5,000 nodes as ``kubectl get nodes -o yaml`` writes them."""


async def nodes_from(path: Path) -> Listing:
    """Return every Node of the file. It is read again in every round, so that an edit of the ConfigMap is noticed.

    Raises:
        SourceUnavailable: the file cannot be read, or is no YAML of Node objects.
    """
    return Listing(await asyncio.to_thread(_read, path))


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise SourceUnavailable(f"{path.name}: the fleet file has more than {LARGEST_BYTES} bytes")
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SourceUnavailable(f"{path.name}: the fleet file cannot be read ({type(error).__name__})") from error
    items = [item for document in documents if isinstance(document, dict) for item in document.get("items", [document])]
    nodes = [item for item in items if isinstance(item, dict) and item.get("kind") == NODES.kind]
    if any(not isinstance(node.get("metadata"), dict) or not node["metadata"].get("name") for node in nodes):
        raise SourceUnavailable(f"{path.name}: the fleet file holds a Node without a name")
    version = str(time.monotonic_ns())
    return [_identified(node, version) for node in nodes]


def _identified(node: dict[str, Any], version: str) -> dict[str, Any]:
    """Add a uid and a resource version. The version is the time of reading, because the last read counts."""
    head = {**node["metadata"], "uid": f"file-{node['metadata']['name']}", "resourceVersion": version}
    return {**node, "metadata": head}
