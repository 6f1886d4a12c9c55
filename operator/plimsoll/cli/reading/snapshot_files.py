"""Snapshots of ``plimsoll fleet export``, groups of nodes, and the chart's values of an operator, read from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class AdminFiles:
    """What the admin of a cluster has set, for a plan without the cluster. Empty paths: nothing.

    Attributes:
        node_groups: a file with node groups, or NodePools.
        values: a file with values of the chart.
    """

    node_groups: str | None = None
    values: str | None = None

    def groups(self, types: Sequence[GpuType]) -> tuple[NodeGroup, ...]:
        """Return the node groups: those of their own file, else those among the values.

        Raises:
            InvalidInput: a file cannot be read, or an entry of a list is wrong.
        """
        if self.node_groups is not None or self.values is None:
            return groups_from(self.node_groups, types)
        return declared_groups(_fleet(self._given()).get("nodeGroups") or [], CHART_KEY, types).of(types)

    def settings(self) -> Settings:
        """Return the settings of an operator with these values, as far as they decide who is placed where.

        Raises:
            InvalidInput: the file cannot be read, or a value is wrong. The message names the value by its key.
        """
        given = self._given()
        fleet, listed = _fleet(given), given.get("gpuVendors") or []
        vendors = ",".join(map(str, listed)) if isinstance(listed, list) else listed
        variables = {
            "PLIMSOLL_OBJECTIVE": ("objective", given.get("objective")),
            "PLIMSOLL_GPU_VENDORS": (
                "gpuVendors",
                ",".join(map(str, vendors)) if isinstance(vendors, list) else vendors,
            ),
            "PLIMSOLL_BILLING": ("fleet.billing", fleet.get("billing")),
            "PLIMSOLL_OVERLOAD": ("fleet.overload", fleet.get("overload")),
        }
        try:
            return Settings.from_environment({name: str(value or "") for name, (_, value) in variables.items()})
        except InvalidInput as error:
            key = variables[error.field][0]
            raise InvalidInput(f"{title(self.values or '')}: {key}", error.value, error.fix) from error

    def _given(self) -> Mapping[str, Any]:
        if self.values is None:
            return {}
        documents = list(read_documents(read_text(self.values), is_json=self.values.endswith(".json")))
        if len(documents) != 1 or isinstance(documents[0], Broken) or not isinstance(documents[0].value, dict):
            why = next((each.why for each in documents if isinstance(each, Broken)), "Name one file of values.")
            raise InvalidInput(_VALUES, title(self.values), why)
        return documents[0].value


def _fleet(given: Mapping[str, Any]) -> Mapping[str, Any]:
    found = given.get("fleet") or {}
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{_VALUES}: fleet", found, "Write a mapping, as the chart's values.yaml has it.")
    return found
