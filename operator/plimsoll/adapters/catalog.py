"""The catalogue that ships with the package: GPU types with their speeds, and the facts of well-known models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pkgutil import get_data
from types import MappingProxyType
from typing import Any

from plimsoll.api.price_list import read_price_list
from plimsoll.domain.cluster.gpus import (
    Band,
    Curve,
    Efficiency,
    EngineSpeed,
    GpuSpeed,
    GpuType,
    Interconnect,
    Links,
    MigSlice,
    Peaks,
    Price,
    Trust,
    Vendor,
    WeightKind,
)
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.units import MIB

_FORMAT = re.compile(
    r"(-(bf16|fp16|fp8(-dynamic|-block)?|nvfp4|mxfp4|awq|gptq|autoround|bnb|int[48]|[48]-?bit|(quantized\.)?w\d+a\d+))+$"
)
"""The words for a number format at the end of a checkpoint's name."""

_MICROSECONDS = 1_000_000


@cache
def load_gpu_types() -> tuple[GpuType, ...]:
    """Return every catalogued GPU type, sorted by name: whole GPUs and the slices they can be cut into.

    Raises:
        ValueError: the shipped files name a type or a label twice, or hold a price that cannot be used. That is a bug
            in the package.
    """
    entries = _document("gpus.json")["gpus"]
    prices = _prices(frozenset(entry["name"] for entry in entries))
    types = tuple(sorted((gpu for entry in entries for gpu in _gpu_types(entry, prices)), key=lambda gpu: gpu.name))
    _refuse_duplicates("GPU type", [gpu.name for gpu in types])
    _refuse_duplicates("product label", [label.casefold() for gpu in types for label in gpu.product_labels])
    return types


def load_model_facts(name: str) -> ModelFacts | None:
    """Return the facts of one model by its exact name on the Hub; None if the catalogue does not have it."""
    return _catalogued(name) if name in _models() else None


@cache
def _catalogued(name: str) -> ModelFacts:
    # The readers of configurations are most of a command's imports. Lists of names and of GPUs do not need them.
    from plimsoll.facts.models.config_json import read_model_facts  # noqa: PLC0415

    entry = _models()[name]
    return read_model_facts(
        name, _config(entry), revision=None, source=FactsSource.CATALOG, parameters=entry.get("parameters")
    )


def catalogued_models() -> tuple[str, ...]:
    """Return the names of all catalogued models, sorted."""
    return tuple(sorted(_models()))


def other_checkpoints(name: str) -> tuple[ModelFacts, ...]:
    """Return the catalogued quantized checkpoints of the same model, sorted; empty if the name is not known.

    Checkpoints of one model share their name up to the publisher and the words for the number format. Their sizes must
    be equal too.
    """
    return _quantized_namesakes(name) if name in _models() else ()


@cache
def _quantized_namesakes(name: str) -> tuple[ModelFacts, ...]:
    own = _catalogued(name)
    namesakes = (each for each in catalogued_models() if each != name and model_title(each) == model_title(name))
    found = map(_catalogued, namesakes)
    return tuple(facts for facts in found if facts.checkpoint.precision.is_quantized and _sizes(facts) == _sizes(own))


def model_title(name: str) -> str:
    """Return a model's name without its publisher and its number format: ``llama-3.1-8b-instruct``."""
    title = name.rpartition("/")[2].lower().removeprefix("meta-")
    return _FORMAT.sub("", title)


def _sizes(model: ModelFacts) -> tuple[object, ...]:
    return model.architecture, model.hidden, model.heads, model.vocabulary, model.layers, model.max_context_tokens


def _prices(known: frozenset[str]) -> Mapping[str, Price]:
    """Return the prices of the shipped market list. It is a file of its own: prices change, and hardware does not."""
    found = read_price_list(_text("prices.csv"), "catalog", known)
    if found.complaints:
        raise ValueError(f"the catalogue's prices cannot be used: {found.complaints[0]}")
    return found.prices


def _gpu_types(entry: Mapping[str, Any], prices: Mapping[str, Price]) -> Iterator[GpuType]:
    card = _gpu_type(entry, prices.get(entry["name"]))
    yield card
    if mig := entry.get("mig"):
        for profile, part in mig["profiles"].items():
            memory = Fraction(part["memory_slices"], mig["memory_slices"])
            compute = Fraction(int(profile.partition("g.")[0]), mig["compute_slices"])
            share = max(memory, compute)
            slice_ = _slice(card, MigSlice(card.name, profile, share), memory, part["mib"] * MIB)
            yield replace(slice_, speed=_slice_speed(card.speed, compute))


def _slice(card: GpuType, mig: MigSlice, memory: Fraction, size: int) -> GpuType:
    """Return the type of one slice. Its bandwidths follow its share of the memory; slices have no fast interconnect.

    ``size`` does not include the driver's part: PyTorch prints 39.25 GiB for a slice labelled 40,192 MiB.
    """
    return replace(
        card,
        name=f"{card.name}-mig-{mig.profile}",
        product_labels=tuple(f"{label}-MIG-{mig.profile}" for label in card.product_labels),
        usable_bytes=size,
        total_bytes=size,
        interconnect=Interconnect.PCIE,
        scale_up_gpus=1,
        memory_bandwidth_gb_per_second=int(card.memory_bandwidth_gb_per_second * memory),
        host_bandwidth_gb_per_second=max(1, int(card.host_bandwidth_gb_per_second * memory)),
        price=None if card.price is None else mig.price(card.price),
        mig=mig,
    )


