"""Snapshots of ``plimsoll fleet export`` and groups of nodes, read from files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plimsoll.api.node_groups import declared_groups
from plimsoll.app.exports.document import Export, read_export
from plimsoll.cli.reading.files import read_text, title
from plimsoll.cli.reading.shapes import refuse_misshapen
from plimsoll.cli.reading.yaml_documents import Broken, read_documents
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.errors import InvalidInput
from plimsoll.facts.cluster.node_pools import read_node_pools


def snapshot_from(path: str) -> Export:
    """Return the snapshot of a file or of standard input.

    Raises:
        InvalidInput: it cannot be read or is no snapshot. The message names the file, the field and the fix.
    """
    found = read_export(read_text(path), title(path))
    for index, body in enumerate(found.bodies):
        try:
            refuse_misshapen(dict(body))
        except InvalidInput as error:
            raise InvalidInput(f"{title(path)}: objects[{index}]: {error.field}", error.value, error.fix) from error
    return found


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
