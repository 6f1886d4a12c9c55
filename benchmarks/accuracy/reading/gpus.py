"""Which GPU a record means: by the name it writes; without one, every type that has its total memory."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.units import GIB

UNNAMED = "unnamed"
"""The name of a card that may be of several types, in front of the nearest one's nominal memory."""

_FILE = Path(__file__).resolve().parents[1] / "data" / "gpus.json"
_SAME_CARD_GIB = 0.6
"""How far a printed total may be from the catalogue's for a name to be believed before the total."""


_SIMILAR_SHARE = 0.05
"""How far, as a share of the total, an unnamed card may be from catalogued ones where none is as near as that."""


@dataclass(frozen=True, slots=True)
class FoundGpu:
    """A GPU, and whether its memory was stated (else it is the catalogue's).

    ``possible`` are the types that an unnamed card may be, each with the stated memory; empty where the record names
    the card. Several of them leave ``gpu`` without a name.
    """

    gpu: GpuType
    is_stated: bool
    possible: tuple[GpuType, ...] = ()


def find_gpu(name: str | None, total_gib: float | None) -> FoundGpu | None:
    """Return the GPU that a record means; a stated total replaces the catalogue's usable memory.

    A total with a name of a known series gives the catalogued card of the series that is nearest in memory. A total
    without a name, or with a name without a series, may be any card of about that memory: ``possible`` lists them.
    Returns None where the record states neither a known name nor a total.
    """
    named = _by_name(name) if name else None
    if total_gib is None:
        return None if named is None else FoundGpu(named, is_stated=False)
    if named is None and _generation(name or "") is None:
        return _unnamed(total_gib, name or "")
    if named is None or _is_other_card(named, total_gib):
        named = _nearest(total_gib, name or "")
    return FoundGpu(_with_memory(named, total_gib), is_stated=True)


def _unnamed(total_gib: float, name: str) -> FoundGpu:
    """Return a card of this memory: of its only possible type, or without a name where several are possible."""
    possible = tuple(_with_memory(gpu, total_gib) for gpu in _possible(total_gib, name))
    nearest = possible[0]
    if len(possible) == 1:
        return FoundGpu(nearest, is_stated=True, possible=possible)
    size = nearest.name.rpartition("-")[2]
    return FoundGpu(replace(nearest, name=f"{UNNAMED}-{size}"), is_stated=True, possible=possible)


def _possible(total_gib: float, name: str) -> list[GpuType]:
    """Return the catalogued cards of about this memory, the nearest first; of AMD alone where the name says so."""
    cards = [gpu for gpu in _types().values() if gpu.vendor is Vendor.AMD or not _says_amd(name)]
    for slack in (_SAME_CARD_GIB, _SIMILAR_SHARE * total_gib):
        near = [gpu for gpu in cards if _distance(gpu, total_gib)[0] <= slack]
        if near:
            return sorted(near, key=lambda gpu: _distance(gpu, total_gib))
    return [min(cards, key=lambda gpu: _distance(gpu, total_gib))]


def _distance(gpu: GpuType, total_gib: float) -> tuple[float, str]:
    return abs(gpu.usable_bytes / GIB - total_gib), gpu.name


def _with_memory(gpu: GpuType, total_gib: float) -> GpuType:
    return replace(gpu, usable_bytes=int(total_gib * GIB))


def _by_name(name: str) -> GpuType | None:
    text = name.upper()
    for pattern, kind in _patterns():
        if re.search(pattern, text):
            return None if kind is None else _types()[kind]
    return None


def _is_other_card(gpu: GpuType, total_gib: float) -> bool:
    """Whether the name means another size of the same chip: an A100 of 40 GiB, an H20 of 141 GB."""
    return abs(gpu.usable_bytes / GIB - total_gib) > max(_SAME_CARD_GIB, 0.05 * total_gib)


def _nearest(total_gib: float, name: str) -> GpuType:
    generation = _generation(name)
    cards = [gpu for gpu in _types().values() if (gpu.vendor is Vendor.AMD) is _says_amd(name)]
    if generation is not None:
        cards = [gpu for gpu in cards if gpu.compute_capability == generation]
    return min(cards, key=lambda gpu: _distance(gpu, total_gib))


def _says_amd(name: str) -> bool:
    return re.search(r"AMD|INSTINCT|RADEON", name.upper()) is not None


def _generation(name: str) -> tuple[int, int] | None:
    """Compute capability by the series that a card's name belongs to, for cards that are not catalogued."""
    for entry in _document()["series"]:
        if re.search(entry["pattern"], name.upper()):
            return entry["compute_capability"][0], entry["compute_capability"][1]
    return None


@cache
def _patterns() -> tuple[tuple[str, str | None], ...]:
    return tuple((entry["pattern"], entry["type"]) for entry in _document()["names"])


@cache
def _types() -> dict[str, GpuType]:
    """Whole cards: no record is of a slice, and a slice's memory would be taken for a small card's."""
    cards = (gpu for gpu in load_gpu_types() if not gpu.is_slice)
    return {gpu.name: gpu for gpu in (*cards, *map(_type, _document()["types"]))}


def _type(entry: dict[str, Any]) -> GpuType:
    capability = entry.get("compute_capability")
    return GpuType(
        name=entry["name"],
        vendor=Vendor(entry["vendor"]),
        product_labels=(),
        usable_bytes=int(entry["usable_gib"] * GIB),
        total_bytes=int(entry["total_gib"] * GIB),
        compute_capability=(capability[0], capability[1]) if capability else None,
        gfx=entry.get("gfx"),
        interconnect=Interconnect.PCIE,
        scale_up_gpus=1,
        memory_bandwidth_gb_per_second=entry["bandwidth"],
    )


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return document
