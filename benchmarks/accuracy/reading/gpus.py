"""Which GPU a record means: by the name it writes, or by its total memory alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.units import GIB

_FILE = Path(__file__).resolve().parents[1] / "data" / "gpus.json"
_SAME_CARD_GIB = 0.6
"""How far a printed total may be from the catalogue's for a name to be believed before the total."""


@dataclass(frozen=True, slots=True)
class FoundGpu:
    """A GPU, and whether its memory was stated (else it is the catalogue's)."""

    gpu: GpuType
    is_stated: bool


def find_gpu(name: str | None, total_gib: float | None) -> FoundGpu | None:
    """The GPU that a record means; a stated total replaces the catalogue's usable memory.

    A total without a name, or with a name that is not known, gives a card of that memory with the properties of the
    catalogued card that is nearest to it in memory, of the same generation where the name tells one. Returns None where
    the record states neither.
    """
    named = _by_name(name) if name else None
    if total_gib is None:
        return None if named is None else FoundGpu(named, is_stated=False)
    if named is None or _is_other_card(named, total_gib):
        named = _nearest(total_gib, name or "")
    return FoundGpu(replace(named, usable_bytes=int(total_gib * GIB)), is_stated=True)


def is_a100(gpu: GpuType) -> bool:
    """Whether the engine's defaults treat the card as an A100."""
    return gpu.name.startswith("a100")


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
    generation, is_amd = _generation(name), re.search(r"AMD|INSTINCT|RADEON", name.upper()) is not None
    cards = [gpu for gpu in _types().values() if (gpu.vendor is Vendor.AMD) is is_amd]
    if generation is not None:
        cards = [gpu for gpu in cards if gpu.compute_capability == generation]
    return min(cards, key=lambda gpu: (abs(gpu.usable_bytes / GIB - total_gib), gpu.name))


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
