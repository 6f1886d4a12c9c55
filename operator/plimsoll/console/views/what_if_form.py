"""The fields of What if as changes of ``plimsoll plan --what-if``: what is chosen from lists, and free lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from plimsoll.cli.answers.rows import types_in_order
from plimsoll.console.views.faults import FieldFault, FieldName
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.cluster.gpus import GpuType

FIELDS = (
    "replicas",
    "contextLength",
    "concurrency",
    "totalConcurrency",
    "precision",
    "kvCache.precision",
    "overrides.gpuType",
    "overrides.tensorParallel",
    "suspend",
)
"""Fields of a spec to choose from; any other can be typed."""

NAMES: Mapping[str, FieldName] = {
    "what-if": FieldName("changes", "Other changes"),
    "namespace": FieldName("namespace", "Namespace"),
}
"""The fields that the plan's messages name."""


@dataclass(frozen=True, slots=True)
class WhatIfForm:
    """The form as it was typed, and what it asks.

    ``changes`` are the lines of the address or of the form together with those made from the other fields. ``fault`` is
    about a field that is filled in by half. ``types`` are those of the fleet, ``catalogue`` all that could be added,
    ``deployments`` the names to choose from.
    """

    manifest: str
    namespace: str
    changes: tuple[str, ...]
    typed: Mapping[str, str]
    fault: FieldFault | None
    types: tuple[str, ...]
    catalogue: tuple[str, ...]
    deployments: tuple[str, ...]
    fields: tuple[str, ...] = FIELDS

    @property
    def is_asked(self) -> bool:
        """Whether there is a question."""
        return self.fault is None and bool(self.manifest or self.changes)


_TYPED = ("add", "add_type", "add_gpus", "remove", "deployment", "field", "value")


def form_of(
    form: Mapping[str, str], lines: Iterable[str], namespace: str, world: ClusterView, catalogue: Sequence[GpuType]
) -> WhatIfForm:
    """Return the form.

    Args:
        form: the fields that were sent; empty for an address.
        lines: free changes, one each.
        namespace: that of manifests without one.
        world: what the person sees: lists to choose from.
        catalogue: all GPU types. Nodes are added with whole ones, so slices are left out.
    """
    typed = {name: form.get(name, "").strip() for name in _TYPED}
    fault = next(_faults(typed), None)
    made = () if fault is not None else tuple(_made(typed))
    whole = [gpu for gpu in catalogue if not gpu.is_slice]
    types = () if world.fleet is None else tuple(gpu.name for gpu in world.fleet.gpu_types())
    return WhatIfForm(
        manifest=form.get("manifest", "").strip(),
        namespace=namespace,
        changes=(*(line.strip() for line in lines if line.strip()), *made),
        typed=dict.fromkeys(_TYPED, "") if fault is None else typed,
        fault=fault,
        types=types,
        catalogue=tuple(gpu.name for gpu in types_in_order(whole, world.gpu_types)),
        deployments=tuple(sorted(map(str, world.rows))),
    )


def _faults(typed: Mapping[str, str]) -> Iterator[FieldFault]:
    if (typed["add"] or typed["add_gpus"]) and not typed["add_type"]:
        yield FieldFault("add_type", "GPU type: choose one for the nodes to add.")
    if typed["add_type"] and not typed["add"]:
        yield FieldFault("add", "Nodes to add: write how many, e.g. 1.")
    for name, label in (("add", "Nodes to add"), ("add_gpus", "GPUs of each")):
        if typed[name] and not (typed[name].isascii() and typed[name].isdigit() and int(typed[name])):
            yield FieldFault(name, f"{label}: write a whole number of at least 1.")
    if typed["deployment"] and not typed["field"]:
        yield FieldFault("field", "Field: choose the field of the spec to change, e.g. replicas.")
    if (typed["field"] or typed["value"]) and not typed["deployment"]:
        yield FieldFault("deployment", "Deployment: choose the one to change.")
    if typed["deployment"] and typed["field"] and not typed["value"]:
        yield FieldFault("value", "Value: write the new value, e.g. 3.")


def _made(typed: Mapping[str, str]) -> Iterator[str]:
    if typed["add"]:
        yield f"+{typed['add']} {typed['add_type']} x{typed['add_gpus'] or 8}"
    if typed["remove"]:
        yield f"-{typed['remove']}"
    if typed["deployment"]:
        yield f"{typed['deployment']}.{typed['field']}={typed['value']}"
