"""The speed of each catalogued GPU type: the card's own figures, and the constants of its generation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pkgutil import get_data
from typing import Any

from plimsoll.domain.cluster.gpus import Curve, Efficiency, GpuSpeed, Links, Peaks, Trust

_MICROSECONDS = 1_000_000


def speed_of(entry: Mapping[str, Any]) -> GpuSpeed | None:
    """Return the speed of the GPU of one entry of ``gpus.json``; None where the catalogue has no peaks for it."""
    card = _document("speeds.json")["cards"].get(entry["name"])
    if card is None:
        return None
    fitted = _document("performance.json")
    family = next(each for each in fitted["families"] if _belongs(entry, each))
    return GpuSpeed(
        family=family["name"],
        peaks=Peaks(**card["tflops"]),
        efficiency=Efficiency(**family["efficiency"]),
        trust=_trust(entry["name"], family, fitted["trust"]),
        links=_links(card, entry["interconnect"]),
    )


def slice_speed(card: GpuSpeed | None, compute: Fraction) -> GpuSpeed | None:
    """Return the speed of a slice with that share of the card's compute. A slice works alone."""
    if card is None:
        return None
    peaks, share = card.peaks, float(compute)
    scaled = Peaks(
        bf16=peaks.bf16 * share,
        fp8=_times(peaks.fp8, share),
        fp4=_times(peaks.fp4, share),
        int8=_times(peaks.int8, share),
    )
    return replace(card, peaks=scaled, links=None)


def _times(peak: float | None, share: float) -> float | None:
    return None if peak is None else peak * share


def _belongs(entry: Mapping[str, Any], family: Mapping[str, Any]) -> bool:
    generation = entry["gfx"] or entry["compute_capability"]
    return any(generation.startswith(each) for each in family["generations"])


def _trust(name: str, family: Mapping[str, Any], classes: Mapping[str, Any]) -> Trust:
    """Return the class of a card: its own if it was measured, else the one of its family."""
    kind = family["cards"].get(name, family["trust"])
    found = classes[kind]
    return Trust(kind, found["validated"], tuple(found["tpot"]), tuple(found["ttft"]))


def _links(card: Mapping[str, Any], interconnect: str) -> Links | None:
    rate = card.get("link_gb_per_second")
    if rate is None:
        return None
    measured = min(
        _document("speeds.json")["links"].values(),
        key=lambda link: ((link["interconnect"] == "pcie") is not (interconnect == "pcie"), _ratio(link, rate)),
    )
    return Links(
        gb_per_second=rate,
        pair_gb_per_second=card.get("pair_gb_per_second", rate),
        measured_gb_per_second=measured["link_gb_per_second"],
        all_reduce=_curves(measured["bytes"], measured["all_reduce_us"]),
        all_to_all=_curves(measured["bytes"], measured["all_to_all_us"]),
    )


def _ratio(link: Mapping[str, Any], rate: float) -> float:
    other = float(link["link_gb_per_second"])
    return max(other / rate, rate / other)


def _curves(sizes: Sequence[int], times: Mapping[str, Sequence[float]]) -> tuple[tuple[int, Curve], ...]:
    return tuple(
        (int(gpus), tuple((size, time / _MICROSECONDS) for size, time in zip(sizes, each, strict=True)))
        for gpus, each in times.items()
    )


@cache
def _document(name: str) -> Any:
    return json.loads(get_data("plimsoll.catalog", name) or b"")
