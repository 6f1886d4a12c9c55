"""Node groups as an admin declares them: in the chart's values, or in a file for the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field, ValidationError

from plimsoll.api.gpu_names import did_you_mean
from plimsoll.api.v1alpha1 import CapacityTypeChoice
from plimsoll.api.v1alpha1.base import ApiModel, GpuTypeName
from plimsoll.domain.cluster.fleet import Taint
from plimsoll.domain.cluster.gpus import GpuType, Price, Vendor
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.spot import spot_type
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.gpu_labels import AMD_RESOURCE, NVIDIA_RESOURCE

CHART_KEY = "fleet.nodeGroups"
"""The key of the list in the chart's values."""


class TaintSpec(ApiModel):
    """A taint of the group's nodes."""

    key: str = Field(min_length=1, max_length=317)
    value: str = Field(default="", max_length=63)
    effect: Annotated[str, Field(pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$")]


class ScaleUpSpec(ApiModel):
    """Pods may wait for nodes of the group that do not exist, so that its autoscaler starts them."""

    max_hourly_price: Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,4})?$")]


class NodeGroupSpec(ApiModel):
    """Nodes of one kind that can be added to the cluster."""

    name: str = Field(min_length=1, max_length=63)
    gpu_type: GpuTypeName
    gpus_per_node: Annotated[int, Field(ge=1, le=64)]
    max_nodes: Annotated[int, Field(ge=1, le=100_000)]
    cpu: str | None = Field(default=None, max_length=32)
    memory: str | None = Field(default=None, max_length=32)
    capacity_type: CapacityTypeChoice = CapacityTypeChoice.ON_DEMAND
    usd_per_hour: Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,4})?$")] | None = None
    labels: dict[str, str] = Field(default_factory=dict, max_length=64)
    taints: list[TaintSpec] = Field(default_factory=list, max_length=64)
    scale_up: ScaleUpSpec | None = None


@dataclass(frozen=True, slots=True)
class DeclaredGroups:
    """A checked list. The GPU types get their prices when it is used, because prices change."""

    specs: tuple[NodeGroupSpec, ...] = ()

    def of(self, types: Sequence[GpuType]) -> tuple[NodeGroup, ...]:
        """Return the groups with the prices of these GPU types."""
        by_name = {gpu.name: gpu for gpu in types}
        return tuple(_group(spec, by_name[spec.gpu_type]) for spec in self.specs)


def declared_groups(given: Any, field: str, types: Sequence[GpuType]) -> DeclaredGroups:
    """Check a list of node groups.

    Args:
        given: the list as data.
        field: where it stands, for errors.
        types: the GPU catalogue.

    Raises:
        InvalidInput: an entry is wrong, names no GPU type, or has the name of another one.
    """
    if not isinstance(given, list):
        raise InvalidInput(field, given, "Write a list of node groups.")
    specs = tuple(_spec(entry, f"{field}[{index}]") for index, entry in enumerate(given))
    known = {gpu.name for gpu in types if not gpu.is_slice}
    for index, spec in enumerate(specs):
        where = f"{field}[{index}]"
        if spec.gpu_type not in known:
            raise InvalidInput(
                f"{where}.gpuType", spec.gpu_type, f"There is no such GPU type{did_you_mean(spec.gpu_type, known)}."
            )
        if spec.name in {other.name for other in specs[:index]}:
            raise InvalidInput(f"{where}.name", spec.name, "Give every node group a name of its own.")
        if spec.scale_up is not None and not spec.labels:
            raise InvalidInput(
                f"{where}.labels", spec.labels, "Write a label that only nodes of this group have: pods wait for it."
            )
        _host(spec, where)
    return DeclaredGroups(specs)


def _spec(entry: Any, where: str) -> NodeGroupSpec:
    if not isinstance(entry, Mapping):
        raise InvalidInput(where, entry, "Write a mapping with name, gpuType, gpusPerNode and maxNodes.")
    try:
        return NodeGroupSpec.model_validate(entry, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{where}.{path}", first.get("input"), f"{first['msg']}.") from error


def _host(spec: NodeGroupSpec, where: str = CHART_KEY) -> HostRoom:
    return HostRoom(
        _amount(spec.cpu, 1000, f"{where}.cpu", 'Write the CPUs of one node, e.g. "96".'),
        _amount(spec.memory, 1, f"{where}.memory", 'Write the memory of one node, e.g. "512Gi".'),
        None,
    )


def _amount(text: str | None, unit: int, field: str, fix: str) -> int | None:
    try:
        amount = None if text is None else int(parse_quantity(text) * unit)
    except ValueError as error:
        raise InvalidInput(field, text, fix) from error
    if amount is not None and amount <= 0:
        raise InvalidInput(field, text, fix)
    return amount


def _group(spec: NodeGroupSpec, gpu: GpuType) -> NodeGroup:
    if spec.usd_per_hour is not None:
        each = Price(Decimal(spec.usd_per_hour) / spec.gpus_per_node, f"node group {spec.name}")
        gpu = replace(gpu, price=replace(each, spot=each))
    if spec.capacity_type is CapacityTypeChoice.SPOT:
        gpu = spot_type(gpu)
    labels = tuple(sorted(spec.labels.items()))
    return NodeGroup(
        name=spec.name,
        gpu=gpu,
        resource=NVIDIA_RESOURCE if gpu.vendor is Vendor.NVIDIA else AMD_RESOURCE,
        gpus=spec.gpus_per_node,
        most_gpus=spec.max_nodes * spec.gpus_per_node,
        host=_host(spec),
        labels=labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in spec.taints),
        members=labels,
        most_usd_per_hour=None if spec.scale_up is None else Decimal(spec.scale_up.max_hourly_price),
    )