def _gpu_type(entry: Mapping[str, Any], price: Price | None) -> GpuType:
    capability = entry["compute_capability"]
    major, minor = capability.split(".") if capability else (0, 0)
    return GpuType(
        name=entry["name"],
        vendor=Vendor(entry["vendor"]),
        product_labels=tuple(entry["product_labels"]),
        usable_bytes=entry["usable_mib"] * MIB,
        total_bytes=entry["total_mib"] * MIB,
        compute_capability=(int(major), int(minor)) if capability else None,
        gfx=entry["gfx"],
        interconnect=Interconnect(entry["interconnect"]),
        scale_up_gpus=entry["scale_up_gpus"],
        memory_bandwidth_gb_per_second=entry["memory_bandwidth_gb_per_second"],
        host_bandwidth_gb_per_second=entry["host_bandwidth_gb_per_second"],
        unified_memory=entry.get("unified_memory", False),
        speed=_speed_of(entry),
        price=price,
        family=entry["family"],
        has_server_edition=entry.get("server_edition", False),
        architecture=entry.get("architecture", ""),
    )


def _speed_of(entry: Mapping[str, Any]) -> GpuSpeed | None:
    """Return the speed of the GPU of one entry of ``gpus.json``; None if the catalogue has no peaks for it."""
    card = _document("speeds.json")["cards"].get(entry["name"])
    if card is None:
        return None
    fitted = _document("performance.json")
    family = next(each for each in fitted["families"] if _is_of_family(entry, each))
    return GpuSpeed(
        family=family["name"],
        peaks=Peaks(**card["tflops"]),
        efficiency=Efficiency(**family["efficiency"]),
        trust=_trust(family["cards"].get(entry["name"], family["trust"]), family["name"]),
        links=_links(card, entry["interconnect"]),
        others=tuple(_engine_speed(name, entry["name"], family) for name in fitted["engines"]),
    )


def _engine_speed(engine: str, card: str, family: Mapping[str, Any]) -> EngineSpeed:
    """Return the speed of a card with an engine that has rows of its own."""
    own = _document("performance.json")["engines"][engine]
    name = own["cards"].get(card, own["families"].get(family["name"], own["trust"]))
    values = {key: value * own["factors"].get(key, 1.0) for key, value in family["efficiency"].items()}
    return EngineSpeed(engine, Efficiency(**values), _trust(name, family["name"], engine))


def _slice_speed(card: GpuSpeed | None, compute: Fraction) -> GpuSpeed | None:
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


def _is_of_family(entry: Mapping[str, Any], family: Mapping[str, Any]) -> bool:
    generation = entry["gfx"] or entry["compute_capability"]
    return any(generation.startswith(each) for each in family["generations"])


@cache
def _trust(name: str, family: str, engine: str = "") -> Trust:
    """Return the bands of the cards of one class in a family, for every kind of weights, few and many sequences.

    ``engine`` is one with rows of its own; empty for the usual one.
    """
    few, many = ([_band(name, family, kind, load, engine) for kind in WeightKind] for load in ("few", "many"))
    return Trust(name, tuple(zip(few, many, strict=True)))


def _band(name: str, family: str, kind: WeightKind, load: str, engine: str) -> Band:
    document = _document("performance.json")
    common = document["bands"]
    bands = document["engines"][engine]["bands"] if engine else common
    wider = common["wider"].get(name, 1.0)
    (tpot, rows), (ttft, starts) = _cell(bands["tpot"], family, kind, load), _cell(bands["ttft"], family, kind, load)
    # Few rows of an engine have a first token that can be scored.
    least = min(rows, starts) if engine else rows
    is_validated = name == "measured" and least >= common["validated_rows"]
    return Band((tpot[0] / wider, tpot[1] * wider), (ttft[0] / wider, ttft[1] * wider), is_validated)


def _cell(figure: Mapping[str, Any], family: str, kind: WeightKind, load: str) -> tuple[Sequence[float], int]:
    """Return the edges of the narrowest cell that has rows, and their number."""
    for cell in figure["cells"]:
        if cell["load"] == load and cell["weights"] == kind and cell.get("family", family) == family:
            return cell["edges"], cell["rows"]
    return figure["usual"], 0


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


def _config(entry: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the entry's configuration. If it shares the shape of another model, its fields replace that model's."""
    shape_of = entry.get("shape_of")
    base = _models()[shape_of]["config"] if shape_of else {}
    return {**base, **entry.get("config", {})}


@cache
def _models() -> Mapping[str, Mapping[str, Any]]:
    entries = _document("models.json")["models"]
    _refuse_duplicates("model", [entry["name"] for entry in entries])
    return MappingProxyType({entry["name"]: entry for entry in entries})


@cache
def _document(name: str) -> Any:
    return json.loads(_text(name))


def _text(name: str) -> str:
    return (get_data("plimsoll.catalog", name) or b"").decode()


def _refuse_duplicates(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the catalogue names a {what} twice: {', '.join(twice)}")
