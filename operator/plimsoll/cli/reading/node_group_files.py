"""Node groups from a file: a list as in the chart's values, or NodePools of Karpenter as kubectl prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plimsoll.api.node_groups import declared_groups
from plimsoll.cli.reading.files import read_text, title
from plimsoll.cli.reading.yaml_documents import Broken, read_documents
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.node_groups import NodeGroup
from plimsoll.facts.cluster.node_pools import read_node_pools

_OPTION = "--node-groups"
_FIX = "Name a file with a list of node groups (docs/placement.md), or: kubectl get nodepools -o yaml > nodepools.yaml"


def groups_from(path: str | None, types: Sequence[GpuType]) -> tuple[NodeGroup, ...]:
    """Return the node groups of a file; none without one.

    Raises:
        InvalidInput: the file cannot be read, holds neither, or an entry of the list is wrong.
    """
    if path is None:
        return ()
    declared: list[Any] = []
    pools: list[Any] = []
    for document in read_documents(read_text(path), is_json=path.endswith(".json")):
        if isinstance(document, Broken):
            raise InvalidInput(_OPTION, title(path), document.why)
        if isinstance(document.value, list):
            declared += document.value
        elif isinstance(document.value, dict):
            pools += document.value.get("items") or [document.value]
    if not all(isinstance(pool, dict) and pool.get("kind") == "NodePool" for pool in pools) or not (declared or pools):
        raise InvalidInput(_OPTION, title(path), _FIX)
    return (*declared_groups(declared, _OPTION, types).of(types), *read_node_pools(pools, types))
