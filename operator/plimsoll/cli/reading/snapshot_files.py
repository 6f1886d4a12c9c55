"""Snapshots of ``plimsoll fleet export``, groups of nodes, and the chart's values of an operator, read from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll.api.node_groups import CHART_KEY, declared_groups
from plimsoll.app.exports.document import Export, read_export
from plimsoll.app.settings import Settings
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


_VALUES = "--values"

_KEYS = {
    "PLIMSOLL_OBJECTIVE": "objective",
    "PLIMSOLL_GPU_VENDORS": "gpuVendors",
    "PLIMSOLL_BILLING": "fleet.billing",
    "PLIMSOLL_OVERLOAD": "fleet.overload",
}
"""The keys of the chart's values by the operator's variables, as the chart sets them."""


@dataclass(frozen=True, slots=True)
class AdminFiles:
    """The choices of a cluster's admin, for a plan without the cluster.

    Attributes:
        node_groups: a file with node groups, or NodePools; None: there is none.
        values: values of the chart.
        source: where these are from, for errors.
    """

    node_groups: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    @staticmethod
    def read(node_groups: str | None, values: str | None) -> AdminFiles:
        """Read the file of values, if there is one.

        Raises:
            InvalidInput: it cannot be read, or holds something else.
        """
        if values is None:
            return AdminFiles(node_groups)
        found = list(read_documents(read_text(values), is_json=values.endswith(".json")))
        if len(found) != 1 or isinstance(found[0], Broken) or not isinstance(found[0].value, dict):
            why = next((each.why for each in found if isinstance(each, Broken)), "Name one file of values.")
            raise InvalidInput(_VALUES, title(values), why)
        return AdminFiles(node_groups, found[0].value, title(values))

    def groups(self, types: Sequence[GpuType]) -> tuple[NodeGroup, ...]:
        """Return the node groups: those of their own file, else those among the values.

        Raises:
            InvalidInput: the file cannot be read, or an entry of the list is wrong.
        """
        if self.node_groups is not None:
            return groups_from(self.node_groups, types)
        return declared_groups(_at(self.values, CHART_KEY) or [], CHART_KEY, types).of(types)

    def settings(self) -> Settings:
        """Return the settings of an operator with these values, as far as they decide who is placed where.

        Raises:
            InvalidInput: a value is wrong. The message names it by its key.
        """
        variables = {name: _text(_at(self.values, key)) for name, key in _KEYS.items()}
        try:
            return Settings.from_environment(variables)
        except InvalidInput as error:
            raise InvalidInput(f"{self.source}: {_KEYS[error.field]}", error.value, error.fix) from error


def _at(given: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key; None if it is not there.

    Raises:
        InvalidInput: what is around it is no mapping.
    """
    around, _, name = key.rpartition(".")
    node = _at(given, around) if around else given
    if node is not None and not isinstance(node, Mapping):
        raise InvalidInput(f"{_VALUES}: {around}", node, "Write a mapping, as the chart's values.yaml has it.")
    return None if node is None else node.get(name)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value or "")
